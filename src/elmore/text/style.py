"""How the text of a model was prepared, so that new text can be prepared alike."""

from dataclasses import dataclass
from typing import Literal, get_args

from elmore.defaults import DEFAULT_LANGUAGE
from elmore.fields import checked_field

TokenizerName = Literal["moses", "whitespace", "characters"]
TOKENIZERS: tuple[TokenizerName, ...] = get_args(TokenizerName)

PennStyle = Literal["penn", "nltk", "plain", "ud"]  # `penn` says how they differ
TokenStyle = Literal["moses", PennStyle]  # of tokens that a user gives, and of data; see `token_style`
TOKEN_STYLES: tuple[TokenStyle, ...] = ("moses", *get_args(PennStyle))
DEFAULT_TOKEN_STYLE: TokenStyle = "moses"

TOKENIZER_VERSION = 2  # of new corpora, and so of models trained on them
TOKENIZER_VERSIONS = (1, 2)


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """What a model expects of its text; stands in its card."""

    tokenizer: TokenizerName = "moses"  # "characters": every symbol is a token, as in proteins
    # 1 is what a card that does not say means; see `moses` for what differs.
    tokenizer_version: int = checked_field(
        1, at_least=1, at_most=TOKENIZER_VERSION, must_be=f"from 1 to {TOKENIZER_VERSION}; a newer elmore may know it"
    )
    language: str = DEFAULT_LANGUAGE  # chooses abbreviations and clitics for tokeniser and splitter
    lowercase: bool = False
    escape: bool = False  # &apos; for ', as some Moses pipelines left it
