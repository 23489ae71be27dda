"""Checks of arrays at the boundary of an engine: C++ code and GPUs trust the shapes, types and indices they receive."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from elmore.config import ModelConfig
from elmore.engine.rows import RowSteps
from elmore.errors import InputError
from elmore.text.word_ids import WordIds


def check_array(name: str, array: object, shape: Sequence[int | None], dtype: DTypeLike) -> None:
    """Raise InputError unless `array` is a NumPy array of this type and shape; None stands for any length.

    >>> check_array("state.h", np.zeros((2, 3), np.float32), (2, None), np.float32)
    """
    if not isinstance(array, np.ndarray):
        raise InputError(f"{name} is a {type(array).__name__}; it must be a NumPy array of shape {_text(shape)}")
    if array.dtype != np.dtype(dtype):
        raise InputError(f"{name} has dtype {array.dtype}; it must be {np.dtype(dtype)}")
    check_shape(name, array.shape, shape)


def check_shape(name: str, shape: Sequence[int], required: Sequence[int | None]) -> None:
    """Raise InputError unless a shape is the required one, in which None stands for any length."""
    fits = len(shape) == len(required) and all(
        length in (None, given) for length, given in zip(required, shape, strict=True)
    )
    if not fits:
        raise InputError(f"{name} has shape {tuple(shape)}; it must have shape {_text(required)}")


def check_indices(name: str, indices: NDArray[np.int64], size: int) -> None:
    """Raise InputError unless all indices are from 0 to `size` - 1."""
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        wrong = indices[(indices < 0) | (indices >= size)].flat[0]
        raise InputError(f"{name} contains {wrong}; it must be from 0 to {size - 1}")


def check_lengths(name: str, lengths: NDArray[np.int64], steps: int) -> None:
    """Raise InputError unless lengths are from 0 to `steps` and never increase."""
    if lengths.size and (lengths.min() < 0 or lengths.max() > steps):
        raise InputError(f"{name} are from {lengths.min()} to {lengths.max()}; they must be from 0 to {steps}")
    if np.any(lengths[1:] > lengths[:-1]):
        raise InputError(f"{name} must not increase from row to row; sort the rows, longest first")


def check_steps(steps: RowSteps, config: ModelConfig, *, table_rows: int) -> None:
    """Raise InputError unless a model can run these steps over a table with this number of rows."""
    check_array("steps.words", steps.words, (config.num_directions, None, None), np.int64)
    _, num_steps, num_rows = steps.words.shape
    check_array("steps.lengths", steps.lengths, (num_rows,), np.int64)
    check_lengths("steps.lengths", steps.lengths, num_steps)
    check_indices("steps.words", steps.words, table_rows)
    if steps.starts is not None:
        check_array("steps.starts", steps.starts, steps.words.shape, np.uint8)


def check_word_ids(ids: WordIds, config: ModelConfig) -> None:
    """Raise InputError unless a model can encode these words."""
    characters = config.characters
    has_words = bool(config.word_embedding_dim)
    if (ids.character_ids is None) != (characters is None) or (ids.word_ids is None) == has_words:
        raise InputError("the word ids are those of another model: characters or word numbers are missing")
    counts = {len(part) for part in ids if part is not None}
    if len(counts) > 1:
        raise InputError(
            f"the word ids contain {' and '.join(map(str, sorted(counts)))} words; both parts need one count"
        )
    if characters is not None and ids.character_ids is not None:
        check_array("character_ids", ids.character_ids, (None, None), np.int64)
        check_indices("character_ids", ids.character_ids, characters.n_characters)
        widest = max(width for width, _ in characters.filters)
        if ids.character_ids.shape[1] < widest:
            raise InputError(
                f"character_ids has {ids.character_ids.shape[1]} columns; the widest filter needs {widest}"
            )
    if ids.word_ids is not None:
        check_array("word_ids", ids.word_ids, (None,), np.int64)
        check_indices("word_ids", ids.word_ids, config.vocab_size)


def _text(shape: Sequence[int | None]) -> str:
    return f"({', '.join('any' if length is None else str(length) for length in shape)})"
