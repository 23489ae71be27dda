"""options.json and weights.hdf5: how the English models, SeqVec and most others were published.

    options.json      the shape of the model; also elmo_…_options.json and similar names
    weights.hdf5      its numbers; also model.hdf5 (in the NLPL repository), lm_weights.hdf5, elmo_…_weights.hdf5
    vocab.txt         a word a line, perhaps gzipped; only models that read words need it
    meta.json         in the NLPL repository: the catalogue's entry
    elmore_card.json  written by Elmore only: name, license, tokenizer and other facts; other programs ignore it

What is written has these names, and the layout that AllenNLP and bilm-tf read.
"""

import warnings
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from elmore.display import join_names
from elmore.errors import FormatError, error_context
from elmore.files.atomic_files import atomic_write_folder
from elmore.files.json_files import write_json
from elmore.formats.bilm_arrays import arrays_from_tensors, check_arrays, config_of_arrays, tensors_from_arrays
from elmore.formats.card import ModelCard, read_card
from elmore.formats.checkpoint import Checkpoint, Format
from elmore.formats.options_json import options_from_config
from elmore.formats.storage.container import Container, explain_read_errors, read_json
from elmore.formats.storage.hdf5_arrays import list_arrays
from elmore.formats.storage.vocabulary_files import find_vocabulary, vocabulary_content

_CARD = "elmore_card.json"
# The likeliest first: what fits one of them is not compared with what fits the next.
_OPTIONS = ("options.json", "*options*.json")
_WEIGHTS = ("weights.hdf5", "model.hdf5", "lm_weights.hdf5", "*_weights.hdf5", "*.hdf5", "*.h5")


def detect(container: Container) -> bool:
    return bool(_fitting(container, _OPTIONS) and _fitting(container, _WEIGHTS))


def read(container: Container) -> Checkpoint:
    options_file, weights_file = _only(container, _OPTIONS), _only(container, _WEIGHTS)
    options = read_json(container, options_file)
    with explain_read_errors(weights_file), container.open(weights_file) as file:
        with error_context(weights_file):
            arrays = list_arrays(file)
            shapes = {name: array.shape for name, array in arrays.items()}
        with error_context(options_file):
            config = config_of_arrays(options, shapes)
        with error_context(weights_file):
            check_arrays(config, shapes, options_file=options_file)
            tensors = tensors_from_arrays(config, shapes, lambda name: arrays[name].read())
    return Checkpoint(
        config=config,
        tensors=tensors,
        vocabulary=find_vocabulary(container, needed=config.word_embedding_dim > 0),
        card=_read_card(container),
    )


def write(checkpoint: Checkpoint, path: Path) -> None:
    from elmore.files.hdf5_output import new_hdf5

    options = options_from_config(checkpoint.config)
    words = vocabulary_content(checkpoint.vocabulary) if checkpoint.vocabulary is not None else None
    # The card must not describe the start state and the mixes, which are not written. An empty format becomes hdf5
    # when the pair is read: the format of the source may have had a softmax.
    card = replace(checkpoint.card, format="", start_state="zeros", start_state_source="", elmo=None)
    with atomic_write_folder(path, replaces=("options.json", "weights.hdf5", "vocab.txt", _CARD)) as folder:
        write_json(options, folder / "options.json")
        write_json(card.to_dict(), folder / _CARD)
        # The layout that every version of the HDF5 library reads, and the only one that we do.
        with new_hdf5(folder / "weights.hdf5") as output:
            for name, values in arrays_from_tensors(checkpoint.config, checkpoint.float_arrays()):
                output.add(name, values)
        if words is not None:
            (folder / "vocab.txt").write_bytes(words)
    left = {"softmax": checkpoint.softmax, "start state": checkpoint.start, "layer mixes": checkpoint.mixes}
    if behind := [what for what, value in left.items() if value is not None]:
        warnings.warn(
            f"{path}: options.json and weights.hdf5 have no place for the {' and the '.join(behind)}, "
            "so that was left out; the format folder keeps all",
            stacklevel=3,
        )


HDF5 = Format(name="hdf5", detect=detect, read=read, write=write, files="options.json and weights.hdf5")


def _fitting(container: Container, patterns: tuple[str, ...]) -> list[str]:
    """The files that fit the first pattern that any fits."""
    for pattern in patterns:
        if found := [name for name in container.names() if "/" not in name and fnmatchcase(name, pattern)]:
            return found
    return []


def _only(container: Container, patterns: tuple[str, ...]) -> str:
    found = _fitting(container, patterns)
    if not found:
        raise FormatError(f"{patterns[0]} is missing; there are {join_names(container.names()) or 'no files at all'}")
    if len(found) > 1:
        raise FormatError(
            f"{join_names(found)} could all be the file usually called {patterns[0]}; leave only one here, or name "
            "the files one by one: load(options_file=…, weight_file=…)"
        )
    return found[0]


def _read_card(container: Container) -> ModelCard:
    if _CARD not in container.names():
        return ModelCard(extra=_catalogue_entry(container))
    card = read_card(container, _CARD)
    if card.start_state != "zeros":
        raise FormatError(f"{_CARD}: start_state is {card.start_state!r}, and this format holds no start state")
    return card


def _catalogue_entry(container: Container) -> dict[str, Any]:
    if "meta.json" not in container.names():
        return {}
    try:
        return read_json(container, "meta.json")
    except FormatError:
        # It only describes the model, so nobody is kept from it.
        return {}
