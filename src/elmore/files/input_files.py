"""Input files: paths, folders, globs and `-` become a list of files in a fixed order, each with a format."""

import errno
import os
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from elmore.display import pluralize
from elmore.errors import InputError, InputWarning, NotFound
from elmore.files.os_errors import reason
from elmore.files.text_files import content_suffix

InputFormat = Literal["text", "tokenized", "conllu", "conll", "fasta"]  # see `text.sentence_reader`
CorpusFormat = Literal["text", "tokenized", "fasta"]  # of text to train on

_SUFFIXES: dict[str, InputFormat] = {
    ".txt": "text",
    ".text": "text",
    ".tok": "text",
    ".tokens": "text",
    ".conllu": "conllu",
    ".conll": "conll",
    ".fasta": "fasta",
    ".fa": "fasta",
    ".faa": "fasta",
}


def format_of(path: str | Path) -> InputFormat:
    """The format of a file, compressed or not, by its name. Files with an unknown suffix are text.

    >>> format_of("train.conllu.gz"), format_of("proteins.fa"), format_of("-")
    ('conllu', 'fasta', 'text')
    """
    return _SUFFIXES.get(content_suffix(path), "text")


class Inputs(NamedTuple):
    """The files to read, and the numbers of skipped files by reason."""

    files: list[str]  # "-" is standard input
    skipped: Counter[str]

    def warn_about_skipped(self, *, stacklevel: int = 2) -> None:
        """Warn about files that are not read."""
        if self.skipped:
            numbers = ", ".join(pluralize(number, what) for what, number in self.skipped.items())
            warnings.warn(f"some of the input is skipped: {numbers}", InputWarning, stacklevel=stacklevel + 1)


def find_inputs(
    inputs: Sequence[str | PathLike[str]], *, formats: Collection[InputFormat] = get_args(InputFormat)
) -> Inputs:
    """Find the files for paths, folders and globs.

    The order is that of `inputs`. The files of a folder or a glob are sorted. In a folder and its subfolders, only
    files whose suffix belongs to one of the formats are read; hidden files are ignored.
    """
    if isinstance(inputs, str):
        raise InputError(f"inputs is the string {inputs!r}; give a list of paths")
    skipped: Counter[str] = Counter()
    files: dict[Path, str] = {}
    for name in map(_path_text, inputs):
        for file in _files_of(name, formats, skipped):
            resolved = Path(file).resolve()
            if resolved in files:
                skipped["repeated_files"] += 1
            else:
                files[resolved] = file
    if not files:
        raise InputError("no input; name files, folders or globs, or - for standard input")
    return Inputs(list(files.values()), skipped)


def expand_glob(pattern: str) -> list[str]:
    """The files and folders that match a pattern, sorted; NotFound if there are none."""
    from glob import glob  # imported here: most inputs are plain paths

    if not (matches := sorted(glob(pattern, recursive=True))):  # noqa: PTH207  # Path.glob takes no absolute pattern
        raise NotFound(f"{pattern}: matches no file")
    return matches


def is_glob(name: str) -> bool:
    """Whether a name is a pattern. An existing path is not, because file names can contain brackets."""
    return bool(re.search(r"[*?[]", name)) and not Path(name).exists()


def _path_text(path: object) -> str:
    if not isinstance(path, str | bytes | PathLike):
        raise InputError(f"{path!r:.60} is not a path; name files, folders or globs, or - for standard input")
    name = os.fsdecode(path)
    try:
        Path(name).exists()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise InputError(f"{name}: cannot be read: {reason(error)}") from None
        shown = f"{name!r:.58}..."
        raise InputError(f"{shown} is too long for a path; name files, and pass texts to Embedder.encode") from None
    return name


def _files_of(name: str, formats: Collection[InputFormat], skipped: Counter[str]) -> Iterator[str]:
    if name == "-":
        yield name
    elif Path(name).is_dir():
        yield from _files_in(Path(name), formats, skipped)
    elif not is_glob(name):
        if not Path(name).exists():
            raise NotFound(f"{name}: no such file or folder")
        yield name
    else:
        for match in expand_glob(name):
            if not Path(match).is_dir():
                yield match
            elif "**" not in name:  # the files of this folder are matches themselves
                yield from _files_in(Path(match), formats, skipped)


_WIKI_EXTRACTOR_NAME = re.compile(r"wiki_\d+", re.IGNORECASE)  # without a suffix


def _files_in(folder: Path, formats: Collection[InputFormat], skipped: Counter[str]) -> Iterator[str]:
    found = False
    for path in sorted(folder.rglob("*")):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if is_hidden or path.is_dir():
            continue
        has_known_name = content_suffix(path) in _SUFFIXES or (
            content_suffix(path) == "" and _WIKI_EXTRACTOR_NAME.fullmatch(path.name.partition(".")[0])
        )
        if has_known_name and format_of(path) in formats:
            found = True
            yield str(path)
        else:
            skipped["skipped_files"] += 1
    if not found:
        suffixes = ", ".join(suffix for suffix, format_name in _SUFFIXES.items() if format_name in formats)
        raise NotFound(f"{folder}: contains no text; it must have files named {suffixes} or wiki_00, compressed or not")
