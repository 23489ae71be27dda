"""Which files a user means: paths, folders, globs and `-`, in one settled order."""

import errno
import os
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from glob import glob
from os import PathLike
from pathlib import Path
from typing import NamedTuple, get_args

from elmore.display import pluralize
from elmore.errors import InputError, InputWarning, NotFound
from elmore.files.os_errors import reason
from elmore.text.input_format import InputFormat, format_of


class Inputs(NamedTuple):
    """The files to read, and the numbers of skipped files."""

    files: list[str]  # "-" is standard input
    dropped: Counter[str]

    def warn_about_dropped(self, *, stacklevel: int = 2) -> None:
        """Warn about files that are not read."""
        if self.dropped:
            passed_over = ", ".join(pluralize(number, what) for what, number in self.dropped.items())
            message = f"some of the input is skipped: {passed_over}"
            warnings.warn(message, InputWarning, stacklevel=stacklevel + 1)


def find_inputs(
    inputs: Sequence[str | PathLike[str]], *, formats: Collection[InputFormat] = get_args(InputFormat)
) -> Inputs:
    """Turn what the user named into files.

    What was named keeps its order; what a folder or a glob holds is sorted, so that the same comes out on every
    machine. A folder gives the files, however deep, whose names look like text of one of these formats, packed or not.
    """
    if isinstance(inputs, str):
        raise InputError(f"inputs is the bare string {inputs!r}; give a list of paths")
    dropped: Counter[str] = Counter()
    files: dict[Path, str] = {}
    for name in map(_path_text, inputs):
        for file in _files_of(name, formats, dropped):
            place = Path(file).resolve()
            if place in files:
                dropped["repeated_files"] += 1
            else:
                files[place] = file
    if not files:
        raise InputError("no input; name files, folders or globs, or - for standard input")
    return Inputs(list(files.values()), dropped)


def _path_text(given: object) -> str:
    if not isinstance(given, str | bytes | PathLike):
        raise InputError(f"{given!r:.60} is no path; name files, folders or globs, or - for standard input")
    name = os.fsdecode(given)
    try:
        Path(name).exists()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise InputError(f"{name}: cannot be read: {reason(error)}") from None
        shown = f"{name!r:.58}..."
        raise InputError(f"{shown} is too long for a path; name files, and give texts to Embedder.encode") from None
    return name


def _files_of(name: str, formats: Collection[InputFormat], dropped: Counter[str]) -> Iterator[str]:
    path = Path(name)
    if name == "-":
        yield name
    elif path.is_dir():
        yield from _files_in(path, formats, dropped)
    # A path is asked for first: file names may hold [ and ], too.
    elif path.exists():
        yield name
    elif not re.search(r"[*?[]", name):
        raise NotFound(f"{name}: no such file or folder")
    else:
        matches = sorted(glob(name, recursive=True))  # noqa: PTH207  # Path.glob takes no absolute pattern
        if not matches:
            raise NotFound(f"{name}: matches no file")
        for match in matches:
            if Path(match).is_dir():
                # What ** finds in a folder it names one by one; folders themselves are opened only where no ** asks.
                if "**" not in name:
                    yield from _files_in(Path(match), formats, dropped)
            else:
                yield match


# wiki_00 and so on are the names that WikiExtractor gives.
_TEXT_NAME = re.compile(
    r"(wiki_\d+|.+\.(txt|text|tok|tokens|fasta|fa|faa|conllu|conll))(\.(gz|xz|bz2|zst))?", re.IGNORECASE
)


def _files_in(folder: Path, formats: Collection[InputFormat], dropped: Counter[str]) -> Iterator[str]:
    found = False
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or path.is_dir():
            continue
        if _TEXT_NAME.fullmatch(path.name) and format_of(path) in formats:
            found = True
            yield str(path)
        else:
            dropped["skipped_files"] += 1
    if not found:
        fasta = ", .fasta, .fa, .faa" if "fasta" in formats else ""
        treebanks = ", .conllu, .conll" if "conllu" in formats else ""
        raise NotFound(
            f"{folder}: holds no text; looked for .txt, .text, .tok, .tokens, wiki_00{fasta}{treebanks}, packed or not"
        )
