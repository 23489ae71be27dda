"""The tokens of some sentences as a task's model reads them: numbers of words and characters, and ELMo's layers.

B sentences, T tokens, W distinct tokens of a batch, C characters, L layers, dim size of a biLM's vector.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
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
        longest = max(lengths, default=0)
        numbers: dict[str, int] = {}
        distinct = torch.zeros(len(sentences), longest, dtype=torch.int64)
        for row, sentence in enumerate(sentences):
            found = [numbers.setdefault(token, len(numbers)) for token in sentence]
            distinct[row, : len(found)] = torch.tensor(found, dtype=torch.int64)
        words = torch.tensor([vocabulary.word_number(token) for token in numbers] or [0], dtype=torch.int64)
        spelt = [torch.tensor(vocabulary.character_numbers(token), dtype=torch.int64) for token in numbers]
        mask = torch.arange(longest) < torch.tensor(lengths, dtype=torch.int64)[:, None]
        return cls(
            tokens=sentences,
            lengths=lengths,
            mask=mask,
            words=words[distinct] * mask,
            characters=pad_sequence(spelt, batch_first=True, padding_value=NO_CHARACTER)
            if spelt
            else torch.full((1, 1), NO_CHARACTER),
            distinct=distinct,
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
