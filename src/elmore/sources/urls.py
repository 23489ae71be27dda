"""Web addresses of models: parsed, shown without credentials, and fetched through the cache.

An address may end in `#sha256=` and a digest, which the file must have. The digests of some published files are known.
If an address names weights, the options file next to them is found by its name, and the other way round.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import SplitResult, quote, unquote, urlsplit

from elmore.errors import InputError, NotFound, error_context
from elmore.sources.local import (
    OPTIONS,
    WEIGHTS,
    ModelLocation,
    is_options,
    is_weights,
    options_names,
    weights_names,
)

# The SHA-256 of published files. The publishers give no checksums: these digests are from Git LFS pointers to the
# files, which also record their sizes (54,402,456 and 374,434,792 bytes). Others could not be found, so downloads of
# the other models are reported as not verified.
SHA256 = {
    "https://allennlp.s3.amazonaws.com/models/elmo/2x1024_128_2048cnn_1xhighway/"
    "elmo_2x1024_128_2048cnn_1xhighway_weights.hdf5": (
        "747ba97abce8a5f446558369e10bb0f7931437a46867476fdd156f5d7f576229"
    ),
    "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/"
    "elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5": (
        "a6b92b9ccbb13fe489faacd2221c795d4bebe84b75f8aded9d85ea464fa5c994"
    ),
}

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:")  # at least two letters: C:// is a path
_ADDRESS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+:/+)(?:[^/?#]*@)?(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>.*)", re.DOTALL
)
_PIN = re.compile(r"sha256=([0-9a-fA-F]{64})")


def is_url(name: str) -> bool:
    """Whether a name is an address and not a path."""
    return _SCHEME.match(name) is not None


def without_credentials(name: str) -> str:
    """The name without the user name, password and query of the address in it: they may grant access to the file.

    >>> without_credentials("https://me:secret@example.org/elmo.zip?X-Amz-Signature=1234")
    'https://example.org/elmo.zip?…'
    >>> without_credentials("--init=https://example.org/elmo.zip?sig=1234"), without_credentials("what?.zip")
    ('--init=https://example.org/elmo.zip?…', 'what?.zip')
    """

    def shown(found: re.Match[str]) -> str:
        return f"{found['scheme']}{found['path']}{'?…' if found['query'] else ''}{found['fragment']}"

    return _ADDRESS.sub(shown, name, count=1)


class FileUrl(NamedTuple):
    """The address of a file, and the SHA-256 that the file must have, if known.

    >>> address = FileUrl.parse("https://example.org/pt/elmo_weights.hdf5?download=1")
    >>> address.file_name
    'elmo_weights.hdf5'
    >>> address.sibling("elmo_options.json").url
    'https://example.org/pt/elmo_options.json?download=1'
    """

    url: str
    sha256: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an address from a user; InputError if it is not one."""
        with error_context(without_credentials(text)):
            parts = _split(text)
            pin = _PIN.fullmatch(parts.fragment)
            if parts.fragment and not pin:
                raise InputError(f"#{parts.fragment} is not a digest; pin one with #sha256= and 64 hex digits")
            # Spaces and letters beyond ASCII are escaped. Existing escapes are unchanged.
            path, query = quote(parts.path, safe="/%:@!$&'()*+,;=~"), quote(parts.query, safe="/%:@!$&'()*+,;=~?[]")
            url = parts._replace(path=path, query=query, fragment="").geturl()
            return cls(url, pin[1].lower() if pin else None)

    @property
    def file_name(self) -> str:
        return unquote(urlsplit(self.url).path.rpartition("/")[2])

    def sibling(self, file_name: str) -> Self:
        """The address of another file in the same folder, without the digest."""
        parts = urlsplit(self.url)
        folder = parts.path.rpartition("/")[0]
        return type(self)(parts._replace(path=f"{folder}/{quote(file_name)}").geturl())

    def fetch(self) -> Path:
        """The file, from the cache or from the network."""
        from elmore.sources.downloads import fetch  # imported here, because it loads the modules for the network

        return fetch(self.url, name=self.file_name, sha256=self.sha256 or SHA256.get(self.url))


def fetch_model(name: str) -> ModelLocation:
    """Fetch the files of the model at this address."""
    address, requested = FileUrl.parse(name), without_credentials(name)
    # The options come first: if they are missing, hundreds of megabytes of weights are not fetched in vain.
    if is_weights(address.file_name):
        options = _fetch_sibling(address, options_names(address.file_name), what="options")
        return ModelLocation(requested=requested, files={OPTIONS: options, WEIGHTS: address.fetch()})
    if is_options(address.file_name):
        options = address.fetch()
        weights = _fetch_sibling(address, weights_names(address.file_name), what="weights")
        return ModelLocation(requested=requested, files={OPTIONS: options, WEIGHTS: weights})
    return ModelLocation(requested=requested, path=address.fetch())


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port  # checked only on access
    except ValueError as error:
        raise InputError(f"is not a valid address: {error}") from None
    if parts.scheme == "file":
        raise InputError("give the path itself, without file:")
    if parts.scheme not in ("http", "https"):
        raise InputError("only http and https addresses can be fetched; download the file and give its path")
    if "@" in parts.netloc:
        raise InputError("an address with a password is not supported; download the file and give its path")
    if not parts.hostname or parts.path.endswith("/") or not parts.path:
        raise InputError("names no file; give the address of an archive or of a weights file")
    return parts


def _fetch_sibling(address: FileUrl, names: Sequence[str], *, what: str) -> Path:
    from elmore.sources.http_requests import NotOnServer

    errors = []
    for name in names:
        try:
            return address.sibling(name).fetch()
        except NotOnServer as error:
            errors.append(error)
    raise NotFound(
        f"{without_credentials(address.url)}: its {what} file is missing: looked for {' and '.join(names)} next to it "
        f"({errors[0]}); name both files: load(options_file=..., weight_file=...)"
    )
