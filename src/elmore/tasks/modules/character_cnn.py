"""A word's vector from its characters, learned with the task.

    vector[f] = relu(max over places p of the word of filter f at the characters around p)

Ma and Hovy, 2016, with ReLU. This is a small part of a task's own model, beside its word vectors; the word encoder of
the biLM is another thing (`elmore.nn.word_encoder`), in which padding takes part as in its training.

W distinct words, C characters of the longest, B sentences, T tokens, F filters.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn


class CharacterCnn(nn.Module):
    """Vectors of a batch's words; each distinct word is encoded once.

    Characters are numbers from 1 on; 0 is padding, at the end of a word. A filter is put at every character of a word,
    and beyond both of its ends sees zeros: so it can tell a first and a last character, and a word may be shorter than
    it. A word without characters is a vector of zeros. `filters` are pairs of width and number; `dropout` is on the
    characters' own vectors.

    >>> cnn = CharacterCnn(num_characters=100)
    >>> words = torch.tensor([[5, 9, 2], [7, 0, 0]])  # two distinct words
    >>> cnn(words, torch.tensor([[0, 1, 0, 0]])).shape  # which stand in a sentence of four
    torch.Size([1, 4, 128])
    """

    def __init__(
        self,
        num_characters: int,
        *,
        character_dim: int = 16,
        filters: Sequence[tuple[int, int]] = ((3, 128),),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.output_dim = sum(number for _, number in filters)
        self.widths = [width for width, _ in filters]
        self.characters = nn.Embedding(num_characters, character_dim, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(character_dim, number, width) for width, number in filters)
        self.dropout = nn.Dropout(dropout)
        bound = (3 / character_dim) ** 0.5
        nn.init.uniform_(self.characters.weight.detach()[1:], -bound, bound)

    def forward(self, words: Tensor, index: Tensor) -> Tensor:  # (W, C), (B, T) -> (B, T, F)
        """The vector of the word that stands at each token, as `index` into `words` has it."""
        # As encoded[index], whose gradients would be added up in any order.
        return nn.functional.embedding(index, self.encode(words))

    def encode(self, words: Tensor) -> Tensor:  # (W, C) -> (W, F)
        """The vectors of distinct words."""
        if words.shape[1] == 0:
            words = nn.functional.pad(words, (0, 1))
        padding = (words == 0).unsqueeze(2)
        features = []
        for module, width in zip(self.convolutions, self.widths, strict=True):
            convolution = cast("nn.Conv1d", module)  # a ModuleList does not tell
            around = nn.functional.pad(words, ((width - 1) // 2, width // 2))
            # As the convolution itself, but one lookup and one product: a GPU makes a plan for a convolution of each
            # new shape, and every batch has another number of words.
            windows = self._windows(around, width)
            weight = convolution.weight.transpose(1, 2).flatten(1)
            responses = nn.functional.linear(windows, weight, convolution.bias).masked_fill(padding, -torch.inf)
            features.append(responses.max(dim=1).values)
        return torch.relu(torch.cat(features, dim=1))

    def _windows(self, around: Tensor, width: int) -> Tensor:  # (W, C + width - 1) -> (W, C, width * character_dim)
        """The vectors of the characters that a filter sees at each place."""
        if not self.training or self.dropout.p == 0:
            seen: Tensor = self.characters(around.unfold(1, width, 1))
            return seen.flatten(2)
        # Dropped before they are laid out: all places of a filter see a character alike.
        dropped: Tensor = self.dropout(self.characters(around))
        return dropped.unfold(1, width, 1).transpose(2, 3).flatten(2)
