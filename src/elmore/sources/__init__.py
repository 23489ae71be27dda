"""A name becomes files on this machine.

A name is, in this order: a web address, a path, a model shipped with Elmore, or a published one. Each of these is a
function that gives what it found, or None to let the next one try.
"""

import difflib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from elmore.defaults import DEFAULT_MODEL
from elmore.display import join_names
from elmore.errors import NotFound, error_context
from elmore.sources.local import find_card, find_file, find_local, local_path, names_in
from elmore.sources.model_location import OPTIONS, WEIGHTS, ModelLocation, is_url, without_credentials
from elmore.sources.published import PUBLISHED

__all__ = ["ModelLocation", "find", "find_pair", "known_names"]

_SHIPPED = Path(__file__).resolve().parents[1] / "models"  # package data


def find(name: str | Path | None = None) -> ModelLocation:
    """Find a model by path, address or name, fetching it if need be; None means the default model.

    A path wins over a name: a folder `small` here is that folder. What is given as a `Path` is only looked for here.
    """
    if name is None:
        if shipped := _find_shipped(DEFAULT_MODEL):
            return shipped
        raise NotFound(
            f"{DEFAULT_MODEL}, the model that comes with Elmore, is missing from {_SHIPPED}; install Elmore again, or "
            f"name a folder, an archive, an address, or one of {join_names(known_names())}"
        )
    resolvers = [find_local] if isinstance(name, Path) else _RESOLVERS
    for resolve in resolvers:
        if found := resolve(str(name)):
            return found
    raise NotFound(_not_found_message(str(name)))


def find_pair(options: str | Path, weights: str | Path) -> ModelLocation:
    """Find an options file and a weights file, each a path or an address, and the card that Elmore wrote with them."""
    files = {OPTIONS: _find_file(options), WEIGHTS: _find_file(weights)}
    return ModelLocation(origin=without_credentials(str(weights)), files={**files, **find_card(files[WEIGHTS])})


def known_names() -> list[str]:
    """The names that `find` knows beside paths and addresses, those shipped first.

    >>> known_names()[:4]
    ['elmore-en', 'small', 'medium', 'original']
    """
    return [*_shipped_names(), *PUBLISHED]


def _shipped_names() -> list[str]:
    return [name for name in names_in(_SHIPPED) if (_SHIPPED / name / "config.json").is_file()]


def _find_shipped(name: str) -> ModelLocation | None:
    # Compared with what is there, so that no name leads out of the folder.
    return ModelLocation(origin=name, path=_SHIPPED / name) if name in _shipped_names() else None


# `urls` is imported where it is used, because it loads the modules for the network.


def _find_url(name: str) -> ModelLocation | None:
    if not is_url(name):
        return None
    from elmore.sources.urls import find_url

    return find_url(name)


def _find_published(name: str) -> ModelLocation | None:
    if (address := PUBLISHED.get(name)) is None:
        return None
    from elmore.sources.urls import find_url

    with error_context(name):
        return replace(find_url(address), origin=f"{name} ({address})")


_RESOLVERS: list[Callable[[str], ModelLocation | None]] = [_find_url, find_local, _find_shipped, _find_published]


def _find_file(name: str | Path) -> Path:
    if isinstance(name, str) and is_url(name):
        from elmore.sources.urls import FileUrl

        return FileUrl.parse(name).fetch()
    if found := find_file(str(name)):
        return found
    raise NotFound(f"{name}: no such file{_did_you_mean(str(name), [])}")


def _not_found_message(name: str) -> str:
    if re.match(r"https?:/[^/]", name):
        return f"{without_credentials(name)}: lacks a slash; give addresses as strings, not as paths"
    names = ["tiny-random", *known_names()]
    folder = local_path(name).parent
    if not folder.is_dir():
        return f"{name}: no such file or folder, for {folder} does not exist"
    return (
        f"{name}: no such file or folder, and no model of that name (known are {join_names(names, most=6)})"
        f"{_did_you_mean(name, names)}"
    )


def _did_you_mean(name: str, names: list[str]) -> str:
    path = local_path(name)
    beside = [str(path.parent / found) for found in difflib.get_close_matches(path.name, names_in(path.parent))]
    close = difflib.get_close_matches(name, names) + beside
    return f"; did you mean {' or '.join(close[:3])}?" if close else ""
