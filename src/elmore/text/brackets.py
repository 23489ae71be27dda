"""One position of a sentence, marked with [brackets] by a user."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from elmore.errors import InputError
from elmore.text.style import PennStyle
from elmore.text.token_styles import retokenize
from elmore.text.tokenizer import Tokenizer


class BracketedWords(NamedTuple):
    """The words of a sentence without its brackets, and the indices of the words inside the brackets."""

    words: list[str]
    bracketed: range  # empty for empty brackets


def parse_brackets(sentence: str | Sequence[str], tokenizer: Tokenizer) -> BracketedWords:
    """Find the brackets in a string, or the bracketed word in a list of words.

    >>> from elmore.text.style import TokenizerConfig
    >>> parse_brackets("I took a [bow].", Tokenizer(TokenizerConfig()))
    BracketedWords(words=['I', 'took', 'a', 'bow', '.'], bracketed=range(3, 4))
    >>> parse_brackets(["I", "took", "a", "[]", "."], Tokenizer(TokenizerConfig()))
    BracketedWords(words=['I', 'took', 'a', '.'], bracketed=range(3, 3))
    """
    if isinstance(sentence, str):
        if len(brackets := list(re.finditer(r"\[([^\[\]]*)\]", sentence))) == 1:
            start, end = brackets[0].span()
            # Tokenized with the content, because the neighbors of a mark matter. Empty brackets become a space, so that
            # the neighbors do not become one word.
            content = brackets[0][1] or " "
            words, offsets = tokenizer.tokenize(sentence[:start] + content + sentence[end:])
            before = sum(right <= start for _, right in offsets)
            after = sum(left >= start + len(content) for left, _ in offsets)
            return BracketedWords(words, range(before, len(words) - after))
    else:
        indices = [index for index, word in enumerate(sentence) if word[:1] == "[" and word[-1:] == "]"]
        if len(indices) == 1:
            (index,) = indices
            bracketed = [sentence[index][1:-1]] if len(sentence[index]) > 2 else []
            words = [*sentence[:index], *bracketed, *sentence[index + 1 :]]
            return BracketedWords(words, range(index, index + len(bracketed)))
    raise InputError(
        f"mark exactly one position with [brackets], as in 'I took a [bow].'; the sentence is {sentence!r}"
    )


def retokenize_brackets(sentence: BracketedWords, tokenizer: Tokenizer, *, style: PennStyle) -> BracketedWords:
    """Convert tokens of a style to the tokenizer's words, as `retokenize` does, with the position of the brackets.

    If the bracketed token shares a word with a neighbor, the word belongs to the neighbor, unless the token has no
    other: in do [n't] the position is that of 't, after don.

    >>> from elmore.text.style import TokenizerConfig
    >>> penn = BracketedWords(["I", "do", "n't", "know"], range(2, 3))
    >>> retokenize_brackets(penn, Tokenizer(TokenizerConfig()), style="penn")
    BracketedWords(words=['I', 'don', "'t", 'know'], bracketed=range(2, 3))
    """
    words, spans = retokenize(sentence.words, tokenizer, style=style)
    index = sentence.bracketed.start
    before = spans[index - 1].stop if index else 0
    if not sentence.bracketed:
        return BracketedWords(words, range(before, before))
    span = spans[index]
    after = spans[index + 1].start if index + 1 < len(spans) else len(words)
    return BracketedWords(words, range(max(span.start, before), min(span.stop, after)) or span)
