"""Models of ELMoForManyLangs: two state dicts, two dictionaries and the command line of their training.

    config.json           the command line; config_path is the path of the network's configuration
    token_embedder.pkl    word table, characters, convolutions, highways, projection
    encoder.pkl           the LSTM layers
    char.dic, word.dic    a code point, or a word, and its row, in every line
    classifier.pkl        the softmax, rarely published

config_path is a path on the machine of the authors. Its file name is looked for next to config.json; without such a
file, the configuration is that of all published models.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from elmore.config import Activation, CharacterConfig, ModelConfig
from elmore.errors import FormatError, InputError, error_context
from elmore.fields import checked_field, read_fields, required_field
from elmore.formats.allennlp_layers import convolutions, highways, lstm, take_tensor
from elmore.formats.arrays import Floats, take
from elmore.formats.checkpoint import Checkpoint, Format
from elmore.formats.storage.container import Container, read_json
from elmore.formats.storage.torch_files import Array, load_tensors
from elmore.text.vocabulary import Vocabulary, decode_lines

_MARKS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")  # the last three only among characters
_BLANK = "\u3000"  # the original program stores a key of only whitespace as this character
_WORDS, _CHARACTERS = "word_emb_layer.embedding.weight", "char_emb_layer.embedding.weight"


@dataclass(frozen=True, kw_only=True)
class _EncoderOptions:
    IGNORES_UNKNOWN: ClassVar[bool] = True
    name: Literal["elmo"] = required_field(must_be="elmo, as in all published models; other kinds are not supported")
    projection_dim: int = required_field(at_least=1)
    dim: int = required_field(at_least=1)
    n_layers: int = required_field(at_least=1)
    cell_clip: float | None = checked_field(None, at_least=0)  # 0: none
    proj_clip: float | None = checked_field(None, at_least=0)


@dataclass(frozen=True, kw_only=True)
class _EmbedderOptions:
    IGNORES_UNKNOWN: ClassVar[bool] = True
    name: Literal["cnn"] = required_field(must_be="cnn, as in all published models; other kinds are not supported")
    word_dim: int = required_field(at_least=0)
    char_dim: int = required_field(at_least=0)
    # Only for a model that reads characters.
    activation: Activation = checked_field("relu")
    filters: tuple[tuple[int, int], ...] = checked_field((), must_be="a list of [width, number] pairs")
    n_highway: int = checked_field(0, at_least=0)
    max_characters_per_token: int = 50


@dataclass(frozen=True, kw_only=True)
class _Network:
    IGNORES_UNKNOWN: ClassVar[bool] = True
    encoder: _EncoderOptions
    token_embedder: _EmbedderOptions


_PUBLISHED: dict[str, Any] = {
    "encoder": {"name": "elmo", "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096, "n_layers": 2},
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}


def detect(container: Container) -> bool:
    names = set(container.names())
    return "encoder.pkl" in names and bool(names & {"token_embedder.pkl", "config.json"})


def read(container: Container) -> Checkpoint:
    network, source = _network(container)
    embedder = load_tensors(container, "token_embedder.pkl")
    encoder = load_tensors(container, "encoder.pkl")
    with error_context(source):
        config = _config(network, embedder)
    # The fault may be in the weights or in the configuration, so the message names both.
    with error_context(f"token_embedder.pkl, by {source}"):
        tensors = _token_embedder(embedder, config)
    with error_context(f"encoder.pkl, by {source}"):
        tensors |= lstm(encoder, "", config)
    has_softmax = "classifier.pkl" in container.names()
    vocabulary, character_vocabulary = None, None
    if config.word_embedding_dim or has_softmax:
        vocabulary = _vocabulary(_dictionary(container, "word.dic", rows=config.vocab_size, marks=_MARKS[:3]))
    if config.characters:
        character_vocabulary = _dictionary(container, "char.dic", rows=config.characters.n_characters, marks=_MARKS)
    return Checkpoint(
        config=config,
        tensors=tensors,
        vocabulary=vocabulary,
        character_vocabulary=character_vocabulary,
        softmax=partial(_softmax, container, config) if has_softmax else None,
    )


ELMOFORMANYLANGS = Format(
    name="elmoformanylangs", detect=detect, read=read, files="config.json, encoder.pkl and token_embedder.pkl"
)


def _network(container: Container) -> tuple[Mapping[str, Any], str]:
    """The configuration of the network, and its source for messages."""
    path = read_json(container, "config.json").get("config_path")
    if not isinstance(path, str):
        raise FormatError("config.json: config_path, the path of the network's configuration, is missing")
    path = posixpath.normpath(path.replace("\\", "/"))
    # Only names in the container are read, so no path leads out of it.
    for name in (path, posixpath.basename(path)):
        if name in container.names():
            return read_json(container, name), name
    return _PUBLISHED, f"the published configuration (config.json names {path}, which is missing)"


def _config(network: Mapping[str, Any], tensors: Mapping[str, Array]) -> ModelConfig:
    options = read_fields(_Network, network, error=FormatError)
    encoder, embedder = options.encoder, options.token_embedder
    try:
        characters = None
        if embedder.char_dim:
            with error_context("token_embedder"):
                characters = CharacterConfig(
                    alphabet="codepoints",
                    n_characters=len(take(tensors, _CHARACTERS, (None, None))),
                    max_characters=embedder.max_characters_per_token,
                    embedding_dim=embedder.char_dim,
                    filters=embedder.filters,
                    activation=embedder.activation,
                    num_highways=embedder.n_highway,
                )
        return ModelConfig(
            characters=characters,
            vocab_size=len(take(tensors, _WORDS, (None, None))) if embedder.word_dim else 0,
            word_embedding_dim=embedder.word_dim,
            vector_dim=encoder.projection_dim,
            cell_dim=encoder.dim,
            lstm_layers=encoder.n_layers,
            cell_clip=encoder.cell_clip or None,
            projection_clip=encoder.proj_clip or None,
            forget_bias=0.0,  # included in the stored bias
            bos_token=_MARKS[0],
            eos_token=_MARKS[1],
            unk_token=_MARKS[2],
        )
    except InputError as error:
        raise FormatError(str(error)) from None


def _token_embedder(stored: Mapping[str, Array], config: ModelConfig) -> dict[str, Floats]:
    tensors = {}
    if config.word_embedding_dim:
        tensors["words.table"] = take_tensor(stored, _WORDS, config.vocab_size, config.word_embedding_dim)
    if characters := config.characters:
        shape = (characters.n_characters, characters.embedding_dim)
        tensors["words.characters"] = take_tensor(stored, _CHARACTERS, *shape)
        tensors |= convolutions(stored, "convolutions.", characters)
        tensors |= highways(stored, "highways._layers.", characters)
    shape = (config.vector_dim, config.word_feature_dim)
    tensors["words.projection.weight"] = take_tensor(stored, "projection.weight", *shape)
    tensors["words.projection.bias"] = take_tensor(stored, "projection.bias", config.vector_dim)
    return tensors


def _softmax(container: Container, config: ModelConfig) -> Mapping[str, Floats]:
    tensors = load_tensors(container, "classifier.pkl")
    with error_context("classifier.pkl"):
        rows = len(take(tensors, "column_emb.weight", (None, config.vector_dim)))
        return {
            "weight": take_tensor(tensors, "column_emb.weight", rows, config.vector_dim),
            "bias": take_tensor(tensors, "column_bias.weight", rows, 1)[:, 0],
        }


def _dictionary(container: Container, name: str, *, rows: int, marks: tuple[str, ...]) -> dict[str, int]:
    """Read a .dic file for a table with this number of rows; with 0, the table has a row for each line."""
    content = container.read(name)
    with error_context(name):
        try:
            lines = decode_lines(content)
        except InputError as error:
            raise FormatError(str(error)) from None
        table: dict[str, int] = {}
        for number, line in enumerate(lines, start=1):
            key, tab, row = line.strip().rpartition("\t")
            # If a key occurs twice, the last row is used, as in the original program.
            table[key if tab else _BLANK] = _row(row, rows or len(lines), number)
        if missing := [mark for mark in marks if mark not in table]:
            raise FormatError(f"it lacks {', '.join(missing)}")
        return table


def _row(text: str, rows: int, line: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise FormatError(f"line {line} has no row number after its last tab")
    if int(text) >= rows:
        raise FormatError(f"line {line} has row {text}; the table has {rows} rows, counted from 0")
    return int(text)


def _vocabulary(table: Mapping[str, int]) -> Vocabulary:
    """The words in the order of their rows. A row without a word gets a name with spaces, which no token contains."""
    words = [f"<no word {row}>" for row in range(max(table.values()) + 1)]
    word_of_row: dict[int, str] = {}
    for word, row in table.items():
        if row in word_of_row:
            raise FormatError(f"word.dic: row {row} belongs to both {word_of_row[row]!r} and {word!r}")
        word_of_row[row] = words[row] = word
    return Vocabulary(words)
