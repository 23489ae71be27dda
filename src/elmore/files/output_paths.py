"""Where an output may go: nothing is overwritten by surprise.

An output never replaces an input. What is there already it replaces only if that is Elmore's own and of the same kind
(a file of vectors by a file of vectors), or if it is told to: `--force` on the command line, `force=True` in Python.
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
    """Refuse to write where something would be lost. `may_replace` knows a file that may be replaced without asking.

    With a folder, all that it holds is replaced.

    >>> import tempfile
    >>> text = Path(tempfile.mkdtemp()) / "text.txt"
    >>> check_output(text)
    >>> _ = text.write_text("years of work")
    >>> check_output(text.with_name("vectors.npz"), inputs=[text])
    >>> check_output(text, inputs=[text], force=True)
    Traceback (most recent call last):
    ...
    elmore.errors.InputError: ...text.txt: is an input, and would be replaced by the output; name another file to write
    """
    target = Path(path)
    check_parent_folder(path)
    if any(_replaces(target, source) for source in inputs):
        raise InputError(f"{path}: is an input, and would be replaced by the output; name another file to write")
    if force or not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if may_replace is not None and may_replace(target):
        return
    whose = "" if may_replace is None else ", and not Elmore's"
    raise InputError(
        f"{path}: is there already{whose}; choose another name, or replace it with --force (in Python: force=True)"
    )


def check_parent_folder(path: str | Path) -> None:
    """Refuse to write into a folder that does not exist."""
    target = Path(path)
    # A link is written through, so it is the folder it leads to that counts.
    folder = (target.resolve() if target.is_symlink() else target).parent
    if not folder.is_dir():
        raise NotFound(f"{path}: the folder {folder} does not exist; make it first")


def _replaces(target: Path, source: str | Path) -> bool:
    if str(source) == "-":
        return False
    here, there = target.resolve(), Path(source).resolve()
    if here == there:
        return True
    if not (target.exists() and there.exists()):
        return False
    # By what lies there: a file has many names.
    return target.samefile(there) or here in there.parents
