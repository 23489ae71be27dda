"""Read the arrays of an HDF5 file that may be hostile.

The HDF5 library is not used: of 150,000 damaged weight files, two crashed the process and four took more than ten
seconds, and a file can make it open other files of this machine. Weight files need only a small part of HDF5, which is
read here; other parts are rejected with an error that names them. The part is h5py's default layout (superblock 0,
groups with symbol tables; see `hdf5_structure`) and arrays of floats, contiguous or in chunks, plain or compressed by
gzip.

No array takes more memory than the file can fill.
"""

import math
import zlib
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.errors import FormatError, error_context
from elmore.formats.storage.hdf5_structure import (
    DATASPACE,
    DATATYPE,
    FILTERS,
    LAYOUT,
    BoundedReader,
    Header,
    btree_leaves,
    object_headers,
    unpack,
)

Shape = tuple[int, ...]
Floats = NDArray[np.floating[Any]]

_UNDEFINED = 2**64 - 1  # the address of missing data
_HIGHEST_RANK = 8
_MAX_DEFLATE_RATIO = 1032  # bytes from one byte of gzip, at most
_GZIP, _SHUFFLE = 1, 2
_REWRITE = "write the file again, with h5py's defaults"


class Hdf5Array:
    """An array in a file; `read` reads its values."""

    def __init__(self, name: str, reader: BoundedReader, header: Header) -> None:
        self.name = name
        self._reader = reader
        self._header = header

    @property
    def shape(self) -> Shape:
        with error_context(self.name):
            return _shape(self._message(DATASPACE))

    def read(self) -> NDArray[np.float32]:
        """The values of any kind of float as float32; the array may be read-only."""
        shape = self.shape
        with error_context(self.name):
            if not math.prod(shape):
                raise FormatError(f"has shape {shape}, without values")
            values = self._values(shape, _dtype_of(self._message(DATATYPE)))
        # Values that are too large for float32 become infinite; the caller rejects them.
        with np.errstate(over="ignore"):
            return values.astype(np.float32, copy=False)

    def _values(self, shape: Shape, dtype: np.dtype[Any]) -> Floats:
        layout = self._message(LAYOUT)
        version, storage = unpack("BB", layout)
        if version == 3 and storage == 2:
            return _read_chunked(self._reader, layout, _filters(self._header.get(FILTERS)), shape, dtype)
        if version in (3, 4) and storage == 1:
            return _read_contiguous(self._reader, layout, shape, dtype)
        if version in (3, 4) and storage == 0:
            return _read_compact(layout, shape, dtype)
        raise FormatError(f"its values are stored in an unusual way; {_REWRITE}")

    def _message(self, kind: int) -> bytes:
        if kind not in self._header:
            raise FormatError(f"its header is incomplete, or shares parts with other headers; {_REWRITE}")
        return self._header[kind]


def list_arrays(file: BinaryIO) -> dict[str, Hdf5Array]:
    """All arrays of a file by their full names, as "CNN/W_cnn_0". The file must stay open while values are read."""
    reader = BoundedReader(file)
    arrays: dict[str, Hdf5Array] = {}
    for name, header in object_headers(reader):
        if name in arrays:
            raise FormatError(f"{name} is there twice; the file is damaged")
        arrays[name] = Hdf5Array(name, reader, header)
    return arrays


def _shape(dataspace: bytes) -> Shape:
    version, rank = unpack("BB", dataspace)
    if version not in (1, 2) or rank > _HIGHEST_RANK:
        raise FormatError("its shape cannot be read; the file is damaged")
    return unpack(f"{rank}Q", dataspace, 8 if version == 1 else 4)


# IEEE floats as HDF5 describes them: the sign's bit; the size in bytes; the first bit and the number of bits; place and
# size of exponent and fraction; the bias of the exponent.
_FLOATS = {
    (15, 2, 0, 16, 10, 5, 0, 10, 15): "f2",
    (31, 4, 0, 32, 23, 8, 0, 23, 127): "f4",
    (63, 8, 0, 64, 52, 11, 0, 52, 1023): "f8",
}


def _dtype_of(datatype: bytes) -> np.dtype[Any]:
    if unpack("B", datatype)[0] & 0xF != 1:
        raise FormatError("contains no floating-point numbers; is this another file?")
    bits, sign, *properties = unpack("xBBxIHHBBBBI", datatype)
    name = _FLOATS.get((sign, *properties))
    # Only the lowest bit, the byte order, differs between IEEE floats.
    if name is None or bits & ~1 != 0x20:
        raise FormatError(f"contains floating-point numbers of an unusual kind; {_REWRITE}")
    return np.dtype(f"{'>' if bits & 1 else '<'}{name}")


def _read_compact(layout: bytes, shape: Shape, dtype: np.dtype[Any]) -> Floats:
    (size,) = unpack("H", layout, 2)
    _check_size(min(size, len(layout) - 4), shape, dtype)
    return np.frombuffer(layout[4 : 4 + size], dtype).reshape(shape)


def _read_contiguous(reader: BoundedReader, layout: bytes, shape: Shape, dtype: np.dtype[Any]) -> Floats:
    address, size = unpack("QQ", layout, 2)
    _check_size(size, shape, dtype)
    if address == _UNDEFINED:
        raise FormatError("its values were never written")
    return np.frombuffer(reader.read_data(address, size), dtype).reshape(shape)


def _check_size(size: int, shape: Shape, dtype: np.dtype[Any]) -> None:
    if size != math.prod(shape) * dtype.itemsize:
        raise FormatError(f"{size} bytes are stored, which do not fit the shape {shape}; the file is damaged")


class _Chunk(NamedTuple):
    offset: Shape
    address: int
    size: int  # in the file
    filter_mask: int  # a bit for each filter that was not applied


def _read_chunked(
    reader: BoundedReader, layout: bytes, filters: list[int], shape: Shape, dtype: np.dtype[Any]
) -> Floats:
    dimensions, root, *chunk_shape, itemsize = unpack(f"BQ{len(shape)}II", layout, 2)
    if dimensions != len(shape) + 1 or itemsize != dtype.itemsize or not all(chunk_shape):
        raise FormatError("its chunks have another type or rank than the array; the file is damaged")
    if root == _UNDEFINED:
        raise FormatError("its values were never written")
    chunks = _chunks(reader, root, tuple(chunk_shape), shape)
    size = math.prod(chunk_shape) * itemsize
    stored = [chunk.size for chunk in chunks]
    if sum(stored) > reader.size or size > _MAX_DEFLATE_RATIO * (min(stored) + 1):
        raise FormatError("its chunks are larger than the file can hold; the file is damaged")
    values = np.empty(shape, dtype)
    for chunk in chunks:
        content = _unfiltered(reader.read_data(chunk.address, chunk.size), filters, chunk.filter_mask, size, itemsize)
        if len(content) != size:
            raise FormatError(f"the chunk at {chunk.offset} has {len(content)} bytes of {size}; the file is damaged")
        region = tuple(slice(at, at + step) for at, step in zip(chunk.offset, chunk_shape, strict=True))
        # A chunk at the edge reaches beyond the array.
        inside = tuple(slice(length) for length in values[region].shape)
        values[region] = np.frombuffer(content, dtype).reshape(chunk_shape)[inside]
    return values


def _chunks(reader: BoundedReader, root: int, chunk_shape: Shape, shape: Shape) -> list[_Chunk]:
    """All chunks of an array: one for each position of the grid."""
    chunks: dict[Shape, _Chunk] = {}
    for leaf in btree_leaves(reader, root, kind=1, key=8 + 8 * len(chunk_shape) + 8):
        size, filter_mask, *offset, _, address = unpack(f"II{len(chunk_shape)}QQQ", leaf)
        if any(at % step or at >= length for at, step, length in zip(offset, chunk_shape, shape, strict=True)):
            raise FormatError(f"a chunk has the position {offset}, which is not on the grid; the file is damaged")
        chunks[tuple(offset)] = _Chunk(tuple(offset), address, size, filter_mask)
    if len(chunks) != math.prod(-(-length // step) for length, step in zip(shape, chunk_shape, strict=True)):
        raise FormatError("some of its values were never written")
    return list(chunks.values())


def _filters(message: bytes | None) -> list[int]:
    if message is None:
        return []
    version, count = unpack("BB", message)
    if version != 1:
        raise FormatError(f"its values are compressed in an unusual way; {_REWRITE}")
    filters, start = [], 8
    for _ in range(count):
        number, name, _, parameters = unpack("HHHH", message, start)
        if number not in (_GZIP, _SHUFFLE):
            raise FormatError(
                f"its values are compressed by the filter {_FILTERS.get(number, number)}; {_REWRITE}, or gzip"
            )
        filters.append(number)
        start += 8 + name + 4 * (parameters + parameters % 2)
    return filters


_FILTERS = {3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 32000: "lzf"}


def _unfiltered(content: bytes, filters: list[int], filter_mask: int, size: int, itemsize: int) -> bytes:
    """The content of a chunk, with the filters undone in reverse order."""
    for number, name in reversed(list(enumerate(filters))):
        if filter_mask >> number & 1:
            continue
        if name == _GZIP:
            try:
                content = zlib.decompressobj().decompress(content, size + 1)
            except zlib.error as error:
                raise FormatError(f"a chunk is damaged ({error})") from None
        elif len(content) % itemsize == 0:  # shuffled: first all first bytes, then all second ones
            content = np.frombuffer(content, np.uint8).reshape(itemsize, -1).T.tobytes()
    return content
