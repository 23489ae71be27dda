"""Models that read characters, and character ids as AllenNLP numbers them.

An id of AllenNLP is an id of Elmore plus one, so that zeros mark positions without a word.

B sentences, n positions for words, K words of all sentences, W distinct words, M characters of a word.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.errors import InputError, requires_torch
from elmore.model import Model, load
from elmore.sources import PUBLISHED
from elmore.text.word_ids import ByteAlphabet

if TYPE_CHECKING:
    from torch import Tensor

Ids = NDArray[np.int64]

# AllenNLP's default is the published original model.
DEFAULT_WEIGHT_FILE = PUBLISHED["original"]
DEFAULT_OPTIONS_FILE = DEFAULT_WEIGHT_FILE.replace("_weights.hdf5", "_options.json")

WIDTH = 50  # characters of a word; AllenNLP supports no other width
LARGEST_ID = 261
NO_CHARACTER = 261  # Elmore's id for an id of 0 inside a word: one more than the last row of the character table


def batch_to_ids(batch: Iterable[Sequence[str]]) -> "Tensor":
    """Character ids (B, n, 50) of tokenized sentences, without boundaries; zeros follow the end of a sentence.

    >>> batch_to_ids([["I", "see"], ["hi"]])[..., :5].tolist()
    [[[259, 74, 260, 261, 261], [259, 116, 102, 102, 260]], [[259, 105, 106, 260, 261], [0, 0, 0, 0, 0]]]
    """
    sentences = tokenized(batch)
    with requires_torch("batch_to_ids"):
        import torch
    alphabet = ByteAlphabet(WIDTH)
    ids = np.zeros((len(sentences), max(map(len, sentences), default=0), WIDTH), dtype=np.int64)
    for row, words in zip(ids, sentences, strict=True):
        row[: len(words)] = alphabet.index(words) + 1
    return torch.from_numpy(ids)


def tokenized(batch: Iterable[Sequence[str]]) -> list[list[str]]:
    """The sentences as lists of words; InputError for a string in place of a list."""
    if isinstance(batch, str):
        raise InputError(f"a batch is a list of sentences, each a list of words; it is the string {batch[:40]!r}")
    sentences = []
    for number, sentence in enumerate(batch):
        if isinstance(sentence, str):
            raise InputError(
                f"sentence {number} is the string {sentence[:40]!r}; pass a list of words: "
                "sentence.split() if spaces separate the words, list(sentence) if each letter is a word"
            )
        words = list(sentence)
        for position, word in enumerate(words):
            if not isinstance(word, str):
                raise InputError(f"sentence {number}, word {position} is {type(word).__name__}; it must be a string")
        sentences.append(words)
    return sentences


class CharacterModel(NamedTuple):
    """A model that reads characters, and the characters of the two boundary words."""

    model: Model
    boundaries: Ids  # (2, M)


def load_character_model(options_file: str | Path | None, weight_file: str | Path | None) -> CharacterModel:
    """Load the model in the two files; InputError if a file is missing or the model reads whole words."""
    # `load` without files would return the shipped model.
    if options_file is None or weight_file is None:
        raise InputError("give both options_file and weight_file, as paths or URLs")
    model = load(options_file=options_file, weight_file=weight_file)
    alphabet = model.word_indexer.alphabet
    if alphabet is None:
        raise InputError(f"{weight_file} is a model that reads whole words; open it with elmore.Embedder")
    return CharacterModel(model, alphabet.index([model.config.bos_token, model.config.eos_token]))


class IndexedWords(NamedTuple):
    """A batch of character ids as the network reads it: each distinct word once."""

    characters: Ids  # (W, M) of the two boundaries, then of the distinct words, as Elmore numbers characters
    numbers: Ids  # (K,) the row of each word in `characters`
    lengths: Ids  # (B,) words of each sentence


def index_words(ids: NDArray[np.integer], *, boundaries: Ids) -> IndexedWords:
    """The distinct words of ids (B, n, M); `boundaries` (2, M) are the characters of the two boundary words."""
    mask = _mask(ids, width=boundaries.shape[1])
    words, numbers = distinct_words(ids[mask])
    return IndexedWords(np.concatenate([boundaries, words]), numbers + 2, _lengths(mask))


def add_boundaries(ids: NDArray[np.integer], *, boundaries: Ids) -> tuple[Ids, NDArray[np.bool_]]:
    """Ids (B, n + 2, M) with the boundaries (2, M) around each sentence of ids (B, n, M), and their mask."""
    mask = _mask(ids, width=boundaries.shape[1])
    begin, end = boundaries + 1
    around = np.pad(ids, ((0, 0), (1, 1), (0, 0)))
    around[:, 0] = begin
    around[np.arange(len(ids)), _lengths(mask) + 1] = end
    return around, np.asarray(np.any(around > 0, axis=-1))


def distinct_words(ids: NDArray[np.integer]) -> tuple[Ids, Ids]:
    """The distinct rows (W, M) of word ids (N, M), as Elmore numbers characters, and the row (N,) of each word."""
    words, rows = np.unique(ids, axis=0, return_inverse=True)
    return np.where(words > 0, words - 1, NO_CHARACTER).astype(np.int64), rows.reshape(-1)


def index_word_ids(word_ids: NDArray[np.integer]) -> tuple[IndexedWords, Ids]:
    """Sentences from word ids (B, n), 0 for padding; and the distinct word ids, whose numbers start at 2."""
    mask = word_ids > 0
    distinct, numbers = np.unique(word_ids[mask], return_inverse=True)
    return IndexedWords(np.empty((0, 0), np.int64), numbers + 2, _lengths(mask)), distinct


def _mask(ids: NDArray[np.integer], *, width: int) -> NDArray[np.bool_]:
    """(B, n) true where there is a word."""
    if ids.ndim != 3 or ids.shape[-1] != width:
        advice = "as batch_to_ids makes them" if width == WIDTH else "which only elmore.Elmo and ElmoEmbedder can read"
        raise InputError(
            f"character ids have the shape {tuple(ids.shape)}; this model reads (sentences, words, {width}), {advice}"
        )
    if not np.issubdtype(ids.dtype, np.integer) or ((ids < 0) | (ids > LARGEST_ID)).any():
        raise InputError(f"character ids must be whole numbers from 0 to {LARGEST_ID}, as batch_to_ids makes them")
    return np.asarray(np.any(ids > 0, axis=-1))


def _lengths(mask: NDArray[np.bool_]) -> Ids:
    """(B,) the number of words of each sentence, from the mask (B, n)."""
    lengths = mask.sum(axis=1)
    if (mask != (np.arange(mask.shape[1]) < lengths[:, None])).any():
        raise InputError("padding is before or between words; it must follow the last word of a sentence")
    return np.asarray(lengths, dtype=np.int64)
