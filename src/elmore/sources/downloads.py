"""Download a file once, into a cache that is verified at every use.

    cache_folder()/downloads/<hash of the address>/
        NAME             the complete file; it gets this name when all of it was received
        NAME.json        its address, the time of the download, its size and SHA-256
        NAME.part        the received part of an interrupted download
        NAME.part.json   how many bytes of the part are safe on disk, and the version of the file on the server
        NAME.lock        locked by the process that downloads; the others wait, and then find the file

The digest of a cached file is computed at each use, not only after a change of its size or date: the file is
read anyway, and a failing disk changes no dates. A damaged file is downloaded again. An intact file is used without a
request to the server; delete its folder to download it again.
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

from elmore.errors import ElmoreError, FormatError, InputError, NotFound, error_context
from elmore.fields import read_fields
from elmore.files.atomic_files import atomic_write, make_folder
from elmore.files.json_files import parse_json
from elmore.files.os_errors import reason
from elmore.sources.http_requests import (
    CacheValidator,
    FileResponse,
    NotOnServer,
    StalePartError,
    TransferError,
    request,
)
from elmore.sources.urls import without_credentials

logger = logging.getLogger(__name__)

RETRY_DELAYS = (0.5, 1.0, 2.0)  # seconds before each further try
SECONDS_BEFORE_NOTICE = 1.0  # of waiting for another process
STALLED_SECONDS = 600.0  # without progress of the other process, after which waiting ends; longer than all its tries
FSYNC_EVERY = 64 << 20  # bytes; a power failure loses at most so many


def cache_folder() -> Path:
    """The folder for downloads: $ELMORE_CACHE, or `elmore` in the cache folder of the system. It may not exist yet."""
    if folder := os.environ.get("ELMORE_CACHE"):
        return Path(folder).expanduser()
    # The specification says that a relative XDG_CACHE_HOME is ignored.
    if (shared := Path(os.environ.get("XDG_CACHE_HOME", ""))).is_absolute():
        return shared / "elmore"
    try:
        home = Path.home()
    except RuntimeError:
        raise InputError("the home folder, for downloads, is unknown; set ELMORE_CACHE to a folder") from None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "elmore"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "elmore" / "Cache"
    return home / ".cache" / "elmore"


def fetch(url: str, *, name: str, sha256: str | None = None) -> Path:
    """The file at this address, from the cache or from the network; it must have the digest `sha256`.

    Without a digest, a warning reports that the download was not verified. If the environment variable ELMORE_OFFLINE
    is set, the network is never used.
    """
    entry = _CacheEntry.of(url, name)
    with error_context(entry.address):
        try:
            if _is_intact(entry, sha256):
                return entry.file
            if _offline():
                raise NotOnServer(f"{entry.folder} contains no intact copy, and ELMORE_OFFLINE forbids downloads")
            make_folder(entry.folder)
            with _lock(entry):
                # Another process may have downloaded it while this one waited for the lock.
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
    """The files in the cache for one address."""

    url: str  # for requests only: its query may contain a signature
    address: str  # for records and messages
    folder: Path
    file: Path

    @classmethod
    def of(cls, url: str, name: str) -> Self:
        folder = cache_folder() / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:32]
        # The end of the name, because it shows the kind of file.
        safe_name = re.sub(r"[^A-Za-z0-9._-]+", "_", name)[-100:].lstrip(".")
        return cls(url, without_credentials(url), folder, folder / (safe_name or "file"))

    def sibling(self, suffix: str) -> Path:
        return self.folder / f"{self.file.name}.{suffix}"


@dataclass(frozen=True, kw_only=True)
class _CacheRecord:
    """The facts about a file in the cache, or about a part of one."""

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
        """The record in a file; None if there is none, or a damaged one: then the file is downloaded again."""
        try:
            return read_fields(cls, parse_json(path.read_bytes()))
        except (OSError, ValueError):  # FormatError and InputError are ValueErrors
            return None

    def write(self, path: Path) -> None:
        with atomic_write(path) as unfinished:
            unfinished.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def _is_intact(entry: _CacheEntry, sha256: str | None) -> bool:
    """Whether the cache contains the file as it was received, with the required digest."""
    record = _CacheRecord.read(entry.sibling("json"))
    if record is None or not entry.file.is_file():
        return False
    with entry.file.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != record.sha256:
        logger.warning("%s: was damaged after the download", entry.file)
        return False
    return sha256 in (None, digest)


@contextmanager
def _lock(entry: _CacheEntry) -> Iterator[None]:
    """Hold the lock of an entry. Wait for another process as long as its download makes progress."""
    # Imported here, because most files are in the cache.
    from filelock import FileLock, Timeout

    lock = FileLock(entry.sibling("lock"), timeout=SECONDS_BEFORE_NOTICE)
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
    """A value that changes while a process downloads the file."""
    return _modified(entry.sibling("part")), _modified(entry.file)


def _modified(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _offline() -> bool:
    return os.environ.get("ELMORE_OFFLINE", "").lower() not in ("", "0", "false", "no")


def _download(entry: _CacheEntry, sha256: str | None) -> None:
    """Download the file in a few tries; each try resumes where the last one stopped."""
    for delay in (*RETRY_DELAYS, None):
        try:
            _try_once(entry, sha256)
        except TransferError as failure:
            if isinstance(failure, StalePartError):
                entry.sibling("part").unlink(missing_ok=True)
            if delay is None:
                raise NotFound(f"{failure}; try again later, which resumes the download") from None
            logger.info("%s: %s; trying again in %s s", entry.address, failure, delay)
            time.sleep(delay)
        else:
            return


def _try_once(entry: _CacheEntry, sha256: str | None) -> None:
    part = entry.sibling("part")
    start, validator = _partial_download(entry)
    with request(entry.url, start=start, validator=validator) as response:
        digest, received = _receive(response, entry)
    if response.size not in (None, received):
        raise TransferError(f"the connection ended after {received:,} of {response.size:,} bytes")
    if not received:
        raise NotFound("the server sent an empty file")
    if sha256 not in (None, digest):
        part.unlink()
        raise FormatError(
            f"the received file has the SHA-256 {digest}, not {sha256}, and was removed; compare with the publisher"
        )
    part.replace(entry.file)
    _CacheRecord.of(response, entry.address, size=received, sha256=digest).write(entry.sibling("json"))
    entry.sibling("part.json").unlink(missing_ok=True)
    if sha256 is None:
        logger.warning(
            "%s: not verified, because its SHA-256 is unknown; compare %s with the publisher, or pin the file: "
            "ADDRESS#sha256=DIGEST",
            entry.address,
            digest,
        )


def _partial_download(entry: _CacheEntry) -> tuple[int, CacheValidator]:
    """The number of bytes from an earlier try, and the version of the file on the server then."""
    record = _CacheRecord.read(entry.sibling("part.json"))
    if record is None or not entry.sibling("part").is_file():
        return 0, CacheValidator()
    validator = CacheValidator(record.etag, record.last_modified)
    return (min(record.size, entry.sibling("part").stat().st_size) if validator.condition else 0), validator


def _receive(response: FileResponse, entry: _CacheEntry) -> tuple[str, int]:
    """Append a response to the part on disk; return the digest and the length of the whole."""
    part = entry.sibling("part")
    with part.open("r+b") if response.start else part.open("w+b") as file:
        file.truncate(response.start)
        digest = hashlib.file_digest(file, "sha256")
        file.seek(response.start)

        def flush() -> int:
            # Recorded after the bytes are on disk: after a power failure, the file may be longer than its valid part.
            file.flush()
            os.fsync(file.fileno())
            _CacheRecord.of(response, entry.address, size=file.tell(), sha256="").write(entry.sibling("part.json"))
            return file.tell()

        flushed = flush()
        with _bar(entry.file.name, done=flushed, total=response.size) as advance:
            try:
                for chunk in response.chunks():
                    file.write(chunk)
                    digest.update(chunk)
                    advance(len(chunk))
                    if file.tell() - flushed >= FSYNC_EVERY:
                        flushed = flush()
            finally:
                flushed = flush()
    return digest.hexdigest(), flushed


@contextmanager
def _bar(title: str, *, done: int, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show the received bytes: as a bar on a terminal, unless warnings are silenced; otherwise in the log."""
    if not (sys.stderr.isatty() and logger.isEnabledFor(logging.WARNING)):
        logger.info("fetching %s, %s bytes", title, "?" if total is None else f"{total - done:,}")
        yield lambda _: None
        return
    # Imported here: rich is slow to import, and most files are in the cache.
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
