"""options.json, the shape of a published model, read into a ModelConfig and written from one.

The file belongs to weights.hdf5, and lies beside TensorFlow checkpoints and in AllenNLP's archives too. What it says
about training, and what nobody knows, is passed over; bilm-tf's defaults fill what is absent.
"""

from collections.abc import Mapping
from typing import Any

from elmore.config import CharacterConfig, Directions, ModelConfig
from elmore.errors import CannotExpress, FormatError, InputError

_LARGEST = 3e38  # about the largest float32


def config_from_options(
    options: Mapping[str, Any],
    *,
    directions: Directions = "both",
    vocab_size: int = 0,
    token_projection: bool | None = None,
    lstm_projection: bool | None = None,
) -> ModelConfig:
    """The shape that options describe; an option that is missing or makes no sense is named.

    Some things only the weights tell: whether there are two directions (published options never say), how many words a
    model without `char_cnn` reads, and projections where sizes would not ask for them. With None they are there where
    sizes differ.

    >>> config_from_options({"lstm": {"dim": 16, "projection_dim": 8}}, vocab_size=32).lstm_layers
    1
    """
    lstm = _section(options, "lstm")
    cells, vector = whole_number(lstm, "lstm.dim"), whole_number(lstm, "lstm.projection_dim")
    characters = _characters(_section(options, "char_cnn")) if options.get("char_cnn") is not None else None
    if characters is None and not vocab_size:
        raise FormatError("char_cnn is missing, so the model reads words, and the weights hold no table of words")
    features = characters.num_filters if characters else vector
    try:
        return ModelConfig(
            characters=characters,
            vocab_size=0 if characters else vocab_size,
            word_embedding_dim=0 if characters else vector,
            token_projection=features != vector if token_projection is None else token_projection,
            vector_dim=vector,
            cell_dim=cells,
            lstm_layers=whole_number(lstm, "lstm.n_layers", default=1),
            lstm_projection=cells != vector if lstm_projection is None else lstm_projection,
            skip_connections=_flag(lstm, "lstm.use_skip_connections"),
            directions=directions,
            cell_clip=_clip(lstm, "lstm.cell_clip"),
            projection_clip=_clip(lstm, "lstm.proj_clip"),
        )
    except InputError as error:
        raise FormatError(str(error)) from None


def options_from_config(config: ModelConfig) -> dict[str, Any]:
    """Options that say the same to bilm-tf and AllenNLP; CannotExpress where they have no words for it."""
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
            # Of the 261 that are stored and the row that both programs put in front when they load them.
            "n_characters": characters.n_characters + 1,
            "n_highway": characters.num_highways,
        }
    return options


def _characters(cnn: Mapping[str, Any]) -> CharacterConfig:
    # 261 while training, 262 afterwards, for one table of 261 rows; AllenNLP does not read it at all.
    if cnn.get("n_characters", 262) not in (261, 262):
        raise FormatError(f"char_cnn.n_characters is {cnn['n_characters']!r}; models of bytes have 261 or 262")
    if cnn.get("activation") not in ("relu", "tanh"):
        raise FormatError(f"char_cnn.activation is {cnn.get('activation')!r}; it must be relu or tanh")
    try:
        return CharacterConfig(
            max_characters=whole_number(cnn, "char_cnn.max_characters_per_token"),
            embedding_dim=whole_number(_section(cnn, "char_cnn.embedding"), "char_cnn.embedding.dim"),
            filters=_filters(cnn.get("filters")),
            activation=cnn["activation"],
            num_highways=whole_number(cnn, "char_cnn.n_highway", default=0, least=0),
        )
    except InputError as error:
        raise FormatError(f"char_cnn: {error}") from None


def _filters(values: Any) -> tuple[tuple[int, int], ...]:
    match values:
        case [*pairs] if all(isinstance(pair, list) and [type(n) for n in pair] == [int, int] for pair in pairs):
            return tuple((width, number) for width, number in pairs)
    raise FormatError(f"char_cnn.filters is {str(values)[:60]}; it must be a list of [width, number] pairs")


def _section(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = values.get(name.rpartition(".")[2])
    if not isinstance(section, dict):
        raise FormatError(f"{name} is {'missing' if section is None else 'no object'}; the weights alone do not say it")
    return section


def whole_number(values: Mapping[str, Any], name: str, *, default: int | None = None, least: int = 1) -> int:
    """A field of an object; in errors it has its dotted name."""
    value = values.get(name.rpartition(".")[2], default)
    if value is None:
        raise FormatError(f"{name} is missing")
    if type(value) is not int or value < least:
        raise FormatError(f"{name} is {str(value)[:60]}; it must be a whole number, at least {least}")
    return value


def _flag(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name.rpartition(".")[2], False)
    if not isinstance(value, bool):
        raise FormatError(f"{name} is {str(value)[:60]}; it must be true or false")
    return value


def _clip(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name.rpartition(".")[2])
    if value is None or value == 0:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LARGEST:
        raise FormatError(f"{name} is {str(value)[:60]}; it must be a positive number, or 0 or null for no clipping")
    return float(value)


def _shortest(clip: float | None) -> float | None:
    """3 and not 3.0, as the published files have it."""
    return int(clip) if clip is not None and clip.is_integer() else clip


def _check_expressible(config: ModelConfig) -> None:
    """Refuse what the readers of these files would take for something else, or cannot read at all."""
    characters = config.characters
    unsayable = {
        "an alphabet of code points": characters is not None and characters.alphabet != "bytes",
        "word vectors beside characters": characters is not None and config.word_embedding_dim > 0,
        "a projection of token vectors of the same size": config.token_projection
        and config.word_feature_dim == config.vector_dim,
        "word vectors of another size than token vectors": characters is None and config.token_projection,
        "a projection of cells of the same size": config.lstm_projection and config.cell_dim == config.vector_dim,
        "a single direction": config.num_directions == 1,
        f"the boundary words {config.bos_token} and {config.eos_token}": (config.bos_token, config.eos_token)
        != ("<S>", "</S>"),
        f"the unknown word {config.unk_token}": config.word_embedding_dim > 0 and config.unk_token != "<UNK>",
    }
    if found := [what for what, is_so in unsayable.items() if is_so]:
        raise CannotExpress(f"options.json and weights.hdf5 cannot say: {', '.join(found)}; write the format folder")
