"""Elmore's folder: a file for each part of a checkpoint, and nothing that is executed.

    config.json            {"format": "elmore", "version": 2, "model": the fields of ModelConfig}
    model.safetensors      the tensors of `elmore.config.tensor_shapes`
    card.json              the fields of ModelCard
    vocabulary.txt         optional: one word per line, unchanged
    characters.json        only for code points: their rows in the table
    softmax.safetensors    optional: weight and bias, read on request
    state.safetensors      optional: h and c, the warm start state of sentences
    mixes.safetensors      optional: the layer mixes that a task learned

The same checkpoint always has the same bytes. Matrices may be stored as int8 with scales (see `arrays`), and remain
int8 in a `Checkpoint`. Version 1 has former names of fields and is still read.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from elmore.config import CharacterConfig, ModelConfig
from elmore.display import join_names
from elmore.errors import CannotExpress, ElmoreError, FormatError, InputError, error_context
from elmore.fields import read_fields
from elmore.files.atomic_files import atomic_write_folder
from elmore.files.json_files import check_format, write_json
from elmore.formats.arrays import Floats, StoredArray, check_shapes, dequantize, quantize
from elmore.formats.card import ModelCard, read_card
from elmore.formats.checkpoint import Checkpoint, Format
from elmore.formats.storage.container import Container, open_container, read_json, read_vocabulary
from elmore.formats.storage.safetensors_files import read_stored_tensors, read_tensors, write_tensors
from elmore.text.vocabulary import Vocabulary, decode_lines

_CONFIG, _MODEL, _CARD = "config.json", "model.safetensors", "card.json"
_VOCABULARY, _CHARACTERS = "vocabulary.txt", "characters.json"
_SOFTMAX, _STATE, _MIXES = "softmax.safetensors", "state.safetensors", "mixes.safetensors"
_FILES = (_CONFIG, _MODEL, _CARD, _VOCABULARY, _CHARACTERS, _SOFTMAX, _STATE, _MIXES)
_VERSIONS = (1, 2)


def detect(container: Container) -> bool:
    if _CONFIG not in container.names():
        return False
    try:
        return read_json(container, _CONFIG).get("format") == "elmore"
    except ElmoreError:
        return _MODEL in container.names()


def read(container: Container) -> Checkpoint:
    names = container.names()
    config = _config(container)
    tensors = read_stored_tensors(container, _MODEL)
    with error_context(_MODEL):
        # Checked before the tensors of so many layers are listed.
        if config.lstm_layers + (config.characters.num_highways if config.characters else 0) > len(tensors):
            raise FormatError(f"has {len(tensors)} tensors, too few for the layers in {_CONFIG}")
    card = read_card(container, _CARD) if _CARD in names else ModelCard()
    if card.start_state == "warm" and _STATE not in names:
        raise FormatError(f"{_STATE} is missing, which the start state in {_CARD} requires")
    return Checkpoint(
        config=config,
        tensors=tensors,
        vocabulary=_vocabulary(container),
        character_vocabulary=_characters(container, config.characters) if config.characters else None,
        start=_state(container, config) if _STATE in names else None,
        softmax=partial(_softmax, container, config) if _SOFTMAX in names else None,
        mixes=read_tensors(container, _MIXES) if _MIXES in names else None,
        card=card,
    )


def write(checkpoint: Checkpoint, path: Path, *, small: bool = False) -> None:
    narrow_or_wide = quantize if small else dequantize
    if path.is_dir() and any(path.iterdir()) and not detect(open_container(path)):
        raise InputError(f"{path}: is not a model folder of Elmore, and not empty; choose a new or an empty folder")
    with atomic_write_folder(path, replaces=_FILES) as target:
        write_json(
            {"format": "elmore", "version": _VERSIONS[-1], "model": checkpoint.config.to_dict()}, target / _CONFIG
        )
        write_json(checkpoint.card.to_dict(), target / _CARD)
        write_tensors(narrow_or_wide(checkpoint.tensors), target / _MODEL)
        if checkpoint.vocabulary is not None:
            (target / _VOCABULARY).write_bytes(_lines(checkpoint.vocabulary.words))
        if checkpoint.character_vocabulary is not None:
            write_json(dict(checkpoint.character_vocabulary), target / _CHARACTERS)
        if checkpoint.softmax is not None:
            write_tensors(narrow_or_wide(checkpoint.softmax()), target / _SOFTMAX)
        if checkpoint.start is not None:
            write_tensors(checkpoint.start, target / _STATE)
        if checkpoint.mixes is not None:
            write_tensors(checkpoint.mixes, target / _MIXES)


FOLDER = Format(name="folder", detect=detect, read=read, write=write, files=f"{_CONFIG} and {_MODEL}")
# The same with matrices in int8; read as FOLDER.
FOLDER_INT8 = FOLDER._replace(name="folder-int8", write=partial(write, small=True))


def _config(container: Container) -> ModelConfig:
    values = read_json(container, _CONFIG)
    with error_context(_CONFIG):
        check_format(values, "elmore", versions=_VERSIONS, remedy="a newer Elmore may read it")
        if unknown := sorted(values.keys() - {"format", "version", "model"}):
            raise FormatError(f"unknown field {join_names(unknown)}")
        if "model" not in values:
            raise FormatError("the field model, with the shape, is missing")
        return read_fields(ModelConfig, values["model"], where="model", error=FormatError)


def _vocabulary(container: Container) -> Vocabulary | None:
    # Elmore never writes this name; `load(vocabulary=...)` adds it.
    if "vocab.txt" in container.names():
        return read_vocabulary(container, "vocab.txt")
    if _VOCABULARY not in container.names():
        return None
    content = container.read(_VOCABULARY)
    try:
        return Vocabulary(decode_lines(content))
    except InputError as error:
        raise FormatError(f"{_VOCABULARY}: {error}") from None


def _lines(words: Sequence[str]) -> bytes:
    try:
        if odd := [word for word in words if "\n" in word]:
            raise CannotExpress(f"{_VOCABULARY} cannot contain the word {odd[0]!r}, which contains a line break")
        return "".join(f"{word}\n" for word in words).encode("utf-8")
    except UnicodeEncodeError as error:
        raise CannotExpress(
            f"{_VOCABULARY} cannot contain {error.object[error.start]!r}, which UTF-8 cannot encode"
        ) from None


def _characters(container: Container, config: CharacterConfig) -> dict[str, int] | None:
    if config.alphabet == "bytes":
        return None
    table = read_json(container, _CHARACTERS)
    for character, row in table.items():
        if type(row) is not int or not 0 <= row < config.n_characters:
            raise FormatError(
                f"{_CHARACTERS}: {character!r} has the row {str(row)[:40]}; the table has {config.n_characters} rows"
            )
    return table


def _state(container: Container, config: ModelConfig) -> dict[str, Floats]:
    layers = (config.lstm_layers, config.num_directions)
    tensors = read_tensors(container, _STATE)
    with error_context(_STATE):
        check_shapes(tensors, {"h": (*layers, config.vector_dim), "c": (*layers, config.cell_dim)})
    return tensors


def _softmax(container: Container, config: ModelConfig) -> Mapping[str, StoredArray]:
    tensors = read_stored_tensors(container, _SOFTMAX)
    with error_context(_SOFTMAX):
        words = math.prod(tensors["bias"].shape) if "bias" in tensors else 0
        check_shapes(tensors, {"weight": (words, config.vector_dim), "bias": (words,)})
    return tensors
