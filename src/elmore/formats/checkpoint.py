"""A model as plain data, and the interface of file formats, which read and write such a `Checkpoint`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmore.config import ModelConfig, tensor_shapes
from elmore.display import join_names
from elmore.errors import FormatError
from elmore.formats.arrays import Floats, Int8Array, StoredArray, check_shapes, dequantize
from elmore.formats.card import ModelCard
from elmore.formats.storage.container import Container
from elmore.text.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The configuration, the named NumPy arrays, the vocabulary and the card of a model.

    `tensors` has the names and shapes of `elmore.config.tensor_shapes`, in float32, or in int8 if the file of the
    model stores int8.
    """

    config: ModelConfig
    tensors: Mapping[str, StoredArray]
    vocabulary: Vocabulary | None = None
    character_vocabulary: Mapping[str, int] | None = None  # of a code point alphabet: the row of each character
    start: Mapping[str, Floats] | None = None  # warm state: "h" (layers, directions, vector_dim), "c" (…, cell_dim)
    softmax: Callable[[], Mapping[str, StoredArray]] | None = None  # reads "weight" (words, vector_dim) and "bias"
    mixes: Mapping[str, Floats] | None = None  # of a task: "mixes.0.scalars" (num_layers,), "mixes.0.gamma" (), …
    card: ModelCard = ModelCard()

    def float_arrays(self) -> dict[str, Floats]:
        """The tensors in float32."""
        return dequantize(self.tensors)

    def check(self) -> None:
        """Raise FormatError unless names, shapes and types of all tensors, and the vocabulary, fit the config."""
        for name, array in self.tensors.items():
            if not isinstance(array, np.ndarray | Int8Array):
                raise FormatError(f"{name} is a {type(array).__name__}; a NumPy array is required")
            if isinstance(array, np.ndarray) and array.dtype != np.float32:
                raise FormatError(f"{name} has the type {array.dtype}; float32 is required")
        check_shapes(self.tensors, tensor_shapes(self.config))
        if self.config.word_embedding_dim:
            self._check_vocabulary()

    def _check_vocabulary(self) -> None:
        if self.vocabulary is None:
            raise FormatError(
                "this model reads words, and its vocabulary is missing; put vocab.txt next to the weights"
            )
        if len(self.vocabulary) > self.config.vocab_size:
            raise FormatError(
                f"the vocabulary has {len(self.vocabulary)} words and the word table {self.config.vocab_size} rows"
            )
        check_boundaries(self.vocabulary, self.config)


def check_boundaries(vocabulary: Vocabulary, config: ModelConfig) -> None:
    """Raise FormatError unless the vocabulary contains the words before and after each sentence."""
    if missing := [word for word in (config.bos_token, config.eos_token) if word not in vocabulary]:
        raise FormatError(f"the vocabulary lacks {join_names(missing)}, the boundary words of sentences")


class Format(NamedTuple):
    """A file format; `elmore.formats.all_formats` lists all."""

    name: str
    detect: Callable[[Container], bool]  # by the names of files, or by a small file; never raises
    read: Callable[[Container], Checkpoint]
    write: Callable[[Checkpoint, Path], None] | None = None  # into a folder; None: this format is only read
    files: str = ""  # its files for messages, as "options.json and weights.hdf5"
