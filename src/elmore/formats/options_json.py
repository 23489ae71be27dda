"""options.json: the shape of a published model, read into a `ModelConfig` and written from one.

The file belongs to weights.hdf5. TensorFlow checkpoints and AllenNLP's archives contain one too. Options for training
and unknown options are ignored; missing options have the defaults of bilm-tf.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from elmore.config import Activation, CharacterConfig, Directions, ModelConfig
from elmore.errors import CannotExpress, FormatError, InputError, error_context
from elmore.fields import checked_field, read_fields, required_field

_MAX_CLIP = 3e38  # about the largest float32
_CLIP = "a positive number, or 0 or null for no clipping"
_FILTERS = "a list of [width, number] pairs of whole numbers"


@dataclass(frozen=True, kw_only=True)
class _LstmOptions:
    IGNORES_UNKNOWN: ClassVar[bool] = True
    dim: int = required_field(at_least=1)
    projection_dim: int = required_field(at_least=1)
    n_layers: int = checked_field(1, at_least=1)
    use_skip_connections: bool = False
    cell_clip: float | None = checked_field(None, at_least=0, at_most=_MAX_CLIP, must_be=_CLIP)
    proj_clip: float | None = checked_field(None, at_least=0, at_most=_MAX_CLIP, must_be=_CLIP)


@dataclass(frozen=True, kw_only=True)
class _EmbeddingOptions:
    IGNORES_UNKNOWN: ClassVar[bool] = True
    dim: int = required_field(at_least=1)


@dataclass(frozen=True, kw_only=True)
class _CnnOptions:
    IGNORES_UNKNOWN: ClassVar[bool] = True
    activation: Activation
    embedding: _EmbeddingOptions
    filters: tuple[tuple[int, int], ...] = required_field(must_be=_FILTERS)
    max_characters_per_token: int
    n_characters: int = 262
    n_highway: int | None = checked_field(None, at_least=0)


@dataclass(frozen=True, kw_only=True)
class _Options:
    IGNORES_UNKNOWN: ClassVar[bool] = True
    lstm: _LstmOptions
    char_cnn: _CnnOptions | None = None


def config_from_options(
    options: Mapping[str, Any],
    *,
    directions: Directions = "both",
    vocab_size: int = 0,
    token_projection: bool | None = None,
    lstm_projection: bool | None = None,
) -> ModelConfig:
    """The shape that options describe; FormatError names an option that is missing or wrong.

    Only the weights show some facts: the directions (published options never contain them), the size of the vocabulary
    of a model without `char_cnn`, and projections between equal sizes. With None, a projection exists if the sizes
    differ.

    >>> config_from_options({"lstm": {"dim": 16, "projection_dim": 8}}, vocab_size=32).lstm_layers
    1
    """
    read = read_fields(_Options, options, error=FormatError)
    lstm = read.lstm
    characters = _character_config(read.char_cnn) if read.char_cnn else None
    if characters is None and not vocab_size:
        raise FormatError("char_cnn is missing, so the model reads words, and the weights contain no table of words")
    features = characters.num_filters if characters else lstm.projection_dim
    try:
        return ModelConfig(
            characters=characters,
            vocab_size=0 if characters else vocab_size,
            word_embedding_dim=0 if characters else lstm.projection_dim,
            token_projection=features != lstm.projection_dim if token_projection is None else token_projection,
            vector_dim=lstm.projection_dim,
            cell_dim=lstm.dim,
            lstm_layers=lstm.n_layers,
            lstm_projection=lstm.dim != lstm.projection_dim if lstm_projection is None else lstm_projection,
            skip_connections=lstm.use_skip_connections,
            directions=directions,
            cell_clip=lstm.cell_clip or None,
            projection_clip=lstm.proj_clip or None,
        )
    except InputError as error:
        raise FormatError(str(error)) from None


def options_from_config(config: ModelConfig) -> dict[str, Any]:
    """The options that describe a model to bilm-tf and AllenNLP; CannotExpress if they cannot describe it."""
    _check_expressible(config)
    options: dict[str, Any] = {
        "lstm": {
            "cell_clip": _shortest(config.cell_clip),
            "dim": config.cell_dim,
            "n_layers": config.lstm_layers,
            "proj_clip": _shortest(config.projection_clip),
            "projection_dim": config.vector_dim,
            "use_skip_connections": config.skip_connections,
        }
    }
    if characters := config.characters:
        options["char_cnn"] = {
            "activation": characters.activation,
            "embedding": {"dim": characters.embedding_dim},
            "filters": [list(pair) for pair in characters.filters],
            "max_characters_per_token": characters.max_characters,
            # The file stores 261 rows; both programs add a row in front of them when they load the file.
            "n_characters": characters.n_characters + 1,
            "n_highway": characters.num_highways,
        }
    return options


def _character_config(cnn: _CnnOptions) -> CharacterConfig:
    # 261 during training and 262 afterwards, for the same table of 261 rows. AllenNLP ignores this option.
    if cnn.n_characters not in (261, 262):
        raise FormatError(f"char_cnn.n_characters is {cnn.n_characters}; models of bytes have 261 or 262")
    try:
        with error_context("char_cnn"):
            return CharacterConfig(
                max_characters=cnn.max_characters_per_token,
                embedding_dim=cnn.embedding.dim,
                filters=cnn.filters,
                activation=cnn.activation,
                num_highways=cnn.n_highway or 0,
            )
    except InputError as error:
        raise FormatError(str(error)) from None


def _shortest(clip: float | None) -> float | None:
    """3 instead of 3.0, as in the published files."""
    return int(clip) if clip is not None and clip.is_integer() else clip


def _check_expressible(config: ModelConfig) -> None:
    """Raise CannotExpress if readers of these files would misread the model, or could not read it."""
    characters = config.characters
    obstacles = {
        "an alphabet of code points": characters is not None and characters.alphabet != "bytes",
        "both words and characters as input": characters is not None and config.word_embedding_dim > 0,
        "a projection of token vectors of the same size": config.token_projection
        and config.word_feature_dim == config.vector_dim,
        "word vectors of another size than token vectors": characters is None and config.token_projection,
        "a projection of cells of the same size": config.lstm_projection and config.cell_dim == config.vector_dim,
        "a single direction": config.num_directions == 1,
        f"the boundary words {config.bos_token} and {config.eos_token}": (config.bos_token, config.eos_token)
        != ("<S>", "</S>"),
        f"the unknown word {config.unk_token}": config.word_embedding_dim > 0 and config.unk_token != "<UNK>",
    }
    if present := [name for name, is_present in obstacles.items() if is_present]:
        raise CannotExpress(
            f"options.json and weights.hdf5 cannot describe {', '.join(present)}; write the format folder"
        )
