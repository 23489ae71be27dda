"""The structure of an HDF5 file: its arrays and their headers.

    superblock -> header of the root group -> its symbol table -> headers of groups and arrays -> …

The symbol table of a group is a tree; its leaves list names and addresses of headers. A header is a list of messages.
Numbers are little-endian, addresses count bytes from the start of the file.

The file may be hostile. Every read must lie inside the file and is deducted from a budget. So circular trees, and
tables larger than those of any model, are errors after a short time.
"""

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

from elmore.errors import FormatError

# Kinds of messages in a header.
DATASPACE, DATATYPE, LAYOUT, FILTERS = 1, 3, 8, 11
_LINK_INFO, _LINK, _CONTINUATION, _SYMBOL_TABLE = 2, 6, 16, 17

_MAGIC = b"\x89HDF\r\n\x1a\n"
_ROOT = 56  # position of the root group's table entry in a superblock of version 0
_BUDGET = 1 << 24  # bytes of structure; a published model has a few thousand
_READ_COST = 64  # added for each read
_LONGEST_NAME = 255  # including the names of its groups
_ENTRY = 40  # bytes of a symbol table's entry
_SHARED = 2  # flag: the message holds the address of another message

Header = dict[int, bytes]  # the first message of each kind


class BoundedReader:
    """Reads pieces of a file, up to the budget."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = file.seek(0, 2)
        self.budget = _BUDGET

    def read(self, address: int, size: int) -> bytes:
        """A piece of the structure."""
        self.budget -= size + _READ_COST
        if self.budget < 0:
            raise FormatError("the file is damaged: its structure is larger than that of any model")
        return self.read_data(address, size)

    def read_data(self, address: int, size: int) -> bytes:
        """A piece of an array."""
        if address + size > self.size:
            raise FormatError(
                f"the file is damaged or cut short: it refers to bytes {address} to {address + size}, "
                f"but has {self.size}"
            )
        self.file.seek(address)
        content = self.file.read(size)
        if len(content) != size:
            raise FormatError("the file became shorter while it was read")
        return content


def unpack(layout: str, content: bytes, start: int = 0) -> tuple[Any, ...]:
    """Unpack little-endian numbers."""
    try:
        return struct.unpack_from(f"<{layout}", content, start)
    except struct.error:
        raise FormatError("the file is damaged: a message is too short") from None


def object_headers(reader: BoundedReader) -> Iterator[tuple[str, Header]]:
    """The arrays of a file: their full names, as "CNN/W_cnn_0", and their headers."""
    waiting = [("", _root(reader))]
    while waiting:
        name, address = waiting.pop()
        header = _header(reader, address)
        if len(name) > _LONGEST_NAME:
            raise FormatError("the file is damaged: its groups are nested too deeply, or their names are too long")
        if _SYMBOL_TABLE in header:
            children = list(_symbols(reader, header[_SYMBOL_TABLE]))
            waiting += [(f"{name}/{child}".lstrip("/"), place) for child, place in reversed(children)]
        elif _LINK_INFO in header or _LINK in header:
            raise FormatError(f"the group {name or '/'} is {_NEWER}")
        else:
            yield name, header


def btree_leaves(
    reader: BoundedReader, address: int, *, kind: int, key: int, level: int | None = None
) -> Iterator[bytes]:
    """The leaves of a tree, each as its key of so many bytes followed by an address of 8."""
    magic, its_kind, its_level, used = unpack("4sBBH16x", reader.read(address, 24))
    if magic != b"TREE" or its_kind != kind or level not in (None, its_level):
        raise FormatError(f"the file is damaged: there is no tree at byte {address}")
    entries = reader.read(address + 24, used * (key + 8) + key)
    for start in range(0, used * (key + 8), key + 8):
        entry = entries[start : start + key + 8]
        if its_level == 0:
            yield entry
        else:
            yield from btree_leaves(reader, *unpack("Q", entry[key:]), kind=kind, key=key, level=its_level - 1)


_NEWER = "written in a newer layout of HDF5 than h5py's default; write the file again without libver= or track_order="


def _root(reader: BoundedReader) -> int:
    if reader.size < _ROOT + _ENTRY:
        raise FormatError(f"not an HDF5 file, or cut short: it has only {reader.size} bytes")
    start = reader.read(0, _ROOT + _ENTRY)
    if not start.startswith(_MAGIC):
        raise FormatError("not an HDF5 file; if a download failed, try it again")
    version, address_size, length_size = start[8], start[13], start[14]
    if version != 0 or (address_size, length_size) != (8, 8):
        raise FormatError(f"the file is {_NEWER}")
    base, _, end = unpack("QQQ", start, 24)
    if base != 0:
        raise FormatError("the base address is not 0; the file is damaged")
    if end > reader.size:
        raise FormatError(f"the file is cut short: it has {reader.size} bytes of {end}; fetch it again")
    return int(unpack("Q", start, _ROOT + 8)[0])


def _header(reader: BoundedReader, address: int) -> Header:
    version, count, first = unpack("BxH4xI4x", reader.read(address, 16))
    if version != 1:
        newer = reader.read(address, 4) == b"OHDR"
        raise FormatError(f"the file is {_NEWER}" if newer else "the file is damaged: a header has an unknown version")
    blocks = [(address + 16, first)]
    header: Header = {}
    for start, length in blocks:  # grows during the loop
        block = reader.read(start, length)
        position = 0
        while count and position + 8 <= length:
            kind, size, flags = unpack("HHB", block, position)
            message = block[position + 8 : position + 8 + size]
            if len(message) != size:
                raise FormatError("the file is damaged: a message is longer than its header")
            if kind == _CONTINUATION:
                blocks.append(unpack("QQ", message))
            elif not flags & _SHARED:
                header.setdefault(kind, message)
            position += 8 + size
            count -= 1
    return header


def _symbols(reader: BoundedReader, message: bytes) -> Iterator[tuple[str, int]]:
    """The names in a group and the addresses of their headers."""
    root, heap = unpack("QQ", message)
    magic, size, start = unpack("4s4xQ8xQ", reader.read(heap, 32))
    if magic != b"HEAP":
        raise FormatError(f"the file is damaged: there are no names at byte {heap}")
    names = reader.read(start, size)
    for leaf in btree_leaves(reader, root, kind=0, key=8):
        (node,) = unpack("Q", leaf, 8)
        magic, count = unpack("4s2xH", reader.read(node, 8))
        if magic != b"SNOD":
            raise FormatError(f"the file is damaged: there is no symbol table at byte {node}")
        entries = reader.read(node + 8, count * _ENTRY)
        for offset, address, cached in struct.iter_unpack("<QQI20x", entries):
            name = _name(names, offset)
            if cached == 2:
                raise FormatError(f"{name} is a link to another name; write the file again with the array itself")
            yield name, address


def _name(names: bytes, offset: int) -> str:
    end = names.find(b"\0", offset, offset + _LONGEST_NAME)
    try:
        name = names[offset:end].decode("utf-8")
    except UnicodeDecodeError:
        name = ""
    if end == -1 or not name or "/" in name:
        raise FormatError("the file is damaged: a name is empty or invalid")
    return name
