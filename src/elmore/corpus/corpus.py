"""A prepared corpus on disk: a folder that `elmore prepare` writes and the trainer reads memory-mapped.

train.bin       uint32: the words of all sentences by number, 0 between sentences, 0 first and 0 last
heldout.bin     the same for the documents held out; a lone 0 if there are none
types.txt       the distinct words, one a line; a word's number is its line, from 0. <S> and </S> come first, then the
                words by falling count in train.bin, equals in the order of their code points
vocabulary.txt  the softmax vocabulary, one word a line
classes.bin     uint32 for each type: its line in vocabulary.txt, that of <UNK> if it has none
manifest.json   what the corpus is, what was left out and why, size and SHA-256 of each file

Numbers are little-endian. Read forwards, a 0 is <S> as input and </S> as target; read backwards, the other way round.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from elmore.corpus.manifest import FORMAT, MANIFEST, VERSION, Manifest, StoredFile, read_manifest
from elmore.display import join_names
from elmore.errors import FormatError, NotFound, error_context
from elmore.text.style import TokenizerConfig
from elmore.text.vocabulary import Vocabulary

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"

TRAIN, HELDOUT, TYPES = "train.bin", "heldout.bin", "types.txt"
VOCABULARY, CLASSES = "vocabulary.txt", "classes.bin"
FILES = (TRAIN, HELDOUT, TYPES, VOCABULARY, CLASSES)


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
        """Open a folder and check that its files fit together; `verify` reads every byte and compares checksums."""
        folder = Path(path)
        manifest = read_manifest(folder)
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
                f"names word {self.classes.max():,} of a vocabulary that has {len(self.vocabulary):,}",
            )


class CorpusWriter:
    """Fills a folder: the two streams piece by piece, then the tables, then the manifest."""

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
        """Write the manifest: these facts, between the name of the format and the checksums of all files."""
        files = {name: asdict(self.files[name]) for name in FILES}
        whole = {"format": FORMAT, "version": VERSION, **facts, "files": files}
        text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
        # A file name need not be UTF-8; as \udc80 and the like, which is JSON too, it is kept.
        (self.folder / MANIFEST).write_bytes(text.encode("utf-8", "backslashreplace"))

    def _write_file(self, name: str, content: bytes) -> None:
        (self.folder / name).write_bytes(content)
        self.files[name] = StoredFile(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


class StreamWriter:
    """A file of numbers that grows, and its checksum with it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.hash = hashlib.sha256()
        self.bytes = 0

    def append(self, numbers: NDArray[np.uint32]) -> None:
        piece = numbers.astype("<u4", copy=False).tobytes()
        self.file.write(piece)
        self.hash.update(piece)
        self.bytes += len(piece)


def _check_file(path: Path, stored: StoredFile | None, *, verify: bool) -> None:
    if stored is None:
        raise FormatError("is not listed in the manifest; prepare the corpus again")
    if not path.is_file():
        raise NotFound("is missing; prepare the corpus again")
    if (size := path.stat().st_size) != stored.bytes:
        raise FormatError(f"has {size:,} bytes instead of {stored.bytes:,}; copy it, or prepare the corpus, again")
    if verify:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != stored.sha256:
            raise FormatError("its SHA-256 is not that of the manifest; copy it, or prepare the corpus, again")


def _read_types(path: Path) -> list[str]:
    try:
        # Not read_text, which would take a carriage return inside a word for the end of a line.
        return path.read_bytes().decode().split("\n")[:-1]
    except UnicodeDecodeError as error:
        raise _damaged(path, f"is not UTF-8 at byte {error.start}") from None


def _damaged(path: Path, what: str) -> FormatError:
    return FormatError(f"{path}: {what}; prepare the corpus again")
