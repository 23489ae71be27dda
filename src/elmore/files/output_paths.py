"""Checks of output paths, so that no data is overwritten unintentionally.

An output never replaces an input. It replaces another existing file only if Elmore wrote that file and it has the same
kind (vectors replace vectors), or with `--force` (in Python: `force=True`).
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from elmore.errors import InputError, NotFound


def check_output(
    path: str | Path,
    *,
    inputs: Iterable[str | Path] = (),
    may_replace: Callable[[Path], bool] | None = None,
    force: bool = False,
) -> None:
    """Raise InputError if writing would overwrite data.

    Files for which `may_replace(path)` is true are replaced without `force`. A folder is replaced with its content.

    >>> import tempfile
    >>> text = Path(tempfile.mkdtemp()) / "text.txt"
    >>> check_output(text)
    >>> _ = text.write_text("years of work")
    >>> check_output(text.with_name("vectors.npz"), inputs=[text])
    >>> check_output(text, inputs=[text], force=True)
    Traceback (most recent call last):
    ...
    elmore.errors.InputError: ...text.txt: is an input, and would be replaced by the output; choose another path
    """
    target = Path(path)
    check_parent_folder(path)
    if any(_replaces(target, source) for source in inputs):
        raise InputError(f"{path}: is an input, and would be replaced by the output; choose another path")
    if force or not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if may_replace is not None and may_replace(target):
        return
    writer = "" if may_replace is None else ", and was not written by Elmore"
    raise InputError(f"{path}: exists{writer}; choose another path, or replace it with --force (in Python: force=True)")


def check_parent_folder(path: str | Path) -> None:
    """Raise NotFound if the folder of a path does not exist."""
    target = Path(path)
    # The target of a link is written.
    folder = (target.resolve() if target.is_symlink() else target).parent
    if not folder.is_dir():
        raise NotFound(f"{path}: the folder {folder} does not exist; create it first")


def _replaces(target: Path, source: str | Path) -> bool:
    if str(source) == "-":
        return False
    target_path, source_path = target.resolve(), Path(source).resolve()
    if target_path == source_path:
        return True
    if not (target.exists() and source_path.exists()):
        return False
    # Not by the name only: a file can have several.
    return target.samefile(source_path) or target_path in source_path.parents
