"""One module for each format, which converts between its files and a `Checkpoint`.

`read_checkpoint` detects the format. To add a format, write a module with a `Format`, and add it to `all_formats`.
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

_TASK_MODEL = ("task.json", "model/task.json")  # easily mistaken for a biLM


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

    # The first format that detects its files reads them, so formats with more specific files come first. TensorFlow
    # comes before HDF5, because a folder with both has the softmax only in the TensorFlow checkpoint.
    return (FOLDER, FOLDER_INT8, TENSORFLOW, ELMOFORMANYLANGS, ALLENNLP, HDF5)


def read_checkpoint(container: Container) -> Checkpoint:
    """Read a model of any format; errors name the file and the fault."""
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


def write_checkpoint(checkpoint: Checkpoint, path: Path, *, format: str = "folder") -> None:  # noqa: A002 (also the name of the option)
    """Write a model to a folder, completely or not at all; CannotExpress if the format cannot store it."""
    writers = {form.name: form.write for form in all_formats() if form.write is not None}
    if format not in writers:
        raise InputError(f"the format is {format!r}; it must be {' or '.join(writers)}")
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
        raise FormatError("is a task model, not a biLM; use elmore predict or elmore.tasks.load")
    formats = "; ".join(f"{form.name} ({form.files})" for form in all_formats())
    raise FormatError(
        f"is not a model: it contains {join_names(names) or 'no files'}. "
        f"The formats, with the required files: {formats}"
    )


def _read_later(softmax: Callable[[], Mapping[str, StoredArray]], where: str) -> Mapping[str, StoredArray]:
    with error_context(where):
        return softmax()
