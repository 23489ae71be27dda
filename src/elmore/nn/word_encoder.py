"""The word encoder: a vector for each word, independent of its context.

Characters are embedded and convolved; the features are the largest response of each filter over the word. Highways
transform them. Models with a word table put its row in front. A projection maps all to the input size of the LSTM.

W distinct words, M characters, C character size, F filters, P vector size.
"""

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from elmore.config import CharacterConfig, ModelConfig
from elmore.nn.character_cnn import HighwayKernel, run_highway
from elmore.nn.devices import compute_dtype, send
from elmore.nn.kernels import Kernels, choose_kernels
from elmore.text.word_ids import WordIds


class WordIdTensors(NamedTuple):
    """`WordIds` as tensors on a device."""

    character_ids: Tensor | None  # (W, M)
    word_ids: Tensor | None  # (W,)

    @classmethod
    def of(cls, ids: WordIds) -> "WordIdTensors":
        return cls(*(None if part is None else torch.from_numpy(part) for part in ids))

    def to(self, device: torch.device) -> "WordIdTensors":
        return WordIdTensors(*(None if part is None else send(part, device) for part in self))

    def select(self, which: Tensor) -> "WordIdTensors":
        """These words, in this order."""
        return WordIdTensors(*(None if part is None else part[which] for part in self))


class Highway(nn.Module):
    """A gate decides, feature by feature, between a transformed value and the value itself."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.transform = nn.Linear(features, features)
        self.gate = nn.Linear(features, features)

    def forward(self, x: Tensor, *, kernel: HighwayKernel = run_highway) -> Tensor:  # (W, F) -> (W, F)
        return kernel(x, _linear(self.transform), _linear(self.gate))


class WordEncoder(nn.Module):
    """The vectors of distinct words.

    >>> from elmore.config import SMALL
    >>> from elmore.text.word_ids import WordIndexer
    >>> WordEncoder(SMALL)(WordIndexer(SMALL).index(["bow", "arrow"])).shape
    torch.Size([2, 128])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kernel_name: str | None = None
        self.table = (
            nn.Parameter(torch.empty(config.vocab_size, config.word_embedding_dim))
            if config.word_embedding_dim
            else None
        )
        self.activation: Callable[[Tensor], Tensor] | None = None
        if config.characters:
            self._build_character_part(config.characters)
        self.projection = nn.Linear(config.word_feature_dim, config.vector_dim) if config.token_projection else None

    def _build_character_part(self, config: CharacterConfig) -> None:
        self.characters = nn.Parameter(torch.empty(config.n_characters, config.embedding_dim))
        self.convolutions = nn.ModuleList(nn.Conv1d(config.embedding_dim, n, width) for width, n in config.filters)
        self.highways = nn.ModuleList(Highway(config.num_filters) for _ in range(config.num_highways))
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[config.activation]

    def forward(self, ids: WordIds, *, kernels: Kernels | None = None) -> Tensor:  # W words -> (W, P)
        return self.encode(WordIdTensors.of(ids).to(self.weight.device), kernels=kernels)

    def encode(self, ids: WordIdTensors, *, kernels: Kernels | None = None) -> Tensor:  # W words -> (W, P)
        """As `forward`, from tensors on the device of the encoder."""
        kernels = kernels or choose_kernels(self.weight.device, compute_dtype(self.weight), name=self.kernel_name)
        features = []
        if self.table is not None:
            assert ids.word_ids is not None
            # Not table[word_ids], which may sum gradients in any order.
            features.append(self.table.index_select(0, ids.word_ids))
        if self.activation is not None:
            assert ids.character_ids is not None
            features.append(self._character_features(ids.character_ids, kernels))
        x = torch.cat(features, dim=-1)
        return x if self.projection is None else self.projection(x)

    @property
    def weight(self) -> Tensor:
        """One of the weights, for their device and number type."""
        weight = self.table if self.activation is None else self.characters
        assert weight is not None  # a model has a word table, characters, or both
        return weight

    def _character_features(self, characters: Tensor, kernels: Kernels) -> Tensor:  # (W, M) -> (W, F)
        assert self.activation is not None
        filters = [cast("tuple[Tensor, Tensor]", (one.weight, one.bias)) for one in self.convolutions]
        # Padding characters count: they did in training.
        x = self.activation(kernels.pool_characters(characters, self.characters, filters))
        for highway in self.highways:
            x = highway(x, kernel=kernels.highway)
        return x


def _linear(module: nn.Linear) -> tuple[Tensor, Tensor]:
    return module.weight, module.bias
