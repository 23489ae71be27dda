"""NumPy: one flat array of all words' vectors, with offsets, in an `.npz` that any `numpy.load` reads.

    vectors         (words, dim) or (words, layers, dim)
    offsets         (n + 1,) sentence i has the rows offsets[i] to offsets[i + 1]
    numbers         (n,) the number of each sentence in the input
    tokens          all words end to end, as UTF-8
    token_offsets   (words + 1,) word i has the bytes token_offsets[i] to token_offsets[i + 1]
    labels          all labels end to end, and their label_offsets (n + 1,), where there are labels
    meta            a JSON object: dim, layers, dtype, and the job that made the file

Nothing is compressed, so every array lies in the file as it does in memory, and is mapped rather than loaded.
"""

import io
import struct
import zipfile
from collections.abc import Iterable
from itertools import chain
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.packed_strings import slice_strings
from elmore.embedding.sinks.meta import meta_of, parse_meta
from elmore.embedding.spool import Spool
from elmore.errors import FormatError

ALIGNMENT = 64  # bytes, as NumPy aligns the data in a file of its own


def write(spool: Spool, path: Path) -> None:
    """Write all sentences of a spool to a file, whole or not at all."""
    with spool.finishing(path) as unfinished, unfinished.open("wb") as file, zipfile.ZipFile(file, "w") as archive:
        for name, column in spool.columns.items():
            if name.startswith("label") and not spool.totals.label_bytes:
                continue
            header = _header(column.dtype, (spool.totals.rows[name], *column.row))
            _write_array(archive, file, name, chain([header], map(np.ndarray.tobytes, spool.blocks(name))))
        meta = np.array(meta_of(spool))
        _write_array(archive, file, "meta", [_header(meta.dtype, ()), meta.tobytes()])


def read(path: Path) -> "NumpyFile":
    """Open a file of this layout."""
    return NumpyFile(path)


class NumpyFile:
    """A file of this layout, mapped into memory."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            arrays = {info.filename.removesuffix(".npy"): _map_array(path, file, info) for info in archive.infolist()}
        missing = {"vectors", "offsets", "numbers", "tokens", "token_offsets", "meta"} - arrays.keys()
        if missing:
            raise FormatError(f"not written by elmore: it lacks {', '.join(sorted(missing))}")
        self.meta = parse_meta(arrays["meta"].tobytes())
        self.numbers: NDArray[np.int64] = np.array(arrays["numbers"])
        self._offsets = np.array(arrays["offsets"])
        self._arrays = arrays
        whole = len(self._offsets) == len(self.numbers) + 1 and self._offsets[-1] == len(arrays["vectors"])
        if not whole or self._offsets[0] != 0 or (np.diff(self._offsets) < 0).any():
            raise FormatError("its offsets are damaged")

    def vectors(self, i: int) -> NDArray[np.floating]:
        rows = self._arrays["vectors"][self._offsets[i] : self._offsets[i + 1]]
        return np.moveaxis(rows, 0, -2).copy()

    def words(self, i: int) -> list[str]:
        start, stop = int(self._offsets[i]), int(self._offsets[i + 1])
        return slice_strings(self._arrays["tokens"], self._arrays["token_offsets"], start, stop)

    def labels(self) -> list[str | None]:
        if "labels" not in self._arrays:
            return [None] * len(self.numbers)
        labels = slice_strings(self._arrays["labels"], self._arrays["label_offsets"], 0, len(self.numbers))
        return [label or None for label in labels]

    def close(self) -> None:
        self._arrays.clear()


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """How NumPy begins an `.npy` of such an array."""
    header = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    return header.getvalue()


def _write_array(archive: zipfile.ZipFile, file: IO[bytes], name: str, pieces: Iterable[bytes]) -> None:
    """Stream one `.npy` into the archive, which is being written to `file`."""
    info = zipfile.ZipInfo(f"{name}.npy")
    info.extra = _padding(file.tell() + len(info.filename))
    with archive.open(info, "w", force_zip64=True) as member:
        for piece in pieces:
            member.write(piece)


_LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a member: signature, length of its name, length of its extra fields
_ZIP64_FIELD = 20
_PADDING_FIELD = struct.Struct("<HH")
_PADDING_ID = 0xD935  # the one by which Android's tools align what they zip


def _padding(end_of_name: int) -> bytes:
    """An extra field of a member's header, so long that its data begin on a multiple of ALIGNMENT."""
    begin = end_of_name + _LOCAL_HEADER.size + _PADDING_FIELD.size + _ZIP64_FIELD
    length = -begin % ALIGNMENT
    return _PADDING_FIELD.pack(_PADDING_ID, length) + bytes(length)


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
    size = prod(shape) * dtype.itemsize
    if fortran_order or dtype.hasobject or file.tell() + size != begin + info.file_size:
        raise FormatError(f"{info.filename} is damaged, or not as elmore writes it")
    if size == 0:  # of which there can be no map
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, mode="r", offset=file.tell(), shape=shape)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an `.npy`; the file is left where its data begin."""
    if np.lib.format.read_magic(file) == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)
