"""The shape of a biLM: everything that is needed to build it, and nothing about its training.

Two frozen dataclasses describe all models: character or word input or both; with or without projections, skip
connections and clips; both directions or one. `tensor_shapes` lists the tensors of a model. The file formats write them
under these names, and the engines read them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

from elmore.errors import InputError
from elmore.fields import check_fields, checked_field, read_fields

Activation = Literal["relu", "tanh"]
AlphabetName = Literal["bytes", "codepoints"]
Direction = Literal["forward", "backward"]
Directions = Literal["both", "forward", "backward"]
Normalization = Literal["token", "masked-batch"]  # of layers, before they are mixed

PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True)
class CharacterConfig:
    """The character CNN, which computes the vector of a word from its characters."""

    alphabet: AlphabetName = "bytes"
    n_characters: int = checked_field(261, at_least=1)  # rows of the table; 261 for bytes: 256 and five marks
    max_characters: int = checked_field(50, at_least=3)  # of a word, with the marks for its begin and end
    embedding_dim: int = checked_field(16, at_least=1)
    filters: tuple[tuple[int, int], ...] = checked_field(
        PUBLISHED_FILTERS, must_be="a list of [width, number] pairs of whole numbers"
    )
    activation: Activation = "relu"
    num_highways: int = checked_field(2, at_least=0, former_name="n_highways")

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
    def num_filters(self) -> int:
        """The number of filters of all widths; each computes one feature of a word."""
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
    vocab_size: int = checked_field(0, at_least=0, former_name="n_words")  # rows of the word table
    word_embedding_dim: int = checked_field(0, at_least=0, former_name="word_dim")  # of a row; 0: no word table
    token_projection: bool = True  # from word_feature_dim to vector_dim

    vector_dim: int = checked_field(512, at_least=1)  # of a token vector, and of each direction of an LSTM layer
    cell_dim: int = checked_field(4096, at_least=1)
    lstm_layers: int = checked_field(2, at_least=1)
    lstm_projection: bool = True  # from cell_dim to vector_dim
    skip_connections: bool = True  # from the second LSTM layer on
    directions: Directions = checked_field("both", former_name="reads")  # each has its own stack of LSTM layers
    cell_clip: float | None = checked_field(3.0, above=0)
    projection_clip: float | None = checked_field(3.0, above=0)  # has no effect without lstm_projection
    forget_bias: float = 1.0  # added to the stored bias of the forget gate

    bos_token: str = checked_field("<S>", former_name="begin")  # the word before a sentence; a text may contain it
    eos_token: str = checked_field("</S>", former_name="end")
    unk_token: str = checked_field("<UNK>", former_name="unknown")  # the word whose row other words share

    def __post_init__(self) -> None:
        check_fields(self)
        if self.bos_token == self.eos_token:
            raise InputError(f"bos_token and eos_token are both {self.bos_token!r}; they must be different words")
        if self.characters is None and self.word_embedding_dim == 0:
            raise InputError("neither characters nor a word table: the model has no input; set one of them")
        if (self.word_embedding_dim > 0) != (self.vocab_size > 0):
            sizes = f"vocab_size is {self.vocab_size} and word_embedding_dim is {self.word_embedding_dim}"
            raise InputError(f"{sizes}; give both or neither")
        if not self.token_projection and self.word_feature_dim != self.vector_dim:
            raise InputError(
                f"without token_projection the number of word features ({self.word_feature_dim}) must be vector_dim "
                f"({self.vector_dim})"
            )
        if not self.lstm_projection and self.cell_dim != self.vector_dim:
            raise InputError(
                f"without lstm_projection cell_dim ({self.cell_dim}) must be vector_dim ({self.vector_dim})"
            )

    @property
    def word_feature_dim(self) -> int:
        """The size of a word's features before the projection: its word vector, then its character features."""
        return self.word_embedding_dim + (self.characters.num_filters if self.characters else 0)

    @property
    def direction_names(self) -> tuple[Direction, ...]:
        """The directions, in the order that they have in every tensor, state and score.

        >>> ModelConfig().direction_names
        ('forward', 'backward')
        """
        return ("forward", "backward") if self.directions == "both" else (self.directions,)

    @property
    def num_directions(self) -> int:
        return len(self.direction_names)

    @property
    def dim(self) -> int:
        """The size of a token's vector in every layer."""
        return self.num_directions * self.vector_dim

    @property
    def num_layers(self) -> int:
        """The number of layers of a token, including layer 0, which does not depend on the context."""
        return 1 + self.lstm_layers

    @property
    def num_parameters(self) -> int:
        """The number of values in all tensors, without the softmax."""
        total = 0
        for shape in tensor_shapes(self).values():
            size = 1
            for length in shape:
                size *= length
            total += size
        return total

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the result of `to_dict`; InputError names an unknown field or a wrong value."""
        return read_fields(cls, values)


ORIGINAL = ModelConfig()
MEDIUM = replace(ORIGINAL, cell_dim=2048, vector_dim=256, characters=CharacterConfig(num_highways=1))
SMALL = replace(MEDIUM, cell_dim=1024, vector_dim=128)


def tensor_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of a model, by its name, in the order of computation.

    The gates have the order input, candidate, forget, output. LSTM matrices are applied as `x @ W`, all others as
    `x @ W.T`, as in torch.nn.

    >>> tensor_shapes(SMALL)["lstm.0.projection"]
    (2, 1024, 128)
    """
    shapes: dict[str, tuple[int, ...]] = {}
    if config.word_embedding_dim:
        shapes["words.table"] = (config.vocab_size, config.word_embedding_dim)
    if characters := config.characters:
        shapes["words.characters"] = (characters.n_characters, characters.embedding_dim)
        for i, (width, number) in enumerate(characters.filters):
            shapes[f"words.convolutions.{i}.weight"] = (number, characters.embedding_dim, width)
            shapes[f"words.convolutions.{i}.bias"] = (number,)
        for k in range(characters.num_highways):
            for part in ("transform", "gate"):
                shapes[f"words.highways.{k}.{part}.weight"] = (characters.num_filters, characters.num_filters)
                shapes[f"words.highways.{k}.{part}.bias"] = (characters.num_filters,)
    if config.token_projection:
        shapes["words.projection.weight"] = (config.vector_dim, config.word_feature_dim)
        shapes["words.projection.bias"] = (config.vector_dim,)
    for layer in range(config.lstm_layers):
        shapes[f"lstm.{layer}.input"] = (config.num_directions, config.vector_dim, 4 * config.cell_dim)
        shapes[f"lstm.{layer}.recurrent"] = (config.num_directions, config.vector_dim, 4 * config.cell_dim)
        shapes[f"lstm.{layer}.bias"] = (config.num_directions, 4 * config.cell_dim)
        if config.lstm_projection:
            shapes[f"lstm.{layer}.projection"] = (config.num_directions, config.cell_dim, config.vector_dim)
    return shapes
