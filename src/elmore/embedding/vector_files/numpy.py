"""NumPy: the arrays of `flat`, in an `.npz` that any `numpy.load` reads.

The array of all vectors is the first in the archive and is written while the job runs. Its headers contain its size and
its checksum, so they are written at the end. The arrays are not compressed and can be mapped into memory.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from itertools import chain
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.vector_files import VectorType, meta_json
from elmore.embedding.vector_files.flat import Column, FlatReader, FlatWriter, columns_to_store, map_array
from elmore.errors import FormatError

ALIGNMENT = 64  # bytes, as in NumPy's `.npy` files
DATA_OFFSET = 4096  # of the vectors


class Writer(FlatWriter):
    """Writes a file of this layout."""

    def __init__(self, path: Path, kind: VectorType, committed: Mapping[str, int]) -> None:
        super().__init__(path, kind, committed, offset=DATA_OFFSET)
        self._crc = committed.get("crc32", 0)

    def write(self, rows: NDArray[Any]) -> None:
        self._crc = zlib.crc32(rows.reshape(-1).view(np.uint8).data, self._crc)
        super().write(rows)

    def sync(self) -> dict[str, int]:
        return {**super().sync(), "crc32": self._crc}

    def finish(self, columns: Mapping[str, Column], about: Mapping[str, Any], /) -> None:
        self.vectors.close()
        with self.path.open("r+b") as file, zipfile.ZipFile(file, "w") as archive:
            self._write_head(archive, file)
            for name, column in columns_to_store(columns):
                header = _header(column.dtype, (column.rows,))
                _write_array(archive, file, name, chain([header], (block.tobytes() for block in column.blocks())))
            meta = np.array(meta_json(about))
            _write_array(archive, file, "meta", [_header(meta.dtype, ()), meta.tobytes()])

    def _write_head(self, archive: zipfile.ZipFile, file: IO[bytes]) -> None:
        """Write the headers of the vectors; the next array follows the vectors."""
        size = self.vectors.rows * self.vectors.row_bytes
        header = _header(self.vectors.dtype, self.shape)
        info = zipfile.ZipInfo("vectors.npy")
        info.header_offset = 0
        info.file_size = info.compress_size = len(header) + size
        info.CRC = crc32_of_both(zlib.crc32(header), self._crc, size)
        info.external_attr = 0o600 << 16  # as `zipfile` does
        info.extra = _padding(DATA_OFFSET - len(header) - _header_size(info))
        file.write(info.FileHeader(zip64=True) + header)
        file.seek(DATA_OFFSET + size)
        archive.filelist.append(info)
        archive.NameToInfo[info.filename] = info
        archive.start_dir = file.tell()


def read(path: Path) -> FlatReader:
    """Open a file of this layout."""
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        arrays = {info.filename.removesuffix(".npy"): _map_array(path, file, info) for info in archive.infolist()}
    return FlatReader(arrays, close=lambda: None)


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """How NumPy begins an `.npy` of such an array."""
    header = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    return header.getvalue()


def _write_array(archive: zipfile.ZipFile, file: IO[bytes], name: str, pieces: Iterable[bytes]) -> None:
    """Stream one `.npy` into the archive, which is being written to `file`."""
    info = zipfile.ZipInfo(f"{name}.npy")
    info.extra = _padding(-(file.tell() + _header_size(info)) % ALIGNMENT)
    with archive.open(info, "w", force_zip64=True) as member:
        for piece in pieces:
            member.write(piece)


_LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a member: signature, length of its name, length of its extra fields
_ZIP64_FIELD = 20
_PADDING_FIELD = struct.Struct("<HH")
_PADDING_ID = 0xD935  # the one by which Android's tools align what they zip


def _header_size(info: zipfile.ZipInfo) -> int:
    """The size of a member's header with an empty padding."""
    return _LOCAL_HEADER.size + len(info.filename) + _PADDING_FIELD.size + _ZIP64_FIELD


def _padding(size: int) -> bytes:
    """An extra field for a member's header, so that the data begin at a chosen offset."""
    return _PADDING_FIELD.pack(_PADDING_ID, size) + bytes(size)


def crc32_of_both(first: int, second: int, size: int) -> int:
    """The CRC-32 of two concatenated byte strings, from the CRC-32 of each and the size of the second.

    As `crc32_combine` of zlib: the first is multiplied by x to the power of 8 times the size, modulo the polynomial.

    >>> crc32_of_both(zlib.crc32(b"head"), zlib.crc32(b"data"), 4) == zlib.crc32(b"headdata")
    True
    """
    power = 1 << 23  # x to the power of 8; the highest bit is the lowest power
    while size:
        if size & 1:
            first = _product(power, first)
        power = _product(power, power)
        size >>= 1
    return first ^ second


def _product(a: int, b: int) -> int:
    """The product of two polynomials over GF(2), modulo that of CRC-32."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (0xEDB88320 if b & 1 else 0)
    return product


def _map_array(path: Path, file: IO[bytes], info: zipfile.ZipInfo) -> NDArray[Any]:
    """Map an array from inside the archive."""
    if info.compress_type != zipfile.ZIP_STORED:
        raise FormatError(f"{info.filename} is compressed and cannot be mapped; save it with numpy.savez")
    file.seek(info.header_offset)
    try:
        _, name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        begin = file.seek(name_length + extra_length, io.SEEK_CUR)
        shape, fortran_order, dtype = _read_header(file)
    except (struct.error, ValueError, SyntaxError, TokenError) as error:
        raise FormatError(f"{info.filename} is damaged: {error}") from None
    if fortran_order or dtype.hasobject or file.tell() + prod(shape) * dtype.itemsize != begin + info.file_size:
        raise FormatError(f"{info.filename} is damaged, or not as elmore writes it")
    return map_array(path, dtype, shape, file.tell())


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an `.npy`; the file is left where its data begin."""
    if np.lib.format.read_magic(file) == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)
