"""A word becomes a vector, whatever its neighbours are.

Characters are embedded and convolved, and the largest response of every filter over the word is kept; highways refine
them; a row of a word table may stand before them; a projection brings all to the size the LSTM reads.

W distinct words, M characters, C character size, F filters, P vector size.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from elmore.config import CharacterConfig, ModelConfig
from elmore.kernels.highway import HighwayKernel, run_highway
from elmore.kernels.selection import Kernels, kernels_for
from elmore.kernels.word_encoding import CharacterWeights, WordEncoderWeights, WordEncoding
from elmore.network.weight_versions import PreparingModule
from elmore.text.spelling import WordInputs


class Highway(nn.Module):
    """Let a gate decide, feature by feature, between a transformed value and the value itself."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.transform = nn.Linear(features, features)
        self.gate = nn.Linear(features, features)

    def forward(self, x: Tensor, *, kernel: HighwayKernel = run_highway) -> Tensor:  # (W, F) -> (W, F)
        return kernel(x, _linear(self.transform), _linear(self.gate))


class WordEncoder(PreparingModule):
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
        kernels = kernels or self._kernels()
        with kernels.settings():
            if encoding := kernels.word_encoding:
                return encoding.run(self.prepared(encoding), inputs.character_ids, inputs.word_ids)
            self.restore_weights()
            return self._by_torch(inputs, kernels)

    def _by_torch(self, inputs: WordInputs, kernels: Kernels) -> Tensor:
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

    def group_size(self) -> int:
        """Words encoded in groups of a multiple of this have the same bits whichever words they are encoded with.

        Matrix products of torch round a row differently when there are few rows; those of native kernels do not.
        """
        return 1 if self._kernels().word_encoding else 16

    def prepared(self, encoding: WordEncoding) -> Any:
        """The weights in the form a kernel wants, made once and made again when they have changed."""
        restore, names = encoding.restore, self._matrix_names()
        return self._prepared.of(
            self,
            encoding.prepare,
            lambda: encoding.prepare(self.weights()),
            release=names,
            restore=partial(_restored, restore, names) if restore is not None and self.releases_weights else None,
        )

    def weights(self) -> WordEncoderWeights:
        """As a kernel that runs the whole encoder reads them."""
        self.restore_weights()
        characters = None
        if self.activation is not None:
            highways = [cast("Highway", one) for one in self.highways]
            characters = CharacterWeights(
                self.characters,
                self._filters(),
                tanh=self.activation is torch.tanh,
                highways=[(_linear(one.transform), _linear(one.gate)) for one in highways],
            )
        projection = None if self.projection is None else _linear(self.projection)
        return WordEncoderWeights(self.table, characters, projection)

    def _matrix_names(self) -> list[str]:
        """Of the large ones among the weights."""
        count = 0 if self.activation is None else len(self.highways)
        names = [f"highways.{number}.{part}.weight" for number in range(count) for part in ("transform", "gate")]
        return names if self.projection is None else [*names, "projection.weight"]

    def _kernels(self) -> Kernels:
        one = self.table if self.activation is None else self.characters
        assert one is not None  # a model reads words, or characters, or both
        return kernels_for(one, self.parameters(), name=self.kernel_name)

    def _filters(self) -> list[tuple[Tensor, Tensor]]:
        return [cast("tuple[Tensor, Tensor]", (one.weight, one.bias)) for one in self.convolutions]

    def _character_features(self, characters: Tensor, kernels: Kernels) -> Tensor:  # (W, M) -> (W, F)
        assert self.activation is not None
        # In-word padding is a character like any other, as it was in training: nothing is masked.
        x = self.activation(kernels.pool_characters(characters, self.characters, self._filters()))
        for highway in self.highways:
            x = highway(x, kernel=kernels.highway)
        return x


def _restored(restore: Callable[[Any], Sequence[Tensor]], names: Sequence[str], prepared: Any) -> dict[str, Tensor]:
    return dict(zip(names, restore(prepared), strict=True))


def _linear(module: nn.Linear) -> tuple[Tensor, Tensor]:
    return module.weight, module.bias
