"""Which files a corpus is made of: paths, folders, globs and `-`, in one settled order."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from elmore.errors import InputError, NotFound
from elmore.text.reading import format_of

CorpusFormat = Literal["text", "tokenized", "fasta"]


class Inputs(NamedTuple):
    """The files to read, and what was passed over on the way to them."""

    files: list[str]  # "-" is standard input
    format: CorpusFormat  # of all of them
    dropped: Counter[str]


def find_inputs(inputs: Sequence[str | Path], *, format: CorpusFormat | None = None) -> Inputs:  # noqa: A002
    """Turn what the user named into files.

    What was named keeps its order; what a folder or a glob holds is sorted, so that the same corpus comes out on every
    machine. A folder gives the files, however deep, whose names look like text or FASTA, packed or not.
    """
    if isinstance(inputs, str):
        raise InputError(f"inputs is the bare string {inputs!r}; give a list of paths")
    if format is not None and format not in get_args(CorpusFormat):
        raise InputError(f"the format is to be text, tokenized or fasta, and is {format!r}")
    dropped: Counter[str] = Counter()
    files: dict[Path, str] = {}
    for name in map(str, inputs):
        for file in _files_of(name, dropped):
            place = Path(file).resolve()
            if place in files:
                dropped["repeated_files"] += 1
            else:
                files[place] = file
    if not files:
        raise InputError("no input; name files, folders or globs, or - for standard input")
    found = list(files.values())
    return Inputs(found, format or _common_format(found), dropped)


def _files_of(name: str, dropped: Counter[str]) -> Iterator[str]:
    path = Path(name)
    if name == "-":
        yield name
    elif path.is_dir():
        yield from _files_in(path, dropped)
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
                    yield from _files_in(Path(match), dropped)
            else:
                yield match


# wiki_00 and so on are the names that WikiExtractor gives.
_TEXT_NAME = re.compile(r"(wiki_\d+|.+\.(txt|text|tok|tokens|fasta|fa|faa))(\.(gz|xz|bz2|zst))?", re.IGNORECASE)


def _files_in(folder: Path, dropped: Counter[str]) -> Iterator[str]:
    found = False
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or path.is_dir():
            continue
        if _TEXT_NAME.fullmatch(path.name):
            found = True
            yield str(path)
        else:
            dropped["skipped_files"] += 1
    if not found:
        raise NotFound(
            f"{folder}: holds no text; looked for .txt, .text, .tok, .tokens, .fasta, .fa, .faa, wiki_00, packed or not"
        )


def _common_format(files: Sequence[str]) -> CorpusFormat:
    """Text or FASTA, by the names; one corpus is one or the other, since the words of a model are cut in one way."""
    by_format = {format_of(file): file for file in reversed(files)}
    if treebank := by_format.get("conllu"):
        raise InputError(f"{treebank}: is a treebank; write its sentences out, one a line, and give them as tokenized")
    if len(by_format) > 1:
        raise InputError(
            f"{by_format['text']} is text and {by_format['fasta']} is FASTA; a corpus is the one or the other"
        )
    return "fasta" if "fasta" in by_format else "text"
