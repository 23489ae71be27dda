"""A prepared corpus on disk: a folder that `elmore prepare` writes and the trainer reads memory-mapped.

train.bin       uint32: the word numbers of all sentences, with 0 between sentences, at the begin and at the end
heldout.bin     the same for held-out documents; a single 0 if there are none
types.txt       the distinct words, one per line; the number of a word is that of its line, from 0. <S> and </S> come
                first, then the words by decreasing count in train.bin, words with equal counts in code point order
vocabulary.txt  the softmax vocabulary, one word per line
classes.bin     uint32 for each type: its line in vocabulary.txt, or the line of <UNK>
manifest.json   facts about the corpus, reasons for omissions, size and SHA-256 of each file

Numbers are little-endian. In the forward direction, a 0 is <S> as input and </S> as target; in the backward direction
it is the other way round.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from elmore.display import join_names
from elmore.errors import FormatError, InputError, NotFound, error_context
from elmore.fields import read_fields
from elmore.files.json_files import check_format, parse_json
from elmore.text.style import TokenizerConfig
from elmore.text.vocabulary import Vocabulary, decode_lines

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"

TRAIN, HELDOUT, TYPES = "train.bin", "heldout.bin", "types.txt"
VOCABULARY, CLASSES = "vocabulary.txt", "classes.bin"
FILES = (TRAIN, HELDOUT, TYPES, VOCABULARY, CLASSES)

MANIFEST = "manifest.json"
FORMAT, VERSION = "elmore-corpus", 1
_REMEDY = "prepare the corpus again"


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """The size and the checksum of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class CorpusPart:
    """The size of the training part or of the held-out part."""

    documents: int
    sentences: int
    tokens: int
    types: int  # that occur in this part
    unknown_tokens: int
    unknown_share: float


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The facts about a corpus: its text, its parts, dropped and changed items with reasons, and its files."""

    format: str = FORMAT
    version: int = VERSION
    written_by: str
    text: TokenizerConfig
    parts: Mapping[str, CorpusPart]  # train and heldout
    types: int  # in both parts
    dropped: Mapping[str, Any] = field(default_factory=dict)
    changed: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: Mapping[str, Any]
    seed: int
    heldout_share: float
    inputs: tuple[Mapping[str, Any], ...]
    files: Mapping[str, StoredFile]


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus, open for reading; the two streams stay on disk."""

    path: Path
    train: NDArray[np.uint32]
    heldout: NDArray[np.uint32]
    types: list[str]
    classes: NDArray[np.uint32]
    vocabulary: Vocabulary
    style: TokenizerConfig
    manifest: Manifest

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = False) -> "Corpus":
        """Open a folder and check that its files agree; `verify` reads all files and compares checksums."""
        folder = Path(path)
        manifest = _read_manifest(folder)
        for name in FILES:
            with error_context(folder / name):
                _check_file(folder / name, manifest.files.get(name), verify=verify)
        corpus = cls(
            path=folder,
            train=np.memmap(folder / TRAIN, dtype="<u4", mode="r"),
            heldout=np.memmap(folder / HELDOUT, dtype="<u4", mode="r"),
            types=_read_types(folder / TYPES),
            classes=np.fromfile(folder / CLASSES, dtype="<u4"),
            vocabulary=Vocabulary.read(folder / VOCABULARY),
            style=manifest.text,
            manifest=manifest,
        )
        corpus._check()
        return corpus

    def _check(self) -> None:
        for name, stream in ((TRAIN, self.train), (HELDOUT, self.heldout)):
            if stream[0] != 0 or stream[-1] != 0:
                raise _damaged(self.path / name, "does not begin and end with a boundary")
        if len(self.classes) != len(self.types):
            raise _damaged(self.path / CLASSES, f"has {len(self.classes):,} numbers for {len(self.types):,} types")
        if self.types[:2] != [BEGIN, END]:
            raise _damaged(self.path / TYPES, f"begins with {join_names(self.types[:2])} instead of {BEGIN}, {END}")
        if missing := [word for word in (BEGIN, END, UNKNOWN) if word not in self.vocabulary]:
            raise _damaged(self.path / VOCABULARY, f"lacks {join_names(missing)}")
        if self.classes.max() >= len(self.vocabulary):
            raise _damaged(
                self.path / CLASSES,
                f"contains line {self.classes.max():,} of a vocabulary that has {len(self.vocabulary):,}",
            )


class CorpusWriter:
    """Writes a folder: the two streams piece by piece, then the tables, then the manifest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, StoredFile] = {}

    @contextmanager
    def open_stream(self, name: str) -> Iterator["StreamWriter"]:
        """Write train.bin or heldout.bin."""
        with (self.folder / name).open("wb") as file:
            writer = StreamWriter(file)
            writer.append(np.zeros(1, dtype=np.uint32))
            yield writer
        self.files[name] = StoredFile(bytes=writer.bytes, sha256=writer.hash.hexdigest())

    def write_words(self, name: str, words: Sequence[str]) -> None:
        """Write types.txt or vocabulary.txt."""
        self._write_file(name, "".join(f"{word}\n" for word in words).encode())

    def write_array(self, name: str, values: NDArray[Any], dtype: DTypeLike) -> None:
        """Write classes.bin."""
        self._write_file(name, values.astype(dtype).tobytes())

    def write_manifest(self, facts: dict[str, Any]) -> None:
        """Write the manifest: these facts, and the checksums of all files."""
        files = {name: asdict(self.files[name]) for name in FILES}
        manifest = {"format": FORMAT, "version": VERSION, **facts, "files": files}
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        # The names of input files need not be UTF-8. Other bytes are written as \udc80 and so on, which is valid JSON.
        (self.folder / MANIFEST).write_bytes(text.encode("utf-8", "backslashreplace"))

    def _write_file(self, name: str, content: bytes) -> None:
        (self.folder / name).write_bytes(content)
        self.files[name] = StoredFile(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


class StreamWriter:
    """Appends numbers to a file and to its checksum."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.hash = hashlib.sha256()
        self.bytes = 0

    def append(self, numbers: NDArray[np.uint32]) -> None:
        piece = numbers.astype("<u4", copy=False).tobytes()
        self.file.write(piece)
        self.hash.update(piece)
        self.bytes += len(piece)


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise NotFound(f"{folder}: no such folder; make a corpus with: elmore prepare TEXT -o {folder}")
    if not path.is_file():
        raise NotFound(f"{folder}: contains no {MANIFEST}, so it is no prepared corpus; make one with: elmore prepare")
    with error_context(path):
        values = parse_json(path.read_bytes(), remedy=_REMEDY)
        check_format(values, FORMAT, versions=[VERSION], remedy=_REMEDY)
        return read_fields(Manifest, values, error=FormatError)


def _check_file(path: Path, stored: StoredFile | None, *, verify: bool) -> None:
    if stored is None:
        raise FormatError(f"is not listed in the manifest; {_REMEDY}")
    if not path.is_file():
        raise NotFound(f"is missing; {_REMEDY}")
    if (size := path.stat().st_size) != stored.bytes:
        raise FormatError(f"has {size:,} bytes instead of {stored.bytes:,}; copy it, or prepare the corpus, again")
    if verify:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != stored.sha256:
            raise FormatError("its SHA-256 is not that of the manifest; copy it, or prepare the corpus, again")


def _read_types(path: Path) -> list[str]:
    try:
        return decode_lines(path.read_bytes())
    except InputError as error:
        raise _damaged(path, str(error).partition(";")[0]) from None


def _damaged(path: Path, what: str) -> FormatError:
    return FormatError(f"{path}: {what}; {_REMEDY}")
