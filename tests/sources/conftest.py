"""A web server on this machine that can fail in every way that real ones do, and a cache of the test's own."""

import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from elmore.sources import downloads


@dataclass
class Page:
    """What the server has at a path, and how it misbehaves."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    cuts: list[int] = field(default_factory=list)  # bytes after which each of the first answers breaks off
    failures: list[int] = field(default_factory=list)  # the status of each of the first answers
    length: bool = True
    resets: int = 0  # how many of the first answers end in a reset connection
    pauses: list[float] = field(default_factory=list)  # seconds of silence before each of the first answers

    @property
    def etag(self) -> str:
        return f'"{sha256(self.body).hexdigest()[:8]}"'


class Website(ThreadingHTTPServer):
    """Pages by path; `requests` counts what was asked for, `ranges` lists the Range headers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages: dict[str, Page] = {}
        self.requests: Counter[str] = Counter()
        self.ranges: list[str] = []

    def put(self, path: str, body: bytes = b"", **how: object) -> str:
        self.pages[path] = Page(body, **how)  # type: ignore[arg-type]
        return self.address(path)

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Website

    def do_GET(self) -> None:
        self.server.requests[self.path] += 1
        page = self.server.pages.get(self.path, Page(status=404))
        if page.pauses:
            time.sleep(page.pauses.pop(0))
        if page.resets:
            page.resets -= 1
            # Closing without lingering is what makes a reset of it.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            return
        status = page.failures.pop(0) if page.failures else page.status
        body, headers = page.body, dict(page.headers)
        if status == 200 and page.ranges:
            headers.setdefault("ETag", page.etag)
            if asked := self.headers["Range"]:
                self.server.ranges.append(asked)
                start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])  # type: ignore[index]
                if self.headers["If-Range"] == headers["ETag"]:
                    status = 206 if start < len(body) else 416
                    headers.setdefault("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
                    body = body[start:]
        self.send_response(status)
        if page.length:
            headers.setdefault("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # a client that has given up
            self.wfile.write(body[: page.cuts.pop(0)] if page.cuts else body)

    def finish(self) -> None:
        with suppress(OSError):  # a connection that was reset on purpose
            super().finish()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def website() -> Iterator[Website]:
    with Website() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELMORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("ELMORE_OFFLINE", raising=False)
    monkeypatch.setattr(downloads, "RETRY_DELAYS", (0.0, 0.0))
    return tmp_path / "cache"
