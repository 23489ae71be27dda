"""A name becomes the folder of a trained task model: one of the user's own, or one that comes with Elmore.

A folder wins over a name, as with biLMs: where there is a folder `pos`, finished or not, `pos` is that folder, which is
remarked upon. `./pos` and a `Path` always mean a folder.
"""

import difflib
import warnings
from pathlib import Path

from elmore.errors import InputWarning, NotFound
from elmore.files.atomic_files import restore_folder
from elmore.sources.local import local_path

ABOUT, ENSEMBLE = "task.json", "ensemble.json"
RUN_MODEL = "model"  # in the folder of a run

_SHIPPED = Path(__file__).resolve().parents[1] / "task_models"  # package data


def is_task_model(path: Path) -> bool:
    """Whether a folder is a task model, the folder of a run with one, or an ensemble."""
    return any((folder / ABOUT).is_file() for folder in (path, path / RUN_MODEL)) or (path / ENSEMBLE).is_file()


def find_task_model(name: str | Path) -> Path:
    """The folder of a task model, by its path or by the name of one that comes with Elmore."""
    shipped = None if isinstance(name, Path) else _find_shipped(name)
    path = local_path(str(name))
    restore_folder(path)
    if not path.exists():
        if shipped is None:
            raise NotFound(_not_found_message(str(name)))
        return shipped
    if not is_task_model(path):
        what = "has no task.json" if path.is_dir() else "is a file, and no folder"
        hidden = f"; the {name} that comes with Elmore lies in {shipped}" if shipped else ""
        raise NotFound(f"{name}: {what}; a task model is a folder that elmore train has finished{hidden}")
    if shipped is not None:
        warnings.warn(
            f"{name} is a folder here, which is used, and also a model that comes with Elmore, in {shipped}; "
            f"write ./{name} to say that the folder is meant",
            InputWarning,
            stacklevel=3,
        )
    return path


def names_task_model(name: str | Path) -> bool:
    """Whether `find_task_model` has something by this name, and not a biLM is meant."""
    path = local_path(str(name))
    restore_folder(path)
    return is_task_model(path) if path.exists() else isinstance(name, str) and _find_shipped(name) is not None


def shipped_names() -> list[str]:
    """The names of the task models that come with Elmore."""
    return sorted(path.name for path in _SHIPPED.iterdir() if is_task_model(path)) if _SHIPPED.is_dir() else []


def _find_shipped(name: str) -> Path | None:
    # Compared with what is there, so that no name leads out of the folder.
    return _SHIPPED / name if name in shipped_names() else None


def _not_found_message(name: str) -> str:
    from elmore.tasks.table import TASKS  # imported here: the tasks need torch, and finding a model does not

    shipped = shipped_names()
    close = difflib.get_close_matches(name, shipped)
    with_elmore = f", and no model of that name comes with Elmore, as {', '.join(shipped)} does" if shipped else ""
    advice = f"train one: elmore train {name}" if name in TASKS else "a task model is a folder that elmore train wrote"
    return f"{name}: no such folder{with_elmore}; " + (f"did you mean {close[0]}?" if close else advice)
