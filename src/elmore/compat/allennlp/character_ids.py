"""Character ids as AllenNLP counts them: a byte or mark plus one, so that zeros can say that there is no word.

B sentences, n words, M characters a word.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

import torch
from torch import Tensor
from torch.nn.functional import pad

from elmore.errors import InputError
from elmore.text.batch import Batch
from elmore.text.spelling import ByteAlphabet, WordInputs

WIDTH = 50  # of a word; AllenNLP knows no other
LARGEST_ID = 261
NO_CHARACTER = 261  # to the network, one more than the last it knows; an id of 0 inside a word


def batch_to_ids(batch: Iterable[Sequence[str]]) -> Tensor:
    """Spell tokenised sentences: (B, n, 50), zeros beyond a sentence's end, no boundaries.

    >>> batch_to_ids([["I", "see"], ["hi"]])[..., :5].tolist()
    [[[259, 74, 260, 261, 261], [259, 116, 102, 102, 260]], [[259, 105, 106, 260, 261], [0, 0, 0, 0, 0]]]
    """
    sentences = tokenized(batch)
    alphabet = ByteAlphabet(WIDTH)
    ids = torch.zeros(len(sentences), max(map(len, sentences), default=0), WIDTH, dtype=torch.int64)
    for row, words in zip(ids, sentences, strict=True):
        row[: len(words)] = alphabet.spell(words) + 1
    return ids


def tokenized(batch: Iterable[Sequence[str]]) -> list[list[str]]:
    """The sentences as lists of words; a string where a list should be is an error, not a list of letters."""
    if isinstance(batch, str):
        raise InputError(f"a batch is a list of sentences, each a list of words; given was the string {batch[:40]!r}")
    sentences = []
    for number, sentence in enumerate(batch):
        if isinstance(sentence, str):
            raise InputError(
                f"sentence {number} is the string {sentence[:40]!r}; cut it into a list of words, "
                "with .split() where blanks divide them, with list() where each letter is one"
            )
        words = list(sentence)
        for position, word in enumerate(words):
            if not isinstance(word, str):
                raise InputError(f"sentence {number}, word {position} is {type(word).__name__}; it must be a string")
        sentences.append(words)
    return sentences


def batch_of_ids(ids: Tensor, *, boundaries: Tensor) -> Batch:
    """What the network reads, from ids (B, n, M); `boundaries` (2, M) spell the begin and the end of a sentence."""
    mask = _mask(ids, width=boundaries.shape[1])
    words, numbers = distinct_words(ids[mask])
    return _arranged(WordInputs(torch.cat([boundaries, words]), None), numbers, mask)


def add_boundaries(ids: Tensor, *, boundaries: Tensor) -> tuple[Tensor, Tensor]:
    """Ids (B, n + 2, M) with the boundaries (2, M) put around each sentence of ids (B, n, M), and their mask."""
    mask = _mask(ids, width=boundaries.shape[1])
    lengths = _lengths(mask)
    begin, end = boundaries + 1
    around = pad(ids, (0, 0, 1, 1))
    around[:, 0] = begin
    around[torch.arange(len(ids), device=ids.device), lengths + 1] = end
    return around, (around > 0).any(dim=-1)


def distinct_words(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Of word ids (N, M) the distinct rows (W, M) as the network counts characters, and the row (N,) of each word."""
    words, rows = torch.unique(ids, dim=0, return_inverse=True)
    return torch.where(words > 0, words - 1, NO_CHARACTER), rows


def batch_of_words(word_ids: Tensor) -> tuple[Batch, Tensor]:
    """Sentences from word ids (B, n), where 0 is padding: a batch without inputs, and its distinct word ids.

    The batch counts its words in the order of the distinct ids, after the two boundaries.
    """
    mask = word_ids > 0
    distinct, numbers = torch.unique(word_ids[mask], return_inverse=True)
    return _arranged(WordInputs(None, None), numbers, mask), distinct


def _mask(ids: Tensor, *, width: int) -> Tensor:
    """(B, n) true where there is a word."""
    if ids.dim() != 3 or ids.shape[-1] != width:
        advice = "as batch_to_ids makes them" if width == WIDTH else "so read it with elmore.Elmo or an ElmoEmbedder"
        raise InputError(
            f"character ids have the shape {tuple(ids.shape)}; this model reads (sentences, words, {width}), {advice}"
        )
    if ids.is_floating_point() or ((ids < 0) | (ids > LARGEST_ID)).any():
        raise InputError(f"character ids must be whole numbers from 0 to {LARGEST_ID}, as batch_to_ids makes them")
    return (ids > 0).any(dim=-1)


def _lengths(mask: Tensor) -> Tensor:
    """(B,) how many words each sentence has, by its mask (B, n)."""
    lengths = mask.sum(dim=1)
    if (mask != (torch.arange(mask.shape[1], device=mask.device) < lengths[:, None])).any():
        raise InputError("padding stands before or between words; it must follow the last word of a sentence")
    return lengths


def _arranged(inputs: WordInputs, numbers: Tensor, mask: Tensor) -> Batch:
    """Put the boundaries, numbered 0 and 1, around the words (numbered from 0) of each row of the mask (B, n)."""
    words = iter((numbers + 2).tolist())
    rows = [[0, *islice(words, length), 1] for length in _lengths(mask).tolist()]
    return Batch.of_rows(rows, inputs).to(mask.device)
