"""A path on this machine becomes a model's files.

A folder, an archive or a state dict is taken as it is. A file that is only part of a model brings the rest along: of
weights and options, either finds the other; a TensorFlow checkpoint is its prefix, or any of its files; anything else
that lies in a model folder means the folder.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from elmore.display import join_names
from elmore.errors import NotFound
from elmore.files.atomic_files import restore_folder
from elmore.files.os_errors import reading
from elmore.sources.model_location import (
    OPTIONS,
    PAIR_CARD,
    WEIGHTS,
    ModelLocation,
    is_options,
    is_weights,
    options_names,
    weights_names,
)

# Beside weights of whatever name, these say more about them.
_COMPANIONS = ("vocab.txt", "vocab.txt.gz", "meta.json", PAIR_CARD)

_FOLDER_FILES = {
    *("config.json", "card.json", "model.safetensors", "softmax.safetensors"),  # Elmore's own
    *("encoder.pkl", "token_embedder.pkl", "classifier.pkl", "char.dic", "word.dic"),  # ELMoForManyLangs
    *("checkpoint", *_COMPANIONS),  # bilm-tf, NLPL
}

_CHECKPOINT_FILE = re.compile(r"(?P<prefix>.+)\.(index|meta|data-\d{5}-of-\d{5})")


def find_local(name: str) -> ModelLocation | None:
    """What lies at this path, or None where nothing does."""
    path = local_path(name)
    with reading(name, error=NotFound):
        if not name:
            raise NotFound("the name of the model is empty")
        restore_folder(path)
        if path.is_dir():
            return ModelLocation(origin=name, path=path)
        if path.is_file():
            return _model_with(path, origin=name)
        if path.exists():
            raise NotFound(f"{name}: is neither a file nor a folder")
        if path.name and path.with_name(f"{path.name}.index").is_file():
            return _tensorflow_checkpoint(path, origin=name)
        return None


def find_file(name: str) -> Path | None:
    """The file at this path, or None where there is none."""
    path = local_path(name)
    with reading(name, error=NotFound):
        return path if path.is_file() else None


def find_card(weights: Path) -> dict[str, Path]:
    """The card next to a weights file that Elmore wrote, by its name; empty if there is none."""
    return _present([PAIR_CARD], weights.parent)


def local_path(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # ~ and a user whom nobody knows
        return Path(name)


def names_in(folder: Path) -> list[str]:
    """The names in a folder, sorted; none where it cannot be read."""
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except (OSError, ValueError):
        return []


def _model_with(file: Path, *, origin: str) -> ModelLocation:
    """The model that this file is, or is part of."""
    if is_weights(file.name):
        return _pair(_options_of(file), file, origin=origin)
    if is_options(file.name):
        return _with_weights(file, origin=origin)
    checkpoint = _CHECKPOINT_FILE.fullmatch(file.name)
    if checkpoint and file.with_name(f"{checkpoint['prefix']}.index").is_file():
        return _tensorflow_checkpoint(file.with_name(checkpoint["prefix"]), origin=origin)
    if file.name in _FOLDER_FILES:
        return ModelLocation(origin=origin, path=file.parent)
    return ModelLocation(origin=origin, path=file)


def _options_of(weights: Path) -> Path:
    names = options_names(weights.name)
    if found := _first_of(names, weights.parent):
        return found
    raise NotFound(
        f"{weights}: its options file is missing: there is no {' or '.join(names)} beside it; "
        "put it there, or name both files: load(options_file=..., weight_file=...)"
    )


def _with_weights(options: Path, *, origin: str) -> ModelLocation:
    folder, names = options.parent, weights_names(options.name)
    if found := _first_of(names, folder):
        return _pair(options, found, origin=origin)
    others = names_in(folder)
    if options.name == OPTIONS and any(name.endswith(".index") for name in others):
        return ModelLocation(origin=origin, path=folder)
    candidates = [name for name in others if is_weights(name)]
    weights = [name for name in candidates if "weights" in name]
    if len(weights) == 1:
        return _pair(options, folder / weights[0], origin=origin)
    seen = f" (there are {join_names(candidates)})" if candidates else ""
    raise NotFound(
        f"{options}: its weights file is missing: there is no {' or '.join(names)} beside it{seen}; "
        "name both files: load(options_file=..., weight_file=...)"
    )


def _pair(options: Path, weights: Path, *, origin: str) -> ModelLocation:
    files = {OPTIONS: options, WEIGHTS: weights, **_present(_COMPANIONS, weights.parent)}
    return ModelLocation(origin=origin, files=files)


def _tensorflow_checkpoint(prefix: Path, *, origin: str) -> ModelLocation:
    # Not the whole folder: it may hold other steps, or a dump, and this one was asked for.
    own = [name for name in names_in(prefix.parent) if name.startswith(f"{prefix.name}.")]
    return ModelLocation(origin=origin, files=_present([*own, OPTIONS, *_COMPANIONS], prefix.parent))


def _first_of(names: Iterable[str], folder: Path) -> Path | None:
    return next(iter(_present(names, folder).values()), None)


def _present(names: Iterable[str], folder: Path) -> dict[str, Path]:
    return {name: folder / name for name in names if (folder / name).is_file()}
