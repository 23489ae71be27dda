"""options.json and weights.hdf5: the format of the English models, SeqVec and most other published models.

    options.json      the shape of the model; also elmo_…_options.json and similar names
    weights.hdf5      its arrays; also model.hdf5 (in the NLPL repository), lm_weights.hdf5, elmo_…_weights.hdf5
    vocab.txt         one word per line, perhaps gzipped; required only by models that read words
    meta.json         in the NLPL repository: the catalogue's entry
    elmore_card.json  written by Elmore only: name, license, tokenizer and other facts; other programs ignore it

Elmore writes these names, and the layout that AllenNLP and bilm-tf read.
"""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from elmore.errors import CannotExpress, FormatError, error_context
from elmore.files.atomic_files import atomic_write_folder
from elmore.files.json_files import write_json
from elmore.formats.bilm_arrays import (
    arrays_from_tensors,
    check_arrays,
    config_of_arrays,
    find_vocabulary,
    tensors_from_arrays,
)
from elmore.formats.card import ModelCard, read_card
from elmore.formats.checkpoint import Checkpoint, Format
from elmore.formats.options_json import options_from_config
from elmore.formats.storage.container import Container, explain_read_errors, matching_file, matching_files, read_json
from elmore.formats.storage.hdf5_arrays import list_arrays
from elmore.text.vocabulary import Vocabulary

_CARD = "elmore_card.json"
# The most likely first. Files that match a later pattern are ignored.
_OPTIONS = ("options.json", "*options*.json")
_WEIGHTS = ("weights.hdf5", "model.hdf5", "lm_weights.hdf5", "*_weights.hdf5", "*.hdf5", "*.h5")


def detect(container: Container) -> bool:
    return bool(matching_files(container, _OPTIONS) and matching_files(container, _WEIGHTS))


def read(container: Container) -> Checkpoint:
    options_file, weights_file = matching_file(container, _OPTIONS), matching_file(container, _WEIGHTS)
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
        vocabulary=find_vocabulary(container, required=config.word_embedding_dim > 0),
        card=_read_card(container),
    )


def write(checkpoint: Checkpoint, path: Path) -> None:
    from elmore.files.hdf5_output import new_hdf5

    options = options_from_config(checkpoint.config)
    words = vocabulary_content(checkpoint.vocabulary) if checkpoint.vocabulary is not None else None
    # The card must not describe the start state and the mixes, which are not written. The empty format becomes hdf5
    # when the pair is read: the format of the source may have had a softmax.
    card = replace(checkpoint.card, format="", start_state="zeros", start_state_source="", elmo=None)
    with atomic_write_folder(path, replaces=("options.json", "weights.hdf5", "vocab.txt", _CARD)) as folder:
        write_json(options, folder / "options.json")
        write_json(card.to_dict(), folder / _CARD)
        # The layout that every version of the HDF5 library reads, and the only one that Elmore reads.
        with new_hdf5(folder / "weights.hdf5") as output:
            for name, values in arrays_from_tensors(checkpoint.config, checkpoint.float_arrays()):
                output.add(name, values)
        if words is not None:
            (folder / "vocab.txt").write_bytes(words)
    parts = {"softmax": checkpoint.softmax, "start state": checkpoint.start, "layer mixes": checkpoint.mixes}
    if lost := [name for name, value in parts.items() if value is not None]:
        warnings.warn(
            f"{path}: the format hdf5 cannot contain the {' and the '.join(lost)}, so they were not written; "
            "the format folder can",
            stacklevel=3,
        )


HDF5 = Format(name="hdf5", detect=detect, read=read, write=write, files="options.json and weights.hdf5")


def vocabulary_content(vocabulary: Vocabulary) -> bytes:
    r"""The content of vocab.txt; CannotExpress if a reader of the file would get another word.

    >>> vocabulary_content(Vocabulary(["<S>", "</S>", "cat"]))
    b'<S>\n</S>\ncat\n'
    """
    text = "".join(f"{word}\n" for word in vocabulary.words)
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CannotExpress(f"vocab.txt cannot contain {text[error.start]!r}, which UTF-8 cannot encode") from None
    if Vocabulary.decode(content) != vocabulary:
        lost = next(word for word in vocabulary.words if Vocabulary.decode(f"{word}\n".encode()).words != (word,))
        raise CannotExpress(f"vocab.txt cannot contain the word {lost!r}; write the format folder")
    return content


def _read_card(container: Container) -> ModelCard:
    if _CARD not in container.names():
        return ModelCard(extra=_catalogue_entry(container))
    card = read_card(container, _CARD)
    if card.start_state != "zeros":
        raise FormatError(f"{_CARD}: start_state is {card.start_state!r}, and this format contains no start state")
    return card


def _catalogue_entry(container: Container) -> dict[str, Any]:
    if "meta.json" not in container.names():
        return {}
    try:
        return read_json(container, "meta.json")
    except FormatError:
        # It only describes the model, which can be read without it.
        return {}
