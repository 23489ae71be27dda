"""A path on this machine becomes the files of a model.

A folder, an archive or a state dict is used unchanged. For a file that is only part of a model, the other files are
found by their names: options for weights and the other way round; all files of a TensorFlow checkpoint for its prefix
or any of its files; the folder for any other file of a model folder.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from elmore.display import join_names
from elmore.errors import NotFound
from elmore.files.atomic_files import restore_folder
from elmore.files.os_errors import reading

if TYPE_CHECKING:
    from elmore.formats import Checkpoint

OPTIONS = "options.json"
WEIGHTS = "weights.hdf5"
PAIR_CARD = "elmore_card.json"  # next to a pair of files that Elmore wrote

# Further facts about weights, next to them.
_COMPANIONS = ("vocab.txt", "vocab.txt.gz", "meta.json", PAIR_CARD)
_FOLDER_FILES = {
    *("config.json", "card.json", "model.safetensors", "softmax.safetensors"),  # Elmore's folder
    *("encoder.pkl", "token_embedder.pkl", "classifier.pkl", "char.dic", "word.dic"),  # ELMoForManyLangs
    *("checkpoint", *_COMPANIONS),  # bilm-tf, NLPL
}
_CHECKPOINT_FILE = re.compile(r"(?P<prefix>.+)\.(index|meta|data-\d{5}-of-\d{5})")


@dataclass(frozen=True, kw_only=True)
class ModelLocation:
    """A model on this machine: one `path`; or `files` by the names that a format reads; or a built-in `checkpoint`."""

    requested: str  # the name from the user, without credentials
    path: Path | None = None  # a folder, an archive or a single file
    files: Mapping[str, Path] = field(default_factory=dict)
    checkpoint: Callable[[], "Checkpoint"] | None = None


def find_local(name: str) -> ModelLocation | None:
    """The model at this path, or None if the path does not exist."""
    path = local_path(name)
    with reading(name, error=NotFound):
        if not name:
            raise NotFound("the name of the model is empty")
        restore_folder(path)
        if path.is_dir():
            return ModelLocation(requested=name, path=path)
        if path.is_file():
            return _model_of_file(path, requested=name)
        if path.exists():
            raise NotFound(f"{name}: is neither a file nor a folder")
        if path.name and path.with_name(f"{path.name}.index").is_file():
            return _tensorflow_checkpoint(path, requested=name)
        return None


def find_file(name: str) -> Path | None:
    """The file at this path, or None if the path does not exist."""
    path = local_path(name)
    with reading(name, error=NotFound):
        return path if path.is_file() else None


def find_card(weights: Path) -> dict[str, Path]:
    """The card next to a weights file that Elmore wrote, by its name; empty if there is none."""
    return _present([PAIR_CARD], weights.parent)


def local_path(name: str) -> Path:
    """The path of a name that may begin with ~."""
    try:
        return Path(name).expanduser()
    except RuntimeError:  # ~ with an unknown user
        return Path(name)


def names_in(folder: Path) -> list[str]:
    """The names in a folder, sorted; none if the folder cannot be read."""
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except (OSError, ValueError):
        return []


def is_weights(name: str) -> bool:
    return name.lower().endswith((".hdf5", ".h5"))


def is_options(name: str) -> bool:
    return name.endswith(".json") and "options" in name


def options_names(weights: str) -> list[str]:
    """The names that the options file of a weights file may have, the most likely first.

    >>> options_names("elmo_pt_weights.hdf5")
    ['elmo_pt_options.json', 'options.json']
    >>> options_names("model.hdf5")
    ['options.json']
    """
    stem = weights.rpartition(".")[0]
    matching_name = [f"{stem.replace('weights', 'options')}.json"] if "weights" in stem else []
    return list(dict.fromkeys([*matching_name, OPTIONS]))


def weights_names(options: str) -> list[str]:
    """The names that the weights file of an options file may have, the most likely first.

    >>> weights_names("elmo_pt_options.json")
    ['elmo_pt_weights.hdf5', 'weights.hdf5', 'model.hdf5']
    """
    matching_name = options.removesuffix(".json").replace("options", "weights") + ".hdf5"
    # The last name is that of the NLPL repository.
    return list(dict.fromkeys([matching_name, WEIGHTS, "model.hdf5"]))


def _model_of_file(file: Path, *, requested: str) -> ModelLocation:
    """The model that this file is, or is part of."""
    if is_weights(file.name):
        return _pair(_options_of(file), file, requested=requested)
    if is_options(file.name):
        return _with_weights(file, requested=requested)
    checkpoint = _CHECKPOINT_FILE.fullmatch(file.name)
    if checkpoint and file.with_name(f"{checkpoint['prefix']}.index").is_file():
        return _tensorflow_checkpoint(file.with_name(checkpoint["prefix"]), requested=requested)
    return ModelLocation(requested=requested, path=file.parent if file.name in _FOLDER_FILES else file)


def _options_of(weights: Path) -> Path:
    names = options_names(weights.name)
    if files := _present(names, weights.parent):
        return next(iter(files.values()))
    raise NotFound(
        f"{weights}: its options file is missing: {' or '.join(names)} is not in the same folder; put it there, "
        "or name both files: load(options_file=..., weight_file=...)"
    )


def _with_weights(options: Path, *, requested: str) -> ModelLocation:
    folder, names = options.parent, weights_names(options.name)
    if files := _present(names, folder):
        return _pair(options, next(iter(files.values())), requested=requested)
    others = names_in(folder)
    if options.name == OPTIONS and any(name.endswith(".index") for name in others):
        return ModelLocation(requested=requested, path=folder)
    candidates = [name for name in others if is_weights(name)]
    weights = [name for name in candidates if "weights" in name]
    if len(weights) == 1:
        return _pair(options, folder / weights[0], requested=requested)
    present = f" (the folder contains {join_names(candidates)})" if candidates else ""
    raise NotFound(
        f"{options}: its weights file is missing: {' or '.join(names)} is not in the same folder{present}; "
        "name both files: load(options_file=..., weight_file=...)"
    )


def _pair(options: Path, weights: Path, *, requested: str) -> ModelLocation:
    files = {OPTIONS: options, WEIGHTS: weights, **_present(_COMPANIONS, weights.parent)}
    return ModelLocation(requested=requested, files=files)


def _tensorflow_checkpoint(prefix: Path, *, requested: str) -> ModelLocation:
    # Not the whole folder: it may contain other steps, or weights.hdf5.
    names = [name for name in names_in(prefix.parent) if name.startswith(f"{prefix.name}.")]
    return ModelLocation(requested=requested, files=_present([*names, OPTIONS, *_COMPANIONS], prefix.parent))


def _present(names: Iterable[str], folder: Path) -> dict[str, Path]:
    """Those of the names that are files in the folder."""
    return {name: folder / name for name in names if (folder / name).is_file()}
