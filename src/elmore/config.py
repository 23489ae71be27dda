"""The shape of a model: all that is needed to build a biLM, nothing about training it.

One pair of frozen dataclasses describes the whole family: character or word input or both, with or without
projections, skip connections and clips, read both ways or one. `tensor_shapes` names every tensor such a model has:
it is the contract between the file formats, which fill those names, and the network, which uses them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

from elmore.errors import InputError
from elmore.fields import check_fields, checked_field, read_fields

Activation = Literal["relu", "tanh"]
AlphabetName = Literal["bytes", "codepoints"]
Direction = Literal["forward", "backward"]
Reads = Literal["both", "forward", "backward"]
Normalization = Literal["token", "masked-batch"]  # of layers, before they are mixed

PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True)
class CharacterConfig:
    """How a word is read character by character."""

    alphabet: AlphabetName = "bytes"
    n_characters: int = checked_field(261, at_least=1)  # rows of the table; 261 for bytes: 256 and five marks
    max_characters: int = checked_field(50, at_least=3)  # per word, its begin and end marks included
    embedding_dim: int = checked_field(16, at_least=1)
    filters: tuple[tuple[int, int], ...] = checked_field(
        PUBLISHED_FILTERS, must_be="a list of [width, number] pairs of whole numbers"
    )
    activation: Activation = "relu"
    n_highways: int = checked_field(2, at_least=0)

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.filters:
            raise InputError("filters is empty; a character model needs at least one [width, number] pair")
        for width, number in self.filters:
            if not (1 <= width <= self.max_characters and number >= 1):
                raise InputError(
                    f"filters holds [{width}, {number}]; a width must be from 1 to max_characters "
                    f"({self.max_characters}), a number at least 1"
                )
        if self.alphabet == "bytes" and self.n_characters != 261:
            raise InputError(f"n_characters is {self.n_characters}; a byte alphabet has 261 (256 bytes and five marks)")

    @property
    def features(self) -> int:
        """The size of a word's character features: one for each filter."""
        return sum(number for _, number in self.filters)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of a biLM.

    >>> ModelConfig().num_parameters  # the published "original" model
    93600848
    >>> SMALL.dim, SMALL.num_layers
    (256, 3)
    """

    characters: CharacterConfig | None = CharacterConfig()
    n_words: int = checked_field(0, at_least=0)  # rows of the word table
    word_dim: int = checked_field(0, at_least=0)  # size of a word's row in it; 0 means that there is no word table
    token_projection: bool = True  # from the features of a word to vector_dim

    vector_dim: int = checked_field(512, at_least=1)  # of a token vector, and of each direction of an LSTM layer
    cell_dim: int = checked_field(4096, at_least=1)
    lstm_layers: int = checked_field(2, at_least=1)
    lstm_projection: bool = True  # from cell_dim to vector_dim
    skip_connections: bool = True  # from the second LSTM layer on
    reads: Reads = "both"  # which ways the text is read, each by a stack of its own
    cell_clip: float | None = checked_field(3.0, above=0)
    projection_clip: float | None = checked_field(3.0, above=0)  # has no effect without lstm_projection
    forget_bias: float = 1.0  # added to the stored bias of the forget gate

    begin: str = "<S>"  # the word that opens a sentence, and may stand in the text
    end: str = "</S>"
    unknown: str = "<UNK>"  # the row of the word table for words that have none

    def __post_init__(self) -> None:
        check_fields(self)
        if self.begin == self.end:
            raise InputError(f"begin and end are both {self.begin!r}; a sentence needs two different boundary words")
        if self.characters is None and self.word_dim == 0:
            raise InputError("neither characters nor a word table: the model has nothing to read")
        if (self.word_dim > 0) != (self.n_words > 0):
            raise InputError(f"n_words is {self.n_words} and word_dim {self.word_dim}; give both or neither")
        if not self.token_projection and self.token_features != self.vector_dim:
            raise InputError(
                f"without token_projection a word's {self.token_features} features must number vector_dim "
                f"({self.vector_dim})"
            )
        if not self.lstm_projection and self.cell_dim != self.vector_dim:
            raise InputError(
                f"without lstm_projection cell_dim ({self.cell_dim}) must be vector_dim ({self.vector_dim})"
            )

    @property
    def token_features(self) -> int:
        """The size of a word's features before the projection: its word vector, then its character features."""
        return self.word_dim + (self.characters.features if self.characters else 0)

    @property
    def direction_names(self) -> tuple[Direction, ...]:
        """The directions in the order in which every tensor, state and score has them.

        >>> ModelConfig().direction_names
        ('forward', 'backward')
        """
        return ("forward", "backward") if self.reads == "both" else (self.reads,)

    @property
    def num_directions(self) -> int:
        return len(self.direction_names)

    @property
    def dim(self) -> int:
        """The size of a token's vector in every layer."""
        return self.num_directions * self.vector_dim

    @property
    def num_layers(self) -> int:
        """How many layers a token has, the context-free one included."""
        return 1 + self.lstm_layers

    @property
    def num_parameters(self) -> int:
        """How many numbers the model stores, without softmax."""
        total = 0
        for shape in tensor_shapes(self).values():
            size = 1
            for length in shape:
                size *= length
            total += size
        return total

    def to_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave; an unknown or ill-typed field is an error that names it."""
        return read_fields(cls, values)


ORIGINAL = ModelConfig()
MEDIUM = replace(ORIGINAL, cell_dim=2048, vector_dim=256, characters=CharacterConfig(n_highways=1))
SMALL = replace(MEDIUM, cell_dim=1024, vector_dim=128)


def tensor_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor of a model of this shape, by name, in the order of the data's way.

    Gates stand in the order input, candidate, forget, output; LSTM matrices are applied as `x @ W`, the others as
    torch.nn modules apply theirs.

    >>> tensor_shapes(SMALL)["lstm.0.projection"]
    (2, 1024, 128)
    """
    shapes: dict[str, tuple[int, ...]] = {}
    if config.word_dim:
        shapes["words.table"] = (config.n_words, config.word_dim)
    if characters := config.characters:
        shapes["words.characters"] = (characters.n_characters, characters.embedding_dim)
        for i, (width, number) in enumerate(characters.filters):
            shapes[f"words.convolutions.{i}.weight"] = (number, characters.embedding_dim, width)
            shapes[f"words.convolutions.{i}.bias"] = (number,)
        for k in range(characters.n_highways):
            for part in ("transform", "gate"):
                shapes[f"words.highways.{k}.{part}.weight"] = (characters.features, characters.features)
                shapes[f"words.highways.{k}.{part}.bias"] = (characters.features,)
    if config.token_projection:
        shapes["words.projection.weight"] = (config.vector_dim, config.token_features)
        shapes["words.projection.bias"] = (config.vector_dim,)
    for layer in range(config.lstm_layers):
        shapes[f"lstm.{layer}.input"] = (config.num_directions, config.vector_dim, 4 * config.cell_dim)
        shapes[f"lstm.{layer}.recurrent"] = (config.num_directions, config.vector_dim, 4 * config.cell_dim)
        shapes[f"lstm.{layer}.bias"] = (config.num_directions, 4 * config.cell_dim)
        if config.lstm_projection:
            shapes[f"lstm.{layer}.projection"] = (config.num_directions, config.cell_dim, config.vector_dim)
    return shapes
