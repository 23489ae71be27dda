"""One request to a web server, and the meaning of its responses and failures.

There are three kinds of failures: `NotOnServer`, the server does not have the file; `TransferError`, another try may
succeed; and NotFound, with the reason, for all others.
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
from elmore.sources.urls import without_credentials
from elmore.version import __version__

TIMEOUT = 30  # seconds without a byte
CHUNK_BYTES = 1 << 17


class NotOnServer(NotFound):
    """The server does not have the file, or the network must not be used."""


class TransferError(Exception):
    """The transfer failed for a reason that may be temporary. Users never see this error."""


class StalePartError(TransferError):
    """The part of an earlier try does not belong to the present file."""


class CacheValidator(NamedTuple):
    """The version of a file on the server, for requests that resume a transfer."""

    etag: str = ""
    last_modified: str = ""

    @property
    def condition(self) -> str:
        """The value of If-Range, which must not be a weak tag; empty if the version is unknown."""
        return self.etag if self.etag.startswith('"') else self.last_modified


class FileResponse:
    """A file, or the rest of one, while it is received."""

    def __init__(self, response: HTTPResponse, *, requested_start: int) -> None:
        self._response = response
        headers = response.headers
        if headers.get_content_type() == "text/html":
            raise NotFound("the server sent a web page instead of a file; open the address in a browser")
        self.validator = CacheValidator(_header_line(headers.get("ETag")), _header_line(headers.get("Last-Modified")))
        self.start, self.size = 0, _header_number(headers.get("Content-Length"))
        if response.status == 206:
            content_range = re.fullmatch(
                r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18})", _header_line(headers.get("Content-Range"))
            )
            if content_range is None or int(content_range[1]) != requested_start:
                raise StalePartError("the server sent another part of the file than requested")
            self.start, self.size = int(content_range[1]), int(content_range[2])

    def chunks(self) -> Iterator[bytes]:
        while chunk := self._next_chunk():
            yield chunk

    def _next_chunk(self) -> bytes:
        try:
            return self._response.read(CHUNK_BYTES)
        except (OSError, HTTPException) as error:
            raise TransferError(f"the connection broke ({_reason(error)})") from None


@contextmanager
def request(url: str, *, start: int, validator: CacheValidator) -> Iterator[FileResponse]:
    """Request a file, from byte `start` on if the server still has the version of `validator`."""
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
        yield FileResponse(response, requested_start=start)


def _opener() -> OpenerDirector:
    # Not build_opener, which also opens local files, FTP and data: addresses.
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
    """Follows redirects to http and https, but not from https to http."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme not in ("https", req.type):
            target = without_credentials(newurl)
            raise NotFound(
                f"the server redirects to {target}; only redirects to https, or from http to http, are followed"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> HTTPResponse | None:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except BaseException:
            fp.close()  # urllib leaves the connection open if it does not follow the redirect
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


_TRANSIENT_STATUSES = {408, 425, 429, 500, 502, 503, 504}


def _status_error(status: int, reason: str) -> Exception:
    response = f"the server answered {status} {reason}".strip()
    if status == 416:
        return StalePartError(response)
    if status in _TRANSIENT_STATUSES:
        return TransferError(response)
    if status in (403, 404, 410):
        return NotOnServer(f"{response}: the file does not exist or is not public; check the address")
    return NotFound(f"{response}; check the address, or download the file another way and give its path")


def _connection_error(error: Exception) -> Exception:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, socket.gaierror):
        return NotFound("the name of the server cannot be resolved; check the address and the network connection")
    if isinstance(cause, ssl.SSLCertVerificationError):
        return NotFound(f"the server's certificate is not trusted ({cause.verify_message})")
    if isinstance(cause, ConnectionRefusedError):
        return NotFound("the server refuses connections; check the address, or try later")
    if isinstance(cause, InvalidURL | ValueError):
        return NotFound(f"is not a valid address, or redirects to an invalid one ({str(cause).partition('?')[0]})")
    return TransferError(f"the server cannot be reached ({_reason(cause)})")


def _reason(cause: object) -> str:
    if isinstance(cause, TimeoutError):
        return f"no data for {TIMEOUT} seconds"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__


def _header_line(header: str | None) -> str:
    """A header that can be sent back; empty for a header of several lines, which some servers send."""
    return header.strip() if header is not None and header.isprintable() else ""


def _header_number(header: str | None) -> int | None:
    digits = re.fullmatch(r"[0-9]{1,18}", _header_line(header))
    return int(digits[0]) if digits else None
