"""One file for each format; each translates between its files and a `Checkpoint`.

`read_checkpoint` detects the format. To add a format, write one file that ends in a `Format`, and put that into
`all_formats`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from elmore.display import join_names
from elmore.errors import FormatError, InputError, error_context
from elmore.formats.arrays import Int8Array, StoredArray
from elmore.formats.card import ModelCard
from elmore.formats.checkpoint import Checkpoint, Format
from elmore.formats.elmore_folder import FOLDER, FOLDER_INT8
from elmore.formats.storage.container import Container

__all__ = [
    "Checkpoint",
    "Format",
    "Int8Array",
    "ModelCard",
    "StoredArray",
    "all_formats",
    "read_checkpoint",
    "write_checkpoint",
]

_TASK_MODEL = ("task.json", "model/task.json")  # not a biLM, but easily mistaken for one


def all_formats() -> tuple[Format, ...]:
    """All formats, in the order in which they are tried.

    >>> [form.name for form in all_formats()]
    ['folder', 'folder-int8', 'tensorflow', 'elmoformanylangs', 'allennlp', 'hdf5']
    """
    # Imported here, because Elmore's own folder needs none of them.
    from elmore.formats.allennlp import ALLENNLP
    from elmore.formats.bilm_hdf5 import HDF5
    from elmore.formats.elmoformanylangs import ELMOFORMANYLANGS
    from elmore.formats.tensorflow import TENSORFLOW

    # The first format that detects its files reads them, so formats with the most specific files come first. A
    # TensorFlow checkpoint comes before the weights.hdf5 that was made from it, because it also has the softmax.
    return (FOLDER, FOLDER_INT8, TENSORFLOW, ELMOFORMANYLANGS, ALLENNLP, HDF5)


def read_checkpoint(container: Container) -> Checkpoint:
    """Read a model of any format; an error names the file, and what is wrong in it."""
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
    """Write a model into a folder, whole or not at all; CannotExpress if the format cannot hold it."""
    writers = {form.name: form.write for form in all_formats() if form.write is not None}
    if format not in writers:
        raise InputError(f"{format!r} is no format that can be written; choose {' or '.join(writers)}")
    checkpoint.check()
    writers[format](checkpoint, path)


def _detect_format(container: Container) -> Format:
    if FOLDER.detect(container):
        return FOLDER
    for form in all_formats():
        if form.detect(container):
            return form
    names = container.names()
    if any(name in names for name in _TASK_MODEL):
        raise FormatError("is a task model, for elmore predict or elmore.tasks.load; here a biLM is needed")
    known = "; ".join(f"{form.name} ({form.files})" for form in all_formats())
    found = join_names(names) or "no files at all"
    raise FormatError(f"no model of a known format. It holds {found}. Known are, with the files they need: {known}")


def _read_later(softmax: Callable[[], Mapping[str, StoredArray]], where: str) -> Mapping[str, StoredArray]:
    with error_context(where):
        return softmax()
