"""Many short texts as one run of bytes, and the offsets between them.

Text i is `data[offsets[i]:offsets[i + 1]]`. The bytes are UTF-8 that lets lone surrogates pass, so that any string
survives: with `/`, with NUL, blank, or not a character at all. The spool and the files of vectors keep words so.
"""

from itertools import pairwise
from typing import Any, Protocol

from numpy.typing import NDArray

from elmore.errors import FormatError


class Sliceable(Protocol):
    """An array, or anything that gives one when sliced: a memory map, a dataset in a file."""

    def __getitem__(self, bounds: slice, /) -> NDArray[Any]: ...


def encode_string(text: str) -> bytes:
    r"""The bytes of one text.

    >>> encode_string("né"), encode_string("\udc80")
    (b'n\xc3\xa9', b'\xed\xb2\x80')
    """
    return text.encode("utf-8", "surrogatepass")


def slice_strings(data: Sliceable, offsets: Sliceable, start: int, stop: int) -> list[str]:
    """Texts `start` to `stop`, read from where they lie.

    >>> import numpy as np
    >>> slice_strings(np.frombuffer(b"onetwothree", np.uint8), np.array([0, 3, 6, 11]), 1, 3)
    ['two', 'three']
    """
    if not 0 <= start <= stop:
        raise FormatError(f"there are no texts from {start} to {stop}")
    edges: list[int] = offsets[slice(start, stop + 1)].tolist()
    if len(edges) != stop - start + 1 or edges[0] < 0 or edges != sorted(edges):
        raise FormatError(f"the offsets of texts {start} to {stop} are damaged")
    first = edges[0]
    raw = data[slice(first, edges[-1])].tobytes()
    if len(raw) != edges[-1] - first:
        raise FormatError(f"texts {start} to {stop} lie beyond the end")
    try:
        return [raw[a - first : b - first].decode("utf-8", "surrogatepass") for a, b in pairwise(edges)]
    except UnicodeDecodeError:
        raise FormatError(f"texts {start} to {stop} are damaged: not UTF-8") from None
