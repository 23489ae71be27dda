"""Write HDF5 files without the HDF5 library.

    superblock | values of the datasets | headers of the datasets, and the groups with their names

Each byte is written once. Values can be appended for hours: the superblock is written last, and until then the file can
be cut back to the end of any dataset. A full disk is an ordinary OSError; the HDF5 library drops datasets silently
there and crashes when the file is closed.

The layout is the oldest one (superblock 0, symbol tables), the default of h5py, which every version of the library
reads. Numbers are little-endian, addresses count bytes from the start of the file.
"""

import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Union

import numpy as np
from numpy.typing import NDArray

DATA_OFFSET = 4096  # of the first value; the superblock lies before it
ALIGNMENT = 64  # bytes, of values that can be mapped into memory

_SUPERBLOCK = struct.Struct("<8s8BHHI4QQQI4xQQ")
_UNDEFINED = 2**64 - 1  # the address of something that is not in the file
_LEAF_K, _NODE_K = 4, 16  # half the entries of a full symbol table and of a full tree node, as h5py has them
_ENTRY = struct.Struct("<QQI4xQQ")  # of a symbol table: name, header; 1, tree and heap of a group, or zeros
_NODE_SIZE = 24 + 8 * (4 * _NODE_K + 1)
_SMALLEST_TEXT_HEAP = 4096
_DEEPEST_GROUP = 100

# Kinds of messages in a header, and the content of some.
_DATASPACE, _DATATYPE, _FILL_VALUE, _LAYOUT, _SYMBOL_TABLE = 1, 3, 5, 8, 17
_NO_FILL_VALUE = bytes.fromhex("0202020100000000")
_TEXT = bytes.fromhex("19 010100 10000000 10000000 01000000 00000800 00000000")  # UTF-8 of any length
# The sign's bit, then bits in all, and places and sizes of exponent and fraction.
_FLOATS = {
    "f2": bytes.fromhex("11 200f00 02000000 00001000 0a05000a 0f000000"),
    "f4": bytes.fromhex("11 201f00 04000000 00002000 17080017 7f000000"),
    "f8": bytes.fromhex("11 203f00 08000000 00004000 340b0034 ff030000"),
}

_Children = dict[bytes, Union[int, "_Children"]]  # the header of a dataset, or a group


@contextmanager
def new_hdf5(path: Path) -> Iterator["Hdf5Output"]:
    """Create a file for datasets; it is readable when the block has ended without an error."""
    with path.open("wb") as file:
        file.write(bytes(DATA_OFFSET))
    with append_hdf5(path) as output:
        yield output


@contextmanager
def append_hdf5(path: Path) -> Iterator["Hdf5Output"]:
    """Append datasets to a file that has values, and nothing else, from DATA_OFFSET on."""
    with path.open("r+b", buffering=2**16) as file:
        output = Hdf5Output(file)
        yield output
        output.finish()


class Hdf5Output:
    """An HDF5 file to which datasets are appended; `finish` makes it readable.

    A `/` in a name makes a group, as in the HDF5 library.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._end = file.seek(0, os.SEEK_END)
        self._root: _Children = {}

    def add(self, name: str, data: NDArray[Any]) -> None:
        """Append a dataset."""
        self.add_blocks(name, data.dtype, data.shape, [data])

    def add_blocks(self, name: str, dtype: np.dtype[Any], shape: Sequence[int], blocks: Iterable[NDArray[Any]]) -> None:
        """Append a dataset whose values come in several arrays, one after another."""
        address = self._append(b"", alignment=ALIGNMENT)
        for block in blocks:
            values = np.ascontiguousarray(block, dtype.newbyteorder("<")).reshape(-1)
            self._append(values.view(np.uint8).data, alignment=1)
        self.describe(name, dtype, shape, address)

    def add_text(self, name: str, text: str) -> None:
        """Append a dataset of shape (1,) with one text of any length."""
        data = text.encode("utf-8")
        if len(data) >= 2**32:
            raise ValueError(f"{name} has {len(data):,} bytes, and an HDF5 text has at most {2**32 - 1:,}")
        size = 16 + 16 + _padded(len(data))
        free = max(_SMALLEST_TEXT_HEAP - size, 0)
        content = struct.pack("<4sB3xQ", b"GCOL", 1, size + free)
        content += struct.pack("<HH4xQ", 1, 1, len(data)) + _pad(data)
        # The rest is an object of number 0, unless it is too short for one.
        content += (struct.pack("<HH4xQ", 0, 0, free) if free >= 16 else b"").ljust(free, b"\0")
        heap = self._append(content)
        address = self._append(struct.pack("<IQI", len(data), heap, 1))
        self._describe(name, _TEXT, (1,), address, 16)

    def describe(self, name: str, dtype: np.dtype[Any], shape: Sequence[int], address: int) -> None:
        """Add a dataset whose values are in the file already."""
        self._describe(name, _datatype(dtype), shape, address, prod(shape) * dtype.itemsize)

    def finish(self) -> None:
        """Write the groups and the superblock."""
        header, tree, heap = self._write_group(self._root)
        versions_and_sizes = (0, 0, 0, 0, 0, 8, 8, 0)
        addresses = (0, _UNDEFINED, self._end, _UNDEFINED)  # of the start, free space, the end, and a driver's block
        root = (0, header, 1, tree, heap)
        self._file.seek(0)
        self._file.write(
            _SUPERBLOCK.pack(b"\x89HDF\r\n\x1a\n", *versions_and_sizes, _LEAF_K, _NODE_K, 0, *addresses, *root)
        )
        self._file.seek(self._end)

    def _describe(self, name: str, datatype: bytes, shape: Sequence[int], address: int, size: int) -> None:
        group, last = self._group_of(name)
        header, (before, between, after) = _dataset_header(datatype, len(shape))
        place = (address, size) if size else (_UNDEFINED, 0)
        group[last] = self._append(header.pack(before, *shape, *shape, between, *place, after))

    def _group_of(self, name: str) -> tuple[_Children, bytes]:
        """The group that a name leads to, and the last part of the name."""
        parts = [part for part in name.encode("utf-8").split(b"/") if part not in (b"", b".")]
        if not parts:
            raise ValueError("the name is empty")
        if len(parts) > _DEEPEST_GROUP or b"\0" in name.encode("utf-8"):
            raise ValueError("the name has a NUL or too many slashes")
        group = self._root
        for part in parts[:-1]:
            child = group.setdefault(part, {})
            if isinstance(child, int):
                raise ValueError(f"{part.decode('utf-8')!r} is a dataset already")
            group = child
        if parts[-1] in group:
            raise ValueError("the name exists already")
        return group, parts[-1]

    def _write_group(self, children: _Children) -> tuple[int, int, int]:
        """Write what a group contains; returns the addresses of its header, its tree and its names."""
        names = sorted(children)
        entries = []
        offset = 8  # behind the empty name, which is before all others
        offsets = []
        for name in names:
            child = children[name]
            header, *group = self._write_group(child) if isinstance(child, dict) else (child,)
            entries.append(_ENTRY.pack(offset, header, *((1, *group) if group else (0, 0, 0))))
            offsets.append(offset)
            offset += _padded(len(name) + 1)
        heap = self._next(8)
        self._append(struct.pack("<4sB3xQQQ", b"HEAP", 0, offset, 1, heap + 32))
        self._append(bytes(8) + b"".join(_pad(name + b"\0") for name in names))
        tree = self._write_tree(*self._write_symbols(entries, offsets))
        return self._append(_header({_SYMBOL_TABLE: struct.pack("<QQ", tree, heap)})), tree, heap

    def _write_symbols(self, entries: list[bytes], names: list[int]) -> tuple[list[int], list[int]]:
        """Write symbol tables; returns their addresses, and the last name of each."""
        addresses, last_names = [], []
        for first in range(0, len(entries), 2 * _LEAF_K):
            table = entries[first : first + 2 * _LEAF_K]
            content = struct.pack("<4sBxH", b"SNOD", 1, len(table)) + b"".join(table)
            addresses.append(self._append(content.ljust(8 + 2 * _LEAF_K * _ENTRY.size, b"\0")))
            last_names.append(names[first + len(table) - 1])
        return addresses, last_names

    def _write_tree(self, children: list[int], last_names: list[int], *, level: int = 0) -> int:
        """Write the nodes above symbol tables, or above other nodes; returns the address of the topmost."""
        count = max(-(-len(children) // (2 * _NODE_K)), 1)
        start = self._next(8)
        addresses = [start + number * _NODE_SIZE for number in range(count)]
        for number, (left, right) in enumerate(
            zip([_UNDEFINED, *addresses[:-1]], [*addresses[1:], _UNDEFINED], strict=True)
        ):
            first = 2 * _NODE_K * number
            keys = [0 if number == 0 else last_names[first - 1], *last_names[first : first + 2 * _NODE_K]]
            used = children[first : first + 2 * _NODE_K]
            pairs = [keys[0]]
            for child, key in zip(used, keys[1:], strict=True):
                pairs += [child, key]
            content = struct.pack(f"<4sBBHQQ{len(pairs)}Q", b"TREE", 0, level, len(used), left, right, *pairs)
            self._append(content.ljust(_NODE_SIZE, b"\0"))
        if count == 1:
            return start
        ends = [last_names[min(2 * _NODE_K * (number + 1), len(last_names)) - 1] for number in range(count)]
        return self._write_tree(addresses, ends, level=level + 1)

    def _append(self, content: bytes | memoryview, *, alignment: int = 8) -> int:
        address = self._next(alignment)
        if address != self._end:
            self._file.write(bytes(address - self._end))
        self._file.write(content)
        self._end = address + len(content)
        return address

    def _next(self, alignment: int) -> int:
        """The address of what is appended next."""
        return self._end + -self._end % alignment


def _header(messages: Mapping[int, bytes]) -> bytes:
    content = b"".join(
        struct.pack("<HHB3x", kind, _padded(len(message)), 0) + _pad(message) for kind, message in messages.items()
    )
    return struct.pack("<BxHII4x", 1, len(messages), 1, len(content)) + content


@cache
def _dataset_header(datatype: bytes, rank: int) -> tuple[struct.Struct, tuple[bytes, bytes, bytes]]:
    """The header of datasets that differ in shape and address, and the bytes that are equal in all of them."""
    shape, layout = bytes(16 * rank), bytes(16)
    header = _header(
        {
            _DATASPACE: struct.pack("<BBBx4x", 1, rank, rank > 0) + shape,
            _DATATYPE: datatype,
            _FILL_VALUE: _NO_FILL_VALUE,
            _LAYOUT: struct.pack("<BB", 3, 1) + layout,
        }
    )
    before, after = header[:32], header[-6:]
    between = header[32 + len(shape) : -6 - len(layout)]
    return struct.Struct(f"<32s{2 * rank}Q{len(between)}sQQ6s"), (before, between, after)


@cache
def _datatype(dtype: np.dtype[Any]) -> bytes:
    size = dtype.itemsize
    if dtype.kind == "f":
        return _FLOATS[dtype.newbyteorder("<").str[1:]]
    if dtype.kind in "iu":
        return struct.pack("<BBxxIHH", 0x10, 8 if dtype.kind == "i" else 0, size, 0, 8 * size)
    if dtype.kind == "S":
        return struct.pack("<BBxxI", 0x13, 1, size)
    raise TypeError(f"HDF5 output has no type for {dtype}")


def _padded(size: int) -> int:
    return size + -size % 8


def _pad(data: bytes) -> bytes:
    return data.ljust(_padded(len(data)), b"\0")
