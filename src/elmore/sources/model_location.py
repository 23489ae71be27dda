"""Where a model is, which names are addresses, and how the files of one model are named."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

OPTIONS = "options.json"
WEIGHTS = "weights.hdf5"
PAIR_CARD = "elmore_card.json"  # next to a pair that Elmore wrote


@dataclass(frozen=True, kw_only=True)
class ModelLocation:
    """A model on this machine: one `path`, or `files` by the names that a format looks for."""

    origin: str  # what the user named
    path: Path | None = None  # a folder, an archive or a single file
    files: Mapping[str, Path] = field(default_factory=dict)


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:")  # two letters at least: C:// begins a path


def is_url(name: str) -> bool:
    return _SCHEME.match(name) is not None


_ADDRESS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+:/+)(?:[^/?#]*@)?(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>.*)", re.DOTALL
)


def without_credentials(name: str) -> str:
    """A name without the user name, password and query of the address in it, for these may grant access.

    >>> without_credentials("https://me:secret@example.org/elmo.zip?X-Amz-Signature=1234")
    'https://example.org/elmo.zip?…'
    >>> without_credentials("--init=https://example.org/elmo.zip?sig=1234"), without_credentials("what?.zip")
    ('--init=https://example.org/elmo.zip?…', 'what?.zip')
    """

    def shown(found: re.Match[str]) -> str:
        return f"{found['scheme']}{found['path']}{'?…' if found['query'] else ''}{found['fragment']}"

    return _ADDRESS.sub(shown, name, count=1)


def is_weights(name: str) -> bool:
    return name.lower().endswith((".hdf5", ".h5"))


def is_options(name: str) -> bool:
    return name.endswith(".json") and "options" in name


def options_names(weights: str) -> list[str]:
    """The names that the options file of a weights file may have, the likeliest first.

    >>> options_names("elmo_pt_weights.hdf5")
    ['elmo_pt_options.json', 'options.json']
    >>> options_names("model.hdf5")
    ['options.json']
    """
    stem = weights.rpartition(".")[0]
    own_name = [f"{stem.replace('weights', 'options')}.json"] if "weights" in stem else []
    return list(dict.fromkeys([*own_name, OPTIONS]))


def weights_names(options: str) -> list[str]:
    """The names that the weights file of an options file may have, the likeliest first.

    >>> weights_names("elmo_pt_options.json")
    ['elmo_pt_weights.hdf5', 'weights.hdf5', 'model.hdf5']
    """
    own_name = options.removesuffix(".json").replace("options", "weights") + ".hdf5"
    # The last is what the NLPL repository calls it.
    return list(dict.fromkeys([own_name, WEIGHTS, "model.hdf5"]))
