"""Split raw text into sentences and tokens in the token style of a task's data, with offsets."""

from dataclasses import dataclass
from typing import NamedTuple

from elmore.tasks.core.config import TaskOptions
from elmore.text.paragraphs import UNWRAP_ADVICE
from elmore.text.splitting import split_text
from elmore.text.style import DEFAULT_LANGUAGE, TOKENIZER_VERSION, TokenizerConfig, TokenStyle
from elmore.text.token_styles import tokenize_in_style


class TokenizedSentence(NamedTuple):
    """The tokens of a sentence, and their offsets."""

    tokens: list[str]
    offsets: list[tuple[int, int]]  # for each token, its characters [start, end) in the text


@dataclass(frozen=True)
class StyledTokenizer:
    """Tokenizes text in one token style.

    >>> StyledTokenizer("ud").tokens("I don't.")
    TokenizedSentence(tokens=['I', 'do', "n't", '.'], offsets=[(0, 1), (2, 4), (4, 7), (7, 8)])
    """

    token_style: TokenStyle
    language: str = DEFAULT_LANGUAGE
    name: str = "the text"  # in warnings

    def sentences(self, text: str) -> list[TokenizedSentence]:
        """The sentences of a text."""
        style = TokenizerConfig(tokenizer_version=TOKENIZER_VERSION, language=self.language)
        sentences = []
        for span in split_text(text, style=style, advice=UNWRAP_ADVICE, name=self.name):
            tokens, offsets = self.tokens(text[span.start : span.end])
            sentences.append(
                TokenizedSentence(tokens, [(start + span.start, end + span.start) for start, end in offsets])
            )
        return sentences

    def tokens(self, text: str) -> TokenizedSentence:
        """The tokens of a text that is one sentence."""
        return TokenizedSentence(*tokenize_in_style(text, self.token_style, language=self.language))


def raw_text_tokenizer(options: TaskOptions, *, name: str = "the text") -> StyledTokenizer:
    """The tokenizer for data files that contain raw text; for them, the style "auto" is Moses."""
    return StyledTokenizer("moses" if options.token_style == "auto" else options.token_style, name=name)
