"""The tokenizer settings of a model, and the names of tokenizers and token styles."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

from elmore.fields import checked_field

TokenizerName = Literal["moses", "whitespace", "characters"]  # see `tokenizer`
TOKENIZERS: tuple[TokenizerName, ...] = get_args(TokenizerName)

PennStyle = Literal["penn", "nltk", "plain", "ud"]  # see `penn`
TokenStyle = Literal["moses", PennStyle]  # of tokenized input, and of data sets
TOKEN_STYLES: tuple[TokenStyle, ...] = ("moses", *get_args(PennStyle))
DEFAULT_TOKEN_STYLE: TokenStyle = "moses"
DEFAULT_LANGUAGE = "en"

TOKENIZER_VERSION = 2  # of new corpora and of models trained on them
TOKENIZER_VERSIONS = (1, 2)  # see `moses`


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How the training text of a model was tokenized; part of its card."""

    tokenizer: TokenizerName = "moses"
    # The default is the version of cards without this field.
    tokenizer_version: int = checked_field(
        1, at_least=1, at_most=TOKENIZER_VERSION, must_be=f"from 1 to {TOKENIZER_VERSION}; a newer elmore may know it"
    )
    language: str = DEFAULT_LANGUAGE  # chooses abbreviations and clitics, for sentences and words
    lowercase: bool = False
    escape: bool = False  # HTML escapes, such as &apos; for ', as in some Moses pipelines

    def with_overrides(self, **changes: Any) -> Self:
        """A copy with the changed fields whose values are not None.

        >>> TokenizerConfig(language="de").with_overrides(language=None, lowercase=True).language
        'de'
        """
        return replace(self, **{name: value for name, value in changes.items() if value is not None})
