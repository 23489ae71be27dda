"""Fetch a file once, and keep it in a cache that is verified at every use.

    cache_folder()/downloads/<hash of the address>/
        NAME             the file, whole: it is renamed to this only when all of it has come
        NAME.json        where it came from and when, its size and SHA-256
        NAME.part        what has come so far of a file that was cut off
        NAME.part.json   how much of that is safe on disk, and how the server will know it
        NAME.lock        held by the one process that fetches; the others wait, and find the file

The digest of a cached file is computed anew each time, not only when its size or date look different: the bytes are
about to be read anyway, the largest published model takes some 0.3 seconds, and a decayed disk changes no dates. A
damaged file is fetched again. A sound one is used without asking the server; delete its folder to have it anew.
"""

import hashlib
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from filelock import FileLock

from elmore.atomic_files import atomic_write
from elmore.errors import ElmoreError, FormatError, NotFound, error_context
from elmore.sources.cache_folder import cache_folder
from elmore.sources.transport import Absent, Answer, TransferError, UnfitPartError, Validator, request

logger = logging.getLogger(__name__)

WAITS = (0.5, 1.0, 2.0)  # seconds before each further try
KEEP_EVERY = 64 << 20  # bytes, of which no more are lost to a power failure


def fetch(url: str, *, name: str, sha256: str | None = None) -> Path:
    """The file at this address, from the cache or else from the network; `sha256` is what it must have.

    With the environment variable ELMORE_OFFLINE set, the network is never touched.
    """
    with error_context(url):
        place = _Place.of(url, name)
        try:
            if _is_sound(place, sha256):
                return place.file
            if _offline():
                raise Absent(f"there is no sound copy in {place.folder}, and ELMORE_OFFLINE forbids to fetch one")
            place.folder.mkdir(parents=True, exist_ok=True)
            with FileLock(place.beside("lock")):
                # Another process may have fetched it while this one waited for the lock.
                if not _is_sound(place, sha256):
                    _download(place, sha256)
            return place.file
        except ElmoreError:
            raise
        except OSError as error:
            raise NotFound(
                f"the cache in {place.folder} cannot be used: {error.strerror or error}; "
                "free some space there, or set ELMORE_CACHE to another folder"
            ) from error


@dataclass(frozen=True)
class _Place:
    """Where in the cache the file of one address lies."""

    url: str
    folder: Path
    file: Path

    @classmethod
    def of(cls, url: str, name: str) -> Self:
        folder = cache_folder() / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:32]
        # The end of the name, because what kind of file it is stands there.
        safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name)[-100:].lstrip(".")
        return cls(url, folder, folder / (safe or "file"))

    def beside(self, ending: str) -> Path:
        return self.folder / f"{self.file.name}.{ending}"


@dataclass(frozen=True, kw_only=True)
class _Record:
    """What is known of a file in the cache, or of a part of one."""

    url: str
    size: int
    sha256: str  # empty for a part
    etag: str
    last_modified: str
    when: str

    @classmethod
    def of(cls, answer: Answer, url: str, *, size: int, sha256: str) -> Self:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(url=url, size=size, sha256=sha256, when=now, **answer.validator._asdict())

    @classmethod
    def read(cls, path: Path) -> Self | None:
        try:
            return cls(**json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None  # no record, or one that says nothing: the file is fetched as if there were none

    def write(self, path: Path) -> None:
        with atomic_write(path) as unfinished:
            unfinished.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def _is_sound(place: _Place, sha256: str | None) -> bool:
    """Whether the cache has the file as it was fetched, and as it must be."""
    record = _Record.read(place.beside("json"))
    if record is None or not place.file.is_file():
        return False
    with place.file.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != record.sha256:
        logger.warning("%s: was damaged since it was fetched", place.file)
        return False
    return sha256 in (None, found)


def _offline() -> bool:
    return os.environ.get("ELMORE_OFFLINE", "").lower() not in ("", "0", "false", "no")


def _download(place: _Place, sha256: str | None) -> None:
    """Fetch the file in a few tries, each of which goes on where the last one stopped."""
    for wait in (*WAITS, None):
        try:
            _try_once(place, sha256)
        except TransferError as failure:
            if isinstance(failure, UnfitPartError):
                place.beside("part").unlink(missing_ok=True)
            if wait is None:
                raise NotFound(f"{failure}; try again later, it goes on where it stopped") from None
            logger.info("%s: %s; trying again in %s s", place.url, failure, wait)
            time.sleep(wait)
        else:
            return


def _try_once(place: _Place, sha256: str | None) -> None:
    part = place.beside("part")
    start, validator = _what_is_kept(place)
    with request(place.url, start=start, validator=validator) as answer:
        found, received = _receive(answer, place)
    if answer.size not in (None, received):
        raise TransferError(f"the connection ended after {received:,} of {answer.size:,} bytes")
    if not received:
        raise NotFound("the server sent an empty file")
    if sha256 not in (None, found):
        part.unlink()
        raise FormatError(
            f"what came has the SHA-256 {found}, not {sha256}, and was removed; compare with the publisher"
        )
    part.replace(place.file)
    _Record.of(answer, place.url, size=received, sha256=found).write(place.beside("json"))
    place.beside("part.json").unlink(missing_ok=True)


def _what_is_kept(place: _Place) -> tuple[int, Validator]:
    """How many bytes are there from an earlier try, and how the server will know them."""
    record = _Record.read(place.beside("part.json"))
    if record is None or not place.beside("part").is_file():
        return 0, Validator()
    validator = Validator(record.etag, record.last_modified)
    return (min(record.size, place.beside("part").stat().st_size) if validator.condition else 0), validator


def _receive(answer: Answer, place: _Place) -> tuple[str, int]:
    """Write what comes behind what is kept; its digest and length, both of the whole."""
    part = place.beside("part")
    with part.open("r+b") if answer.start else part.open("w+b") as file:
        file.truncate(answer.start)
        digest = hashlib.file_digest(file, "sha256")
        file.seek(answer.start)

        def keep() -> int:
            # Recorded only when on disk: after a power failure, a part may be longer than what is true of it.
            file.flush()
            os.fsync(file.fileno())
            _Record.of(answer, place.url, size=file.tell(), sha256="").write(place.beside("part.json"))
            return file.tell()

        kept = keep()
        with _bar(place.file.name, done=kept, total=answer.size) as advance:
            try:
                for piece in answer.pieces():
                    file.write(piece)
                    digest.update(piece)
                    advance(len(piece))
                    if file.tell() - kept >= KEEP_EVERY:
                        kept = keep()
            finally:
                kept = keep()
    return digest.hexdigest(), kept


@contextmanager
def _bar(title: str, *, done: int, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show the bytes come in: on a terminal, unless warnings are silenced too; in the log otherwise."""
    if not (sys.stderr.isatty() and logger.isEnabledFor(logging.WARNING)):
        logger.info("fetching %s, %s bytes", title, "?" if total is None else f"{total - done:,}")
        yield lambda _: None
        return
    # Imported here: rich takes a while, and most files are in the cache.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, completed=done)
        yield lambda count: bar.advance(task, count)
