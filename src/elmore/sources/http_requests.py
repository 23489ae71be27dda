"""One request to a web server, and what its answers and failures mean.

Failures come in three kinds: `NotOnServer`, the server does not have the file; `TransferError`, trying again may help;
anything else is a NotFound that says in a sentence what stood in the way.
"""

import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPMessage, HTTPResponse, InvalidURL
from typing import IO, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from elmore.errors import ElmoreError, NotFound
from elmore.sources.model_location import without_credentials
from elmore.version import __version__

TIMEOUT = 30  # seconds without a byte
CHUNK_BYTES = 1 << 17


class NotOnServer(NotFound):
    """There is no such file: the server says so, or the network may not be asked."""


class TransferError(Exception):
    """The transfer failed in a way that may pass; never seen by users."""


class StalePartError(TransferError):
    """The part that an earlier try left does not fit the file any more."""


class Validator(NamedTuple):
    """By what a server tells whether a file is still the one that a part was fetched of."""

    etag: str = ""
    last_modified: str = ""

    @property
    def condition(self) -> str:
        """For If-Range, which takes no weak tags; empty where there is nothing to go by."""
        return self.etag if self.etag.startswith('"') else self.last_modified


class FileResponse:
    """A file, or the rest of one, as it comes in."""

    def __init__(self, response: HTTPResponse, *, asked_from: int) -> None:
        self._response = response
        headers = response.headers
        if headers.get_content_type() == "text/html":
            raise NotFound("the server sent a web page and no file; open the address in a browser to see what it says")
        self.validator = Validator(_header_line(headers.get("ETag")), _header_line(headers.get("Last-Modified")))
        self.start, self.size = 0, _header_number(headers.get("Content-Length"))
        if response.status == 206:
            given = re.fullmatch(
                r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18})", _header_line(headers.get("Content-Range"))
            )
            if given is None or int(given[1]) != asked_from:
                raise StalePartError("the server sent another part of the file than it was asked for")
            self.start, self.size = int(given[1]), int(given[2])

    def chunks(self) -> Iterator[bytes]:
        while chunk := self._next_chunk():
            yield chunk

    def _next_chunk(self) -> bytes:
        try:
            return self._response.read(CHUNK_BYTES)
        except (OSError, HTTPException) as error:
            raise TransferError(f"the connection broke ({_reason(error)})") from None


@contextmanager
def request(url: str, *, start: int, validator: Validator) -> Iterator[FileResponse]:
    """Ask for a file, from byte `start` on if it is still the one that `validator` knows."""
    headers = {"User-Agent": f"elmore/{__version__}", "Accept": "*/*"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": validator.condition}
    try:
        response = _opener().open(Request(url, headers=headers), timeout=TIMEOUT)  # noqa: S310 (only http and https)
    except ElmoreError:
        raise
    except HTTPError as error:
        error.close()
        raise _status_error(error.code, str(error.reason)) from None
    except (OSError, HTTPException, ValueError) as error:
        raise _connection_error(error) from None
    with response:
        yield FileResponse(response, asked_from=start)


def _opener() -> OpenerDirector:
    # Put together by hand: the usual one also opens local files, FTP and data: addresses.
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(),
        HTTPHandler(),
        HTTPSHandler(),
        _WebRedirects(),
        HTTPErrorProcessor(),
        HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(handler)
    return opener


class _WebRedirects(HTTPRedirectHandler):
    """Follows redirects to http and https, and never from https down to http."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme not in ("https", req.type):
            target = without_credentials(newurl)
            raise NotFound(f"the server redirects to {target}; that is followed only to https, or from http to http")
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> HTTPResponse | None:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except BaseException:
            fp.close()  # the connection, which urllib leaves open if the redirect is not followed
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


_TRANSIENT_STATUSES = {408, 425, 429, 500, 502, 503, 504}


def _status_error(status: int, reason: str) -> Exception:
    said = f"the server answered {status} {reason}".strip()
    if status == 416:
        return StalePartError(said)
    if status in _TRANSIENT_STATUSES:
        return TransferError(said)
    if status in (403, 404, 410):
        return NotOnServer(f"{said}: there is no such file, or it is not for everyone; check the address")
    return NotFound(f"{said}; check the address, or download the file another way and give its path")


def _connection_error(error: Exception) -> Exception:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, socket.gaierror):
        return NotFound("the server's name is not known here; check the address and the network connection")
    if isinstance(cause, ssl.SSLCertVerificationError):
        return NotFound(f"the server's certificate is not trusted ({cause.verify_message})")
    if isinstance(cause, ConnectionRefusedError):
        return NotFound("the server refuses connections; check the address, or try later")
    if isinstance(cause, InvalidURL | ValueError):
        return NotFound(f"is, or leads to, no valid address ({str(cause).partition('?')[0]})")
    return TransferError(f"the server cannot be reached ({_reason(cause)})")


def _reason(cause: object) -> str:
    if isinstance(cause, TimeoutError):
        return f"nothing came for {TIMEOUT} seconds"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__


def _header_line(header: str | None) -> str:
    """A header that can be sent back: some servers fold theirs over several lines, and those are done without."""
    return header.strip() if header is not None and header.isprintable() else ""


def _header_number(header: str | None) -> int | None:
    digits = re.fullmatch(r"[0-9]{1,18}", _header_line(header))
    return int(digits[0]) if digits else None
