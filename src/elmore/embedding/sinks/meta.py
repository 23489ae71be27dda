"""What a file of vectors says about itself, as one JSON object: where it is from and how it is to be read."""

import json
from typing import Any

from elmore.embedding.spool import Spool
from elmore.errors import FormatError
from elmore.version import __version__

FORMAT = "elmore vectors"
VERSION = 1


def meta_of(spool: Spool, **more: Any) -> bytes:
    """The JSON for a file made of this spool: only ASCII, and the same for the same job."""
    *layers, dim = spool.row
    about = {
        "format": FORMAT,
        "version": VERSION,
        "creator": f"elmore {__version__}",
        "sentences": spool.totals.sentences,
        "words": spool.totals.words,
        "dim": dim,
        "layers": layers[0] if layers else None,
        "dtype": spool.dtype.name,
        "input_digest": spool.input_digest,
        "job": spool.job,
    }
    return json.dumps({**about, **more}).encode("ascii")


def parse_meta(text: bytes) -> dict[str, Any]:
    """Read it back, and make sure that this version can read the rest.

    >>> parse_meta(b'{"format": "elmore vectors", "version": 99}')
    Traceback (most recent call last):
    ...
    elmore.errors.FormatError: written by a newer elmore (layout 99, and this one knows 1); update elmore to read it
    """
    try:
        meta = json.loads(text)
    except ValueError as error:
        raise FormatError(f"its description is damaged: {error}") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise FormatError("not written by elmore: its description is another program's")
    if meta.get("version") != VERSION:
        raise FormatError(
            f"written by a newer elmore (layout {meta.get('version')}, and this one knows {VERSION}); "
            "update elmore to read it"
        )
    return meta
