"""The input of a task model: word ids, character ids and ELMo layers of a batch of sentences.

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
    """A batch of sentences, padded at the end."""

    tokens: Sequence[Tokens]
    lengths: tuple[int, ...]
    mask: Tensor  # (B, T) False for padding
    words: Tensor  # (B, T) word ids
    characters: Tensor  # (W, C) character ids of each distinct token
    token_types: Tensor  # (B, T) the row in `characters` of each token
    layers: Tensor | None = None  # (B, T, L, dim) of a frozen biLM; None without one

    @classmethod
    def of(
        cls,
        sentences: Sequence[Tokens],
        vocabulary: TokenVocabulary,
        layers: Sequence[NDArray[np.floating]] | None = None,
        *,
        pinned: bool = False,
    ) -> "TokenInputs":
        """Look up the ids of the tokens. `layers` are the layers (T, L, dim) of each sentence.

        With `pinned`, the layers are in pinned memory, for asynchronous copies to a GPU.

        >>> inputs = TokenInputs.of([["the", "bow"], ["bow"]], TokenVocabulary(("bow", "the"), characters=tuple("bow")))
        >>> inputs.words.tolist(), inputs.mask.tolist()
        ([[2, 1], [1, 0]], [[True, True], [True, False]])
        """
        lengths = tuple(map(len, sentences))
        numbers: dict[str, int] = {}
        rows = [numbers.setdefault(token, len(numbers)) for sentence in sentences for token in sentence]
        mask = _mask(lengths)
        token_types = np.zeros(mask.shape, dtype=np.int64)
        token_types[mask] = rows
        words = np.array([vocabulary.word_number(token) for token in numbers] or [0], dtype=np.int64)
        return cls(
            tokens=sentences,
            lengths=lengths,
            mask=torch.from_numpy(mask),
            words=torch.from_numpy(words[token_types] * mask),
            characters=torch.from_numpy(_characters(numbers, vocabulary)),
            token_types=torch.from_numpy(token_types),
            layers=_padded(layers, positions=mask.shape[1], pinned=pinned) if layers else None,
        )

    def to(self, device: torch.device) -> "TokenInputs":
        return self._replace(
            mask=send(self.mask, device),
            words=send(self.words, device),
            characters=send(self.characters, device),
            token_types=send(self.token_types, device),
            layers=None if self.layers is None else send(self.layers, device),
        )

    def scatter_to_tokens(self, numbers: Sequence[int]) -> Tensor:  # (B, T)
        """Numbers of all tokens, in the order of the sentences, as a padded batch; 0 for padding."""
        mask = _mask(self.lengths)
        scattered = np.zeros(mask.shape, dtype=np.int64)
        scattered[mask] = numbers
        return send(torch.from_numpy(scattered), self.mask.device)


def _padded(layers: Sequence[NDArray[np.floating]], *, positions: int, pinned: bool) -> Tensor:  # (B, T, L, dim)
    """The padded layers. They are most of the bytes of a batch, so they are copied only once."""
    dtype = torch.from_numpy(np.empty(0, layers[0].dtype)).dtype
    padded = torch.empty(len(layers), positions, *layers[0].shape[1:], dtype=dtype, pin_memory=pinned)
    for row, sentence in zip(padded.numpy(), layers, strict=True):
        row[: len(sentence)] = sentence
        row[len(sentence) :] = 0
    return padded


def _characters(words: Collection[str], vocabulary: TokenVocabulary) -> NDArray[np.int64]:  # (W, C)
    # A model without a character CNN has no characters in its vocabulary.
    lengths = tuple(map(len, words)) if vocabulary.characters else (0,) * len(words)
    mask = _mask(lengths or (0,), at_least=1)
    numbers = np.full(mask.shape, NO_CHARACTER, dtype=np.int64)
    if vocabulary.characters:
        numbers[mask] = vocabulary.character_numbers("".join(words))
    return numbers


def _mask(lengths: Sequence[int], *, at_least: int = 0) -> NDArray[np.bool_]:
    """(B, T) True at the first positions of each row, as many as its length. T is `at_least` or more."""
    positions = np.arange(max(max(lengths, default=0), at_least))
    mask: NDArray[np.bool_] = positions < np.array(lengths, dtype=np.int64).reshape(-1, 1)
    return mask
