"""Models of ELMoForManyLangs: two state dicts, two dictionaries and the command line of their training.

    config.json           the command line; its config_path names the network's configuration
    token_embedder.pkl    word table, characters, convolutions, highways, projection
    encoder.pkl           the LSTM layers
    char.dic, word.dic    a code point, or a word, and its row, in every line
    classifier.pkl        the softmax, rarely published

The configuration is looked for beside config.json, whatever path it had on its authors' machine; where it is not
there, it is the one that all published models have.
"""

import posixpath
from collections.abc import Mapping
from functools import partial
from typing import Any

from elmore.config import ModelConfig
from elmore.errors import FormatError, InputError, error_context
from elmore.formats.allennlp_layers import convolutions, highways, lstm, take_tensor
from elmore.formats.arrays import Floats
from elmore.formats.checkpoint import Checkpoint, Format
from elmore.formats.options_json import whole_number
from elmore.formats.storage.container import Container, read_json
from elmore.formats.storage.torch_files import Array, load_tensors
from elmore.text.vocabulary import Vocabulary

_MARKS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")  # the last three only among characters
_BEGIN, _END, _UNKNOWN = _MARKS[:3]
_BLANK = "\u3000"  # what the original program makes of a key that is nothing but whitespace
_WORDS, _CHARACTERS = "word_emb_layer.embedding.weight", "char_emb_layer.embedding.weight"

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
    network, where = _network(container)
    embedder = load_tensors(container, "token_embedder.pkl")
    encoder = load_tensors(container, "encoder.pkl")
    with error_context(where):
        config = _config(network, embedder)
    # A misfit may be the fault of the weights or of the configuration, so the message names both.
    with error_context(f"token_embedder.pkl, by {where}"):
        tensors = _token_embedder(embedder, config)
    with error_context(f"encoder.pkl, by {where}"):
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
    """The network's configuration, and where it was found."""
    path = read_json(container, "config.json").get("config_path")
    if not isinstance(path, str):
        raise FormatError("config.json: config_path, which names the network's configuration, is missing")
    path = posixpath.normpath(path.replace("\\", "/"))
    # A path that leads out of the container is no name in it, so it is never followed.
    for name in (path, posixpath.basename(path)):
        if name in container.names():
            return read_json(container, name), name
    return _PUBLISHED, f"the published configuration (config.json names {path}, which is not here)"


def _config(network: Mapping[str, Any], embedder: Mapping[str, Array]) -> ModelConfig:
    encoder, words = _part(network, "encoder", kind="elmo"), _part(network, "token_embedder", kind="cnn")
    word_dim, char_dim = whole_number(words, "word_dim", least=0), whole_number(words, "char_dim", least=0)
    characters = None
    if char_dim:
        characters = {
            "alphabet": "codepoints",
            "n_characters": _rows(embedder, _CHARACTERS),
            "max_characters": whole_number(words, "max_characters_per_token"),
            "embedding_dim": char_dim,
            "filters": words.get("filters"),
            "activation": words.get("activation"),
            "num_highways": whole_number(words, "n_highway", least=0),
        }
    fields = {
        "characters": characters,
        "vocab_size": _rows(embedder, _WORDS) if word_dim else 0,
        "word_embedding_dim": word_dim,
        "vector_dim": whole_number(encoder, "projection_dim"),
        "cell_dim": whole_number(encoder, "dim"),
        "lstm_layers": whole_number(encoder, "n_layers"),
        "cell_clip": encoder.get("cell_clip") or None,  # 0 means none
        "projection_clip": encoder.get("proj_clip") or None,
        "forget_bias": 0.0,  # the stored one is complete
        "bos_token": _BEGIN,
        "eos_token": _END,
        "unk_token": _UNKNOWN,
    }
    try:
        return ModelConfig.from_dict(fields)
    except InputError as error:
        raise FormatError(str(error)) from None


def _part(network: Mapping[str, Any], name: str, *, kind: str) -> Mapping[str, Any]:
    part = network.get(name)
    if not isinstance(part, dict):
        raise FormatError(f"the object {name} is missing")
    if part.get("name") != kind:
        raise FormatError(
            f"the {name} is of the kind {str(part.get('name'))[:40]}, which is not supported; all published models "
            f"are of the kind {kind}"
        )
    return part


def _rows(embedder: Mapping[str, Array], name: str) -> int:
    if name not in embedder or embedder[name].ndim != 2:
        raise FormatError(f"token_embedder.pkl lacks the table {name}, which the configuration asks for")
    return len(embedder[name])


def _token_embedder(stored: Mapping[str, Array], config: ModelConfig) -> dict[str, Floats]:
    ours = {}
    if config.word_embedding_dim:
        ours["words.table"] = take_tensor(stored, _WORDS, config.vocab_size, config.word_embedding_dim)
    if characters := config.characters:
        ours["words.characters"] = take_tensor(stored, _CHARACTERS, characters.n_characters, characters.embedding_dim)
        ours |= convolutions(stored, "convolutions.", characters)
        ours |= highways(stored, "highways._layers.", characters)
    ours["words.projection.weight"] = take_tensor(
        stored, "projection.weight", config.vector_dim, config.word_feature_dim
    )
    ours["words.projection.bias"] = take_tensor(stored, "projection.bias", config.vector_dim)
    return ours


def _softmax(container: Container, config: ModelConfig) -> Mapping[str, Floats]:
    tensors = load_tensors(container, "classifier.pkl")
    with error_context("classifier.pkl"):
        rows = len(tensors.get("column_emb.weight", ()))
        return {
            "weight": take_tensor(tensors, "column_emb.weight", rows, config.vector_dim),
            "bias": take_tensor(tensors, "column_bias.weight", rows, 1)[:, 0],
        }


def _dictionary(container: Container, name: str, *, rows: int, marks: tuple[str, ...]) -> dict[str, int]:
    """Read a .dic file for a table of that many rows; of 0 rows: as many as there are lines."""
    with error_context(name):
        try:
            lines = container.read(name).decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise FormatError(f"not UTF-8 at byte {error.start}") from None
        table: dict[str, int] = {}
        for count, line in enumerate(lines, start=1):
            key, tab, number = line.strip().rpartition("\t")
            # Of a key that stands twice the last row wins, as in the original program.
            table[key if tab else _BLANK] = _row(number, rows or len(lines), count)
        if missing := [mark for mark in marks if mark not in table]:
            raise FormatError(f"it lacks {', '.join(missing)}")
        return table


def _row(number: str, rows: int, line: int) -> int:
    if not (number.isascii() and number.isdigit() and len(number) < 12):
        raise FormatError(f"line {line} has no row number after its last tab")
    if int(number) >= rows:
        raise FormatError(f"line {line} names row {number}; there are {rows} rows, counted from 0")
    return int(number)


def _vocabulary(table: Mapping[str, int]) -> Vocabulary:
    """The words in the order of their rows. A row without a word gets a name with blanks, which no token has."""
    words = [f"<no word {row}>" for row in range(max(table.values()) + 1)]
    taken: dict[int, str] = {}
    for word, row in table.items():
        if row in taken:
            raise FormatError(f"word.dic: row {row} belongs to both {taken[row]!r} and {word!r}")
        taken[row] = words[row] = word
    return Vocabulary(words)
