"""A word becomes a vector, whatever its neighbours are.

Characters are embedded and convolved, and the largest response of every filter over the word is kept; highways refine
them; a row of a word table may stand before them; a projection brings all to the size the LSTM reads.

W distinct words, M characters, C character size, F filters, P vector size.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from elmore.config import CharacterConfig, ModelConfig
from elmore.kernels.selection import Kernels, kernels_for
from elmore.text.spelling import WordInputs


class Highway(nn.Module):
    """Let a gate decide, feature by feature, between a transformed value and the value itself."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.transform = nn.Linear(features, features)
        self.gate = nn.Linear(features, features)

    def forward(self, x: Tensor) -> Tensor:  # (W, F) -> (W, F)
        g = torch.sigmoid(self.gate(x))
        return g * torch.relu(self.transform(x)) + (1 - g) * x


class WordEncoder(nn.Module):
    """The vectors of distinct words; `initialization` gives it first values.

    >>> from elmore.config import SMALL
    >>> from elmore.text.spelling import Speller
    >>> WordEncoder(SMALL)(Speller(SMALL).spell(["bow", "arrow"])).shape
    torch.Size([2, 128])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kernel_name: str | None = None
        self.table = nn.Parameter(torch.empty(config.n_words, config.word_dim)) if config.word_dim else None
        self.activation: Callable[[Tensor], Tensor] | None = None
        if config.characters:
            self._build_character_part(config.characters)
        self.projection = nn.Linear(config.token_features, config.vector_dim) if config.token_projection else None

    def _build_character_part(self, config: CharacterConfig) -> None:
        self.characters = nn.Parameter(torch.empty(config.n_characters, config.embedding_dim))
        self.convolutions = nn.ModuleList(nn.Conv1d(config.embedding_dim, n, width) for width, n in config.filters)
        self.highways = nn.ModuleList(Highway(config.features) for _ in range(config.n_highways))
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[config.activation]

    def forward(self, inputs: WordInputs, *, kernels: Kernels | None = None) -> Tensor:  # W words -> (W, P)
        features = []
        if self.table is not None:
            assert inputs.word_ids is not None
            # As with the characters, table[numbers] would add up gradients in any order.
            features.append(self.table.index_select(0, inputs.word_ids))
        if self.activation is not None:
            assert inputs.character_ids is not None
            features.append(self._character_features(inputs.character_ids, kernels))
        x = torch.cat(features, dim=-1)
        return x if self.projection is None else self.projection(x)

    def _character_features(self, characters: Tensor, kernels: Kernels | None) -> Tensor:  # (W, M) -> (W, F)
        assert self.activation is not None
        kernels = kernels or kernels_for(self.characters, self.parameters(), name=self.kernel_name)
        # In-word padding is a character like any other, as it was in training: nothing is masked.
        filters = [cast("tuple[Tensor, Tensor]", (one.weight, one.bias)) for one in self.convolutions]
        x = self.activation(kernels.pool_characters(characters, self.characters, filters))
        for highway in self.highways:
            x = highway(x)
        return x
