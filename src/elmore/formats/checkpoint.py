"""A model as plain data: what every format is read into and written from."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import torch
from torch import Tensor

from elmore.config import ModelConfig, tensor_shapes
from elmore.errors import FormatError, shortened
from elmore.text.style import TOKENIZER_VERSIONS, TOKENIZERS, TextStyle
from elmore.text.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is known of a model beside its numbers."""

    name: str = ""
    description: str = ""
    licence: str = ""
    source: str = ""  # where it came from: the path or address it was first read from
    format: str = ""  # the format it had there
    text: TextStyle = TextStyle()
    start_state: str = "zeros"  # or "warm": the stored state, and how it was made stands in start_state_from
    start_state_from: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)  # what a source says of itself, kept as it is

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave; unknown or ill-typed fields are errors that name them."""
        values = _known(cls, values)
        for name in values.keys() - {"text", "extra"}:
            if not isinstance(values[name], str):
                raise FormatError(f"{name} is {values[name]!r}; it must be a string")
        if not isinstance(values.get("extra", {}), dict):
            raise FormatError(f"extra is {values['extra']!r}; it must be an object")
        if values.get("start_state", "zeros") not in ("zeros", "warm"):
            raise FormatError(f"start_state is {values['start_state']!r}; it must be zeros or warm")
        if "text" in values:
            values["text"] = _text_style(values["text"])
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model's shape, its numbers, and what belongs to them.

    `tensors` has the names and shapes of `elmore.config.tensor_shapes`, in float32.
    """

    config: ModelConfig
    tensors: Mapping[str, Tensor]
    vocabulary: Vocabulary | None = None
    characters: Mapping[str, int] | None = None  # the table of a code point alphabet
    start: Mapping[str, Tensor] | None = None  # "h" (layers, directions, vector_dim) and "c" (…, cell_dim), if warm
    softmax: Callable[[], Mapping[str, Tensor]] | None = None  # "weight" (words, vector_dim), "bias"; read when called
    mixes: Mapping[str, Tensor] | None = None  # a task's: "mixes.0.scalars" (num_layers,), "mixes.0.gamma" (), …
    card: Card = Card()

    def check(self) -> None:
        """Compare names, shapes and kinds of all tensors with the config; the error names what does not fit."""
        needed = tensor_shapes(self.config)
        if missing := sorted(needed.keys() - self.tensors.keys()):
            raise FormatError(f"tensors are missing: {shortened(missing)}")
        if unexpected := sorted(self.tensors.keys() - needed.keys()):
            raise FormatError(f"tensors that no such model has: {shortened(unexpected)}")
        for name, shape in needed.items():
            tensor = self.tensors[name]
            if tuple(tensor.shape) != shape:
                raise FormatError(f"{name} has shape {tuple(tensor.shape)}; the configuration needs {shape}")
            if tensor.dtype != torch.float32:
                raise FormatError(f"{name} holds {tensor.dtype}; float32 is needed")
        if self.config.word_dim:
            if self.vocabulary is None:
                raise FormatError("this model reads words, and its vocabulary is missing")
            if len(self.vocabulary) > self.config.n_words:
                raise FormatError(
                    f"the vocabulary has {len(self.vocabulary)} words and the word table {self.config.n_words} rows"
                )
            for word in (self.config.begin, self.config.end):
                if word not in self.vocabulary:
                    raise FormatError(f"the vocabulary lacks {word}, which opens or ends every sentence")


def _known(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise FormatError(f"found {str(values)[:60]!r} where an object was expected")
    known = {field.name for field in fields(cls)}
    if unknown := sorted(values.keys() - known):
        raise FormatError(f"unknown field {shortened(unknown)}; known are {', '.join(sorted(known))}")
    return dict(values)


def _text_style(values: Any) -> TextStyle:
    values = _known(TextStyle, values)
    if values.get("tokenizer", "moses") not in TOKENIZERS:
        raise FormatError(f"text.tokenizer is {values['tokenizer']!r}; it must be one of {', '.join(TOKENIZERS)}")
    version = values.get("tokenizer_version", 1)
    if type(version) is not int or version not in TOKENIZER_VERSIONS:
        raise FormatError(
            f"text.tokenizer_version is {version!r}; this program knows {', '.join(map(str, TOKENIZER_VERSIONS))}, "
            "a newer elmore may know it"
        )
    for name in ("lowercase", "escape"):
        if not isinstance(values.get(name, False), bool):
            raise FormatError(f"text.{name} is {values[name]!r}; it must be true or false")
    if not isinstance(values.get("language", ""), str):
        raise FormatError(f"text.language is {values['language']!r}; it must be a language code")
    return TextStyle(**values)
