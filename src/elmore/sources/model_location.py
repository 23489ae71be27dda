"""What a name was found to be, and by which names the files of one model know each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

OPTIONS = "options.json"
WEIGHTS = "weights.hdf5"


@dataclass(frozen=True, kw_only=True)
class ModelLocation:
    """A model on this machine: one `path`, or `files` by the names that a format looks for."""

    origin: str  # what the user named
    path: Path | None = None  # a folder, an archive or a single file
    files: Mapping[str, Path] = field(default_factory=dict)


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
