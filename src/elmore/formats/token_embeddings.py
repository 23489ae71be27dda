"""Token-embedding files: the vectors of the words of a vocabulary, computed once by a character encoder.

A file is HDF5 with one array `embedding` of (words, P), a row for each line of the vocabulary. It replaces the encoder
of a model, which then reads words instead of characters.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from elmore.config import tensor_shapes
from elmore.errors import FormatError, error_context
from elmore.files.atomic_files import atomic_write
from elmore.formats.arrays import Floats, StoredArray, check_finite
from elmore.formats.checkpoint import Checkpoint, check_boundaries
from elmore.formats.storage.container import explain_read_errors
from elmore.formats.storage.hdf5_arrays import list_arrays
from elmore.text.vocabulary import Vocabulary

_NAME = "embedding"


def read_token_embeddings(path: Path) -> Floats:
    """The vectors of a token-embedding file, (words, P)."""
    with explain_read_errors(str(path)), path.open("rb") as file, error_context(path):
        arrays = list_arrays(file)
        if _NAME not in arrays:
            raise FormatError(f"contains no array {_NAME}, which a token-embedding file has")
        vectors = np.array(arrays[_NAME].read())
        if vectors.ndim != 2:
            raise FormatError(f"{_NAME} has shape {vectors.shape}; a row for each word is required")
        check_finite(_NAME, vectors)
        return vectors


def write_token_embeddings(vectors: Floats, path: Path) -> None:
    """Write vectors (words, P) as a token-embedding file, which bilm-tf reads too."""
    from elmore.files.hdf5_output import new_hdf5

    with atomic_write(path) as unfinished, new_hdf5(unfinished) as output:
        output.add(_NAME, vectors)


def with_token_embeddings(checkpoint: Checkpoint, embeddings: Floats, vocabulary: Vocabulary) -> Checkpoint:
    """The model with a table of token vectors instead of its encoder; it reads the words of this vocabulary."""
    config = checkpoint.config
    rows, size = embeddings.shape
    if size != config.vector_dim:
        raise FormatError(f"the token embeddings have size {size}; this model needs {config.vector_dim}")
    if rows != len(vocabulary):
        raise FormatError(
            f"there are {rows} token embeddings for {len(vocabulary)} words; give the vocabulary of the file"
        )
    check_boundaries(vocabulary, config)
    config = replace(config, characters=None, vocab_size=rows, word_embedding_dim=size, token_projection=False)
    tensors: dict[str, StoredArray] = {"words.table": embeddings}
    tensors |= {name: checkpoint.tensors[name] for name in tensor_shapes(config) if name not in tensors}
    return replace(checkpoint, config=config, tensors=tensors, vocabulary=vocabulary, character_vocabulary=None)
