"""A model as plain data: what every format is read into and written from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from elmore.config import ModelConfig, tensor_shapes
from elmore.errors import FormatError, shortened
from elmore.formats.cards.card import Card
from elmore.formats.storage.int8 import StoredTensor, dequantize
from elmore.text.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model's shape, its numbers, and what belongs to them.

    `tensors` has the names and shapes of `elmore.config.tensor_shapes`, in float32, or in int8 where a
    file has them so.
    """

    config: ModelConfig
    tensors: Mapping[str, StoredTensor]
    vocabulary: Vocabulary | None = None
    character_vocabulary: Mapping[str, int] | None = None  # of a code point alphabet: the row of each
    start: Mapping[str, Tensor] | None = None  # "h" (layers, directions, vector_dim) and "c" (…, cell_dim), if warm
    softmax: Callable[[], Mapping[str, StoredTensor]] | None = (
        None  # "weight" (words, vector_dim), "bias"; read when called
    )
    mixes: Mapping[str, Tensor] | None = None  # a task's: "mixes.0.scalars" (num_layers,), "mixes.0.gamma" (), …
    card: Card = Card()

    def float_tensors(self) -> dict[str, Tensor]:
        """The tensors in float32, as a network or another program takes them."""
        return dequantize(self.tensors)

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
            if isinstance(tensor, Tensor) and tensor.dtype != torch.float32:
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
