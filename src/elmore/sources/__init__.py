"""A name becomes a model on this machine.

A name is, in this order: a web address, a path, the built-in tiny model, a model that comes with Elmore, or a published
one. Each of these is a function that returns a location, or None to let the next one try.
"""

import difflib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from elmore.defaults import DEFAULT_MODEL, TINY_MODEL
from elmore.display import join_names
from elmore.errors import NotFound, error_context
from elmore.sources.local import OPTIONS, WEIGHTS, ModelLocation, find_card, find_file, find_local, local_path, names_in
from elmore.sources.urls import FileUrl, fetch_model, is_url, without_credentials

__all__ = ["PUBLISHED", "ModelLocation", "list_models", "resolve_files", "resolve_model"]

_SHIPPED = Path(__file__).resolve().parents[1] / "models"  # package data

# The English models of the paper's authors, as listed on allennlp.org/elmo. The address of a model of two files is that
# of its weights; the options file is next to it.
_AI2 = "https://allennlp.s3.amazonaws.com/models/elmo/{0}/elmo_{0}_weights.hdf5"

# ELMoForManyLangs. Its README gives each language a number in the NLPL repository, 136 to 179 in this order. Chinese is
# the traditional one.
_EFML = "https://vectors.nlpl.eu/repository/11/{}.zip"
_EFML_LANGUAGES = (
    "ar bg ca cs cu da de el en es et eu fa fi fr ga gl grc he hi hr hu "
    "id it ja ko la lv nl nb nn pl pt ro ru sk sl sv tr ug uk ur vi zh"
)

PUBLISHED = {
    "small": _AI2.format("2x1024_128_2048cnn_1xhighway"),
    "medium": _AI2.format("2x2048_256_2048cnn_1xhighway"),
    "original": _AI2.format("2x4096_512_2048cnn_2xhighway"),
    "original-5.5B": _AI2.format("2x4096_512_2048cnn_2xhighway_5.5B"),
    **{f"efml-{code}": _EFML.format(number) for number, code in enumerate(_EFML_LANGUAGES.split(), start=136)},
}


def resolve_model(name: str | Path | None = None) -> ModelLocation:
    """Find a model by path, address or name, and fetch it if necessary; None means the default model.

    A path takes precedence over a name: if the folder `small` exists here, the name `small` means this folder. A `Path`
    is never an address or a name.
    """
    if name is None:
        if shipped := _find_shipped(DEFAULT_MODEL):
            return shipped
        raise NotFound(
            f"{DEFAULT_MODEL}, the model that comes with Elmore, is missing from {_SHIPPED}; install Elmore again, or "
            f"name a folder, an archive, an address, or one of {join_names(list_models())}"
        )
    resolvers = [find_local] if isinstance(name, Path) else _RESOLVERS
    for resolve in resolvers:
        if location := resolve(str(name)):
            return location
    raise NotFound(_not_found_message(str(name)))


def resolve_files(options: str | Path, weights: str | Path) -> ModelLocation:
    """Find an options file and a weights file, each a path or an address, and the card that Elmore wrote with them."""
    files = {OPTIONS: _resolve_file(options), WEIGHTS: _resolve_file(weights)}
    return ModelLocation(requested=without_credentials(str(weights)), files={**files, **find_card(files[WEIGHTS])})


def list_models() -> list[str]:
    """The names of all models that need no path or address.

    >>> list_models()[:4]
    ['elmore-en', 'tiny-random', 'small', 'medium']
    """
    return [*_shipped_names(), TINY_MODEL, *PUBLISHED]


def _shipped_names() -> list[str]:
    return [name for name in names_in(_SHIPPED) if (_SHIPPED / name / "config.json").is_file()]


def _find_url(name: str) -> ModelLocation | None:
    return fetch_model(name) if is_url(name) else None


def _find_tiny(name: str) -> ModelLocation | None:
    if name != TINY_MODEL:
        return None
    from elmore.sources.tiny_random import tiny_checkpoint  # imported here, because it loads NumPy

    return ModelLocation(requested=name, checkpoint=tiny_checkpoint)


def _find_shipped(name: str) -> ModelLocation | None:
    # Compared with the names in the folder, so that no name leads out of it.
    return ModelLocation(requested=name, path=_SHIPPED / name) if name in _shipped_names() else None


def _find_published(name: str) -> ModelLocation | None:
    if (address := PUBLISHED.get(name)) is None:
        return None
    with error_context(name):
        return replace(fetch_model(address), requested=f"{name} ({address})")


_RESOLVERS: list[Callable[[str], ModelLocation | None]] = [
    _find_url,
    find_local,
    _find_tiny,
    _find_shipped,
    _find_published,
]


def _resolve_file(name: str | Path) -> Path:
    if isinstance(name, str) and is_url(name):
        return FileUrl.parse(name).fetch()
    if file := find_file(str(name)):
        return file
    raise NotFound(f"{name}: no such file{_did_you_mean(str(name), [])}")


def _not_found_message(name: str) -> str:
    if re.match(r"https?:/[^/]", name):
        return f"{without_credentials(name)}: lacks a slash; give addresses as strings, not as paths"
    folder, names = local_path(name).parent, list_models()
    if not folder.is_dir():
        return f"{name}: no such file or folder: {folder} does not exist"
    return (
        f"{name}: no such file or folder, and no model of that name (names: {join_names(names, most=6)})"
        f"{_did_you_mean(name, names)}"
    )


def _did_you_mean(name: str, names: list[str]) -> str:
    path = local_path(name)
    similar_paths = [str(path.parent / other) for other in difflib.get_close_matches(path.name, names_in(path.parent))]
    similar = difflib.get_close_matches(name, names) + similar_paths
    return f"; did you mean {' or '.join(similar[:3])}?" if similar else ""
