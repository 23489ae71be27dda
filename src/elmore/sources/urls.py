"""Fetch the files of a model from a web address, through the cache.

An address may end in `#sha256=` and a digest, which the file must then have; the digests of some published files are
known. Given the address of weights, the options file next to it is found by its name, and the other way round.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import SplitResult, quote, unquote, urlsplit

from elmore.errors import InputError, NotFound, error_context
from elmore.sources.downloads import fetch
from elmore.sources.http_requests import NotOnServer
from elmore.sources.model_location import (
    OPTIONS,
    WEIGHTS,
    ModelLocation,
    is_options,
    is_weights,
    options_names,
    weights_names,
    without_credentials,
)
from elmore.sources.published import SHA256

_PIN = re.compile(r"sha256=([0-9a-fA-F]{64})")


def find_url(name: str) -> ModelLocation:
    """The model at this address."""
    address, origin = FileUrl.parse(name), without_credentials(name)
    # Options before weights: that they are missing should show before hundreds of megabytes have come.
    if is_weights(address.file_name):
        options = _fetch_beside(address, options_names(address.file_name), what="options")
        return ModelLocation(origin=origin, files={OPTIONS: options, WEIGHTS: address.fetch()})
    if is_options(address.file_name):
        options = address.fetch()
        weights = _fetch_beside(address, weights_names(address.file_name), what="weights")
        return ModelLocation(origin=origin, files={OPTIONS: options, WEIGHTS: weights})
    return ModelLocation(origin=origin, path=address.fetch())


class FileUrl(NamedTuple):
    """Where a file can be fetched, and the SHA-256 it must have, if that is known.

    >>> address = FileUrl.parse("https://example.org/pt/elmo_weights.hdf5?download=1")
    >>> address.file_name
    'elmo_weights.hdf5'
    >>> address.beside("elmo_options.json").url
    'https://example.org/pt/elmo_options.json?download=1'
    """

    url: str
    sha256: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address as a user gives it; InputError if it is not one."""
        with error_context(without_credentials(text)):
            parts = _split(text)
            pin = _PIN.fullmatch(parts.fragment)
            if parts.fragment and not pin:
                raise InputError(
                    f"#{parts.fragment} is not understood; a digest is pinned with #sha256= and 64 hex digits"
                )
            # Spaces and letters beyond ASCII are escaped; what is escaped already stays as it is.
            path, query = quote(parts.path, safe="/%:@!$&'()*+,;=~"), quote(parts.query, safe="/%:@!$&'()*+,;=~?[]")
            url = parts._replace(path=path, query=query, fragment="").geturl()
            return cls(url, pin[1].lower() if pin else None)

    @property
    def file_name(self) -> str:
        return unquote(urlsplit(self.url).path.rpartition("/")[2])

    def beside(self, file_name: str) -> Self:
        """The address of another file in the same folder, without the digest."""
        parts = urlsplit(self.url)
        folder = parts.path.rpartition("/")[0]
        return type(self)(parts._replace(path=f"{folder}/{quote(file_name)}").geturl())

    def fetch(self) -> Path:
        """The file, from the cache or from the network."""
        return fetch(self.url, name=self.file_name, sha256=self.sha256 or SHA256.get(self.url))


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port  # the one part that is only looked at when asked for
    except ValueError as error:
        raise InputError(f"is no valid address: {error}") from None
    if parts.scheme == "file":
        raise InputError("give the path itself, without file:")
    if parts.scheme not in ("http", "https"):
        raise InputError("only http and https addresses can be fetched; download the file and give its path")
    if "@" in parts.netloc:
        raise InputError("an address with a password is not supported; download the file and give its path")
    if not parts.hostname or parts.path.endswith("/") or not parts.path:
        raise InputError("names no file; give the address of an archive or of a weights file")
    return parts


def _fetch_beside(address: FileUrl, names: Sequence[str], *, what: str) -> Path:
    reasons = []
    for name in names:
        try:
            return address.beside(name).fetch()
        except NotOnServer as absent:
            reasons.append(absent)
    raise NotFound(
        f"{without_credentials(address.url)}: its {what} file is missing: looked for {' and '.join(names)} next to it "
        f"({reasons[0]}); name both files: load(options_file=..., weight_file=...)"
    )
