"""One file for each format; each translates between its files and a `Checkpoint`.

`read_checkpoint` finds out by itself which format lies in a container. To add a format, write one file that ends in a
`Format`, and put that into `FORMATS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from elmore.errors import FormatError, InputError, error_context, shortened
from elmore.formats.allennlp import ALLENNLP
from elmore.formats.cards.card import Card
from elmore.formats.checkpoint import Checkpoint
from elmore.formats.elmoformanylangs import ELMOFORMANYLANGS
from elmore.formats.folder import FOLDER, FOLDER_INT8
from elmore.formats.format import Format
from elmore.formats.hdf5 import HDF5
from elmore.formats.storage.container import Container
from elmore.formats.storage.int8 import StoredTensor
from elmore.formats.tensorflow import TENSORFLOW

__all__ = ["FORMATS", "Card", "Checkpoint", "Format", "read_checkpoint", "write_checkpoint"]

# The first that recognises its files reads them, so those with the most telling files come first. A TensorFlow
# checkpoint comes before the weights.hdf5 that was made from it, because it also has the softmax.
FORMATS = (FOLDER, FOLDER_INT8, TENSORFLOW, ELMOFORMANYLANGS, ALLENNLP, HDF5)
_TASK_MODEL = ("task.json", "model/task.json")  # no biLM, but easily taken for one


def read_checkpoint(container: Container) -> Checkpoint:
    """Read a model of any format; the error says which file is wrong, and what is wrong in it."""
    with error_context(container.where):
        form = _detect_format(container)
        checkpoint = form.read(container)
        checkpoint.check()
    card, softmax = checkpoint.card, checkpoint.softmax
    return replace(
        checkpoint,
        card=replace(card, source=card.source or container.where, format=card.format or form.name),
        softmax=partial(_read_later, softmax, container.where) if softmax is not None else None,
    )


def write_checkpoint(checkpoint: Checkpoint, path: Path, *, format: str = "folder") -> None:  # noqa: A002 (a door's name)
    """Write a model into a folder, whole or not at all; CannotExpress where the format has no words for it."""
    writers = {form.name: form.write for form in FORMATS if form.write is not None}
    if format not in writers:
        raise InputError(f"{format!r} is no format that can be written; choose {' or '.join(writers)}")
    checkpoint.check()
    writers[format](checkpoint, path)


def _detect_format(container: Container) -> Format:
    for form in FORMATS:
        if form.detect(container):
            return form
    names = container.names()
    if any(name in names for name in _TASK_MODEL):
        raise FormatError("is a task model, for elmore predict or elmore.tasks.load; here a biLM is needed")
    known = "; ".join(f"{form.name} ({form.files})" for form in FORMATS)
    found = shortened(names) or "no files at all"
    raise FormatError(f"no model of a known format. It holds {found}. Known are, with the files they need: {known}")


def _read_later(softmax: Callable[[], Mapping[str, StoredTensor]], where: str) -> Mapping[str, StoredTensor]:
    with error_context(where):
        return softmax()
