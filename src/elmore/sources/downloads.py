"""Fetch a file once, and keep it in a cache that is verified at every use.

    cache_folder()/downloads/<hash of the address>/
        NAME             the file, whole: it is renamed to this only when all of it has come
        NAME.json        where it came from and when, its size and SHA-256
        NAME.part        what has come so far of a file that was cut off
        NAME.part.json   how much of that is safe on disk, and how the server will know it
        NAME.lock        held by the one process that fetches; the others wait, and find the file

The digest of a cached file is computed anew each time, not only when its size or date look different: the bytes are
about to be read anyway, and a decayed disk changes no dates. A damaged file is fetched again. A sound one is used
without asking the server; delete its folder to have it anew.
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

from elmore.errors import ElmoreError, FormatError, NotFound, error_context
from elmore.fields import read_fields
from elmore.files.atomic_files import atomic_write, make_folder
from elmore.files.os_errors import reason
from elmore.sources.cache_folder import cache_folder
from elmore.sources.http_requests import (
    FileResponse,
    NotOnServer,
    StalePartError,
    TransferError,
    Validator,
    request,
)
from elmore.sources.model_location import without_credentials

logger = logging.getLogger(__name__)

RETRY_DELAYS = (0.5, 1.0, 2.0)  # seconds before each further try
SECONDS_BEFORE_NOTICE = 1.0  # of waiting for another process
STALLED_SECONDS = 600.0  # without progress of the other process, after which waiting ends; longer than all its tries
FSYNC_EVERY = 64 << 20  # bytes, of which no more are lost to a power failure


def fetch(url: str, *, name: str, sha256: str | None = None) -> Path:
    """The file at this address, from the cache or else from the network; it must have the digest `sha256`.

    Without a digest the download is reported as not verified. With the environment variable ELMORE_OFFLINE set, the
    network is never used.
    """
    entry = _CacheEntry.of(url, name)
    with error_context(entry.address):
        try:
            if _is_intact(entry, sha256):
                return entry.file
            if _offline():
                raise NotOnServer(f"there is no sound copy in {entry.folder}, and ELMORE_OFFLINE forbids to fetch one")
            make_folder(entry.folder)
            with _lock(entry):
                # Another process may have fetched it while this one waited for the lock.
                if not _is_intact(entry, sha256):
                    _download(entry, sha256)
            return entry.file
        except (ElmoreError, OSError) as error:
            problem = error.__cause__ if isinstance(error, ElmoreError) else error
            if not isinstance(problem, OSError):
                raise
            raise NotFound(
                f"the cache in {entry.folder} cannot be used: {reason(problem)}; "
                "free some space there, or set ELMORE_CACHE to another folder"
            ) from error


@dataclass(frozen=True)
class _CacheEntry:
    """The place of one address's file in the cache."""

    url: str  # to be requested only: its query may hold a signature
    address: str  # to be stored and shown
    folder: Path
    file: Path

    @classmethod
    def of(cls, url: str, name: str) -> Self:
        folder = cache_folder() / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:32]
        # The end of the name, because what kind of file it is stands there.
        safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name)[-100:].lstrip(".")
        return cls(url, without_credentials(url), folder, folder / (safe or "file"))

    def beside(self, ending: str) -> Path:
        return self.folder / f"{self.file.name}.{ending}"


@dataclass(frozen=True, kw_only=True)
class _CacheRecord:
    """What is known of a file in the cache, or of a part of one."""

    url: str  # without credentials
    size: int
    sha256: str  # empty for a part
    etag: str
    last_modified: str
    when: str

    @classmethod
    def of(cls, response: FileResponse, url: str, *, size: int, sha256: str) -> Self:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(url=url, size=size, sha256=sha256, when=now, **response.validator._asdict())

    @classmethod
    def read(cls, path: Path) -> Self | None:
        try:
            return read_fields(cls, json.loads(path.read_bytes()))
        except (OSError, ValueError):  # an InputError is a ValueError too
            return None  # no record, or one that says nothing: the file is fetched as if there were none

    def write(self, path: Path) -> None:
        with atomic_write(path) as unfinished:
            unfinished.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def _is_intact(entry: _CacheEntry, sha256: str | None) -> bool:
    """Whether the cache has the file as it was fetched, and as it must be."""
    record = _CacheRecord.read(entry.beside("json"))
    if record is None or not entry.file.is_file():
        return False
    with entry.file.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != record.sha256:
        logger.warning("%s: was damaged since it was fetched", entry.file)
        return False
    return sha256 in (None, found)


@contextmanager
def _lock(entry: _CacheEntry) -> Iterator[None]:
    """Hold the lock of an entry. Wait for another process as long as its download makes progress."""
    # Imported here, because most files are in the cache.
    from filelock import FileLock, Timeout

    lock = FileLock(entry.beside("lock"), timeout=SECONDS_BEFORE_NOTICE)
    progress, since = None, time.monotonic()
    while not lock.is_locked:
        try:
            lock.acquire()
        except Timeout:
            if progress is None:
                logger.warning("waiting for another process that fetches %s", entry.file.name)
            if (now := _progress(entry)) != progress:
                progress, since = now, time.monotonic()
            if (waited := time.monotonic() - since) > STALLED_SECONDS:
                raise NotFound(
                    f"another process has fetched this file for {waited:.0f} s without progress; end that process, "
                    "and try again"
                ) from None
    try:
        yield
    finally:
        lock.release()


def _progress(entry: _CacheEntry) -> tuple[int, int]:
    """A value that changes while a process fetches the file."""
    return _modified(entry.beside("part")), _modified(entry.file)


def _modified(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _offline() -> bool:
    return os.environ.get("ELMORE_OFFLINE", "").lower() not in ("", "0", "false", "no")


def _download(entry: _CacheEntry, sha256: str | None) -> None:
    """Fetch the file in a few tries, each of which goes on where the last one stopped."""
    for wait in (*RETRY_DELAYS, None):
        try:
            _try_once(entry, sha256)
        except TransferError as failure:
            if isinstance(failure, StalePartError):
                entry.beside("part").unlink(missing_ok=True)
            if wait is None:
                raise NotFound(f"{failure}; try again later, it goes on where it stopped") from None
            logger.info("%s: %s; trying again in %s s", entry.address, failure, wait)
            time.sleep(wait)
        else:
            return


def _try_once(entry: _CacheEntry, sha256: str | None) -> None:
    part = entry.beside("part")
    start, validator = _partial_download(entry)
    with request(entry.url, start=start, validator=validator) as response:
        found, received = _receive(response, entry)
    if response.size not in (None, received):
        raise TransferError(f"the connection ended after {received:,} of {response.size:,} bytes")
    if not received:
        raise NotFound("the server sent an empty file")
    if sha256 not in (None, found):
        part.unlink()
        raise FormatError(
            f"what came has the SHA-256 {found}, not {sha256}, and was removed; compare with the publisher"
        )
    part.replace(entry.file)
    _CacheRecord.of(response, entry.address, size=received, sha256=found).write(entry.beside("json"))
    entry.beside("part.json").unlink(missing_ok=True)
    if sha256 is None:
        logger.warning(
            "%s: not verified, for no SHA-256 of it is known; compare %s with the publisher, or pin the file: "
            "ADDRESS#sha256=DIGEST",
            entry.address,
            found,
        )


def _partial_download(entry: _CacheEntry) -> tuple[int, Validator]:
    """How many bytes are there from an earlier try, and how the server will know them."""
    record = _CacheRecord.read(entry.beside("part.json"))
    if record is None or not entry.beside("part").is_file():
        return 0, Validator()
    validator = Validator(record.etag, record.last_modified)
    return (min(record.size, entry.beside("part").stat().st_size) if validator.condition else 0), validator


def _receive(response: FileResponse, entry: _CacheEntry) -> tuple[str, int]:
    """Write what comes behind what is kept; its digest and length, both of the whole."""
    part = entry.beside("part")
    with part.open("r+b") if response.start else part.open("w+b") as file:
        file.truncate(response.start)
        digest = hashlib.file_digest(file, "sha256")
        file.seek(response.start)

        def keep() -> int:
            # Recorded only when on disk: after a power failure, a part may be longer than what is true of it.
            file.flush()
            os.fsync(file.fileno())
            _CacheRecord.of(response, entry.address, size=file.tell(), sha256="").write(entry.beside("part.json"))
            return file.tell()

        kept = keep()
        with _bar(entry.file.name, done=kept, total=response.size) as advance:
            try:
                for chunk in response.chunks():
                    file.write(chunk)
                    digest.update(chunk)
                    advance(len(chunk))
                    if file.tell() - kept >= FSYNC_EVERY:
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
