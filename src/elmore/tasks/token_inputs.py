"""The tokens of some sentences as a task's model reads them: numbers of words and characters, and ELMo's layers.

B sentences, T tokens, W distinct tokens of a batch, C characters, L layers, dim size of a biLM's vector.
"""

from collections.abc import Collection, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmore.tasks.token_vocabulary import NO_CHARACTER, TokenVocabulary

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
        cls, sentences: Sequence[Tokens], vocabulary: TokenVocabulary, layers: Sequence[Tensor] | None = None
    ) -> "TokenInputs":
        """Number the tokens; `layers` has those (T, L, dim) of each sentence.

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
            layers=pad_sequence(list(layers), batch_first=True) if layers else None,
        )

    def to(self, device: torch.device | str) -> "TokenInputs":
        def moved(part: Tensor) -> Tensor:
            return part.to(device, non_blocking=True)

        return self._replace(
            mask=moved(self.mask),
            words=moved(self.words),
            characters=moved(self.characters),
            distinct=moved(self.distinct),
            layers=None if self.layers is None else moved(self.layers),
        )


def _characters(words: Collection[str], vocabulary: TokenVocabulary) -> NDArray[np.int64]:  # (W, C)
    spelt = [vocabulary.character_numbers(word) for word in words]
    places = _filled(tuple(map(len, spelt)) or (0,), at_least=1)
    numbers = np.full(places.shape, NO_CHARACTER, dtype=np.int64)
    numbers[places] = list(chain.from_iterable(spelt))
    return numbers


def _filled(lengths: Sequence[int], *, at_least: int = 0) -> NDArray[np.bool_]:
    """A row for each length, true at so many places from its beginning."""
    places = np.arange(max(max(lengths, default=0), at_least))
    filled: NDArray[np.bool_] = places < np.array(lengths, dtype=np.int64).reshape(-1, 1)
    return filled
