"""The tokens of some sentences as a task's model reads them: numbers of words and characters, and ELMo's layers.

B sentences, T tokens, W distinct tokens of a batch, C characters, L layers, dim size of a biLM's vector.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.nn.devices import send
from elmore.tasks.inputs.vocabulary import NO_CHARACTER, TokenVocabulary

Tokens = Sequence[str]


class TokenInputs(NamedTuple):
    """A batch of sentences; padding at the end of each."""

    tokens: Sequence[Tokens]
    lengths: tuple[int, ...]
    mask: Tensor  # (B, T) true where there is a token
    words: Tensor  # (B, T) numbers of words
    characters: Tensor  # (W, C) those of each distinct token
    distinct: Tensor  # (B, T) which of these stands where
    layers: Tensor | None = None  # (B, T, L, dim) of a biLM that is not trained; None: none, or read by the model

    @classmethod
    def of(
        cls,
        sentences: Sequence[Tokens],
        vocabulary: TokenVocabulary,
        layers: Sequence[NDArray[np.floating]] | None = None,
        *,
        pinned: bool = False,
    ) -> "TokenInputs":
        """Number the tokens; `layers` has those (T, L, dim) of each sentence.

        With `pinned` they are laid out in memory that a GPU can fetch by itself.

        >>> inputs = TokenInputs.of([["the", "bow"], ["bow"]], TokenVocabulary(("bow", "the"), characters=tuple("bow")))
        >>> inputs.words.tolist(), inputs.mask.tolist()
        ([[2, 1], [1, 0]], [[True, True], [True, False]])
        """
        lengths = tuple(map(len, sentences))
        numbers: dict[str, int] = {}
        found = [numbers.setdefault(token, len(numbers)) for sentence in sentences for token in sentence]
        mask = _filled(lengths)
        distinct = np.zeros(mask.shape, dtype=np.int64)
        distinct[mask] = found
        words = np.array([vocabulary.word_number(token) for token in numbers] or [0], dtype=np.int64)
        return cls(
            tokens=sentences,
            lengths=lengths,
            mask=torch.from_numpy(mask),
            words=torch.from_numpy(words[distinct] * mask),
            characters=torch.from_numpy(_characters(numbers, vocabulary)),
            distinct=torch.from_numpy(distinct),
            layers=_padded(layers, places=mask.shape[1], pinned=pinned) if layers else None,
        )

    def to(self, device: torch.device) -> "TokenInputs":
        return self._replace(
            mask=send(self.mask, device),
            words=send(self.words, device),
            characters=send(self.characters, device),
            distinct=send(self.distinct, device),
            layers=None if self.layers is None else send(self.layers, device),
        )

    def spread(self, numbers: Sequence[int]) -> Tensor:  # (B, T)
        """One number for each token, from the first of the first sentence to the last of the last, where it stands."""
        mask = _filled(self.lengths)
        spread = np.zeros(mask.shape, dtype=np.int64)
        spread[mask] = numbers
        return send(torch.from_numpy(spread), self.mask.device)


def _padded(layers: Sequence[NDArray[np.floating]], *, places: int, pinned: bool) -> Tensor:  # (B, T, L, dim)
    """Straight from where they lie: they are by far the most of a batch, and every copy of them takes its time."""
    dtype = torch.from_numpy(np.empty(0, layers[0].dtype)).dtype
    padded = torch.empty(len(layers), places, *layers[0].shape[1:], dtype=dtype, pin_memory=pinned)
    for row, own in zip(padded.numpy(), layers, strict=True):
        row[: len(own)] = own
        row[len(own) :] = 0
    return padded


def _characters(words: Collection[str], vocabulary: TokenVocabulary) -> NDArray[np.int64]:  # (W, C)
    # A model without a character CNN knows no character, and asks for none.
    lengths = tuple(map(len, words)) if vocabulary.characters else (0,) * len(words)
    places = _filled(lengths or (0,), at_least=1)
    numbers = np.full(places.shape, NO_CHARACTER, dtype=np.int64)
    if vocabulary.characters:
        numbers[places] = vocabulary.character_numbers("".join(words))
    return numbers


def _filled(lengths: Sequence[int], *, at_least: int = 0) -> NDArray[np.bool_]:
    """A row for each length, true at so many places from its beginning."""
    places = np.arange(max(max(lengths, default=0), at_least))
    filled: NDArray[np.bool_] = places < np.array(lengths, dtype=np.int64).reshape(-1, 1)
    return filled
