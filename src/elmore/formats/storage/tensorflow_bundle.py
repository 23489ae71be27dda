"""Read the variables of a TensorFlow checkpoint without TensorFlow.

A checkpoint is an index and one or more data files. The index is a table of LevelDB: a footer contains the address of a
block with the addresses of further blocks. These contain the entries: the type, the shape and the position of a
variable in a data file, as a protocol-buffer message. The index is read completely, values only on request.
"""

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.errors import FormatError, error_context
from elmore.formats.storage.crc32c import crc32c, unmask

OpenShard = Callable[[int, int], BinaryIO]  # which data file, of how many

_FOOTER = 48
_MAGIC = 0xDB4775248B80FB57
_LONGEST_NAME = 1024  # names share prefixes in the file, so a small index could contain huge names
_MOST_DIMENSIONS = 8
_CHUNK_BYTES = 1 << 23  # bytes of one read

# TensorFlow's numbers of the data types in language models.
_KINDS: dict[int, np.dtype[Any]] = {
    number: np.dtype(kind) for number, kind in ((1, "<f4"), (2, "<f8"), (3, "<i4"), (9, "<i8"), (19, "<f2"))
}


class BundleEntry(NamedTuple):
    """The entry of a variable in the index."""

    kind: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int  # bytes
    checksum: int | None
    sliced: bool  # stored in parts, under other names


class Bundle:
    """The variables of a checkpoint."""

    def __init__(self, entries: Mapping[str, BundleEntry], n_shards: int, open_shard: OpenShard) -> None:
        self.entries = entries
        self.n_shards = n_shards
        self._open_shard = open_shard

    def read(self, names: Iterable[str]) -> dict[str, NDArray[Any]]:
        """The values of these variables, with verified checksums; every data file is read in one pass."""
        wanted = sorted((self.entries[name].shard, self.entries[name].offset, name) for name in names)
        arrays = {}
        for shard in sorted({shard for shard, _, _ in wanted}):
            with self._open_shard(shard, self.n_shards) as file:
                for _, _, name in (entry for entry in wanted if entry[0] == shard):
                    with error_context(name):
                        arrays[name] = _read_array(file, self.entries[name])
        return arrays


def read_bundle(index: bytes, open_shard: OpenShard) -> Bundle:
    """Read the index of a checkpoint; `open_shard` opens a data file when values are read."""
    entries: dict[str, BundleEntry] = {}
    n_shards = 0
    for key, message in _table(index):
        if not key:
            n_shards = _shards(message)
            continue
        try:
            name = key.decode("utf-8")
        except UnicodeDecodeError:
            raise FormatError(f"the name {key[:60]!r} of a variable is not UTF-8; the index is damaged") from None
        with error_context(name[:80]):
            entries[name] = _entry(message)
    if not n_shards:
        raise FormatError("the index has no header; the file is damaged")
    for name, entry in entries.items():
        if entry.shard >= n_shards:
            raise FormatError(f"{name[:80]}: it is in data file {entry.shard} of {n_shards}; the index is damaged")
    return Bundle(entries, n_shards, open_shard)


def _shards(header: bytes) -> int:
    fields = dict(_fields(header))
    if fields.get(2):
        raise FormatError("the checkpoint was written on a big-endian machine, which is not supported")
    return _number(fields, 1)


def _entry(message: bytes) -> BundleEntry:
    fields = dict(_fields(message))
    return BundleEntry(
        kind=_number(fields, 1),
        shape=_shape(_message(fields, 2)),
        shard=_number(fields, 3),
        offset=_number(fields, 4),
        size=_number(fields, 5),
        checksum=_number(fields, 6) if 6 in fields else None,
        sliced=7 in fields,
    )


def _shape(message: bytes) -> tuple[int, ...]:
    return tuple(_number(dict(_fields(dimension)), 1) for dimension in _messages(message, 2))


def _read_array(file: BinaryIO, entry: BundleEntry) -> NDArray[Any]:
    if entry.sliced:
        raise FormatError("the variable is stored in slices (a partitioned variable), as in no published model")
    if entry.kind not in _KINDS:
        raise FormatError(f"values of TensorFlow's type {entry.kind} are not supported; a biLM has float32 (type 1)")
    kind = _KINDS[entry.kind]
    if len(entry.shape) > _MOST_DIMENSIONS or math.prod(entry.shape) * kind.itemsize != entry.size:
        shape = str(entry.shape)[:60]
        raise FormatError(f"{entry.size} bytes do not fit shape {shape} of {kind.name}; the index is damaged")
    end = file.seek(0, 2)
    if entry.offset + entry.size > end:
        raise FormatError(
            f"its values end at byte {entry.offset + entry.size} and the data file at {end}: it is cut short"
        )
    values = np.empty(entry.size, dtype=np.uint8)
    file.seek(entry.offset)
    filled = 0
    while filled < entry.size:
        piece = file.read(min(_CHUNK_BYTES, entry.size - filled))
        if not piece:
            raise FormatError("the data file ends early")
        values[filled : filled + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        filled += len(piece)
    if entry.checksum is not None and crc32c(values.data) != unmask(entry.checksum):
        raise FormatError("its values do not match their checksum; the data file is damaged or of another checkpoint")
    return values.view(kind).reshape(entry.shape)


# The table of the index: a footer, a block of addresses, blocks of entries.


def _table(index: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(index) < _FOOTER or struct.unpack("<Q", index[-8:]) != (_MAGIC,):
        raise FormatError("this is not the index of a TensorFlow checkpoint, or its end is missing")
    footer = index[-_FOOTER:-8]
    meta_index, position = _handle(footer, 0)
    addresses, _ = _handle(footer, position)
    list(_block(index, *meta_index))  # contains no variables, but must be intact
    before = 0
    for _, value in _block(index, *addresses):
        (offset, size), _ = _handle(value, 0)
        # Blocks follow each other; a block that goes back could make the reader loop forever.
        if offset < before:
            raise FormatError("the blocks of the index overlap; the file is damaged")
        before = offset + size
        yield from _block(index, offset, size)


def _block(index: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block; a key is stored as its difference from the preceding key."""
    end = offset + size
    if end + 5 > len(index) - _FOOTER or size < 4:
        raise FormatError(f"a block of the index is at {offset} to {end}, outside the file; the file is damaged")
    compression, checksum = struct.unpack_from("<BI", index, end)
    if crc32c(index[offset : end + 1]) != unmask(checksum):
        raise FormatError(f"the block at byte {offset} of the index does not match its checksum; the file is damaged")
    if compression:
        raise FormatError(
            f"the index is compressed ({'snappy' if compression == 1 else f'kind {compression}'}); TensorFlow itself "
            "writes it plain: save the checkpoint with tf.train.Saver"
        )
    (restarts,) = struct.unpack_from("<I", index, end - 4)
    block = index[offset : max(offset, end - 4 - 4 * restarts)]
    key, position = b"", 0
    while position < len(block):
        shared, position = _varint(block, position)
        unshared, position = _varint(block, position)
        length, position = _varint(block, position)
        if shared > len(key) or shared + unshared > _LONGEST_NAME or position + unshared + length > len(block):
            raise FormatError("an entry of the index reaches beyond its block; the file is damaged")
        key = key[:shared] + block[position : position + unshared]
        position += unshared
        yield key, block[position : position + length]
        position += length


def _handle(data: bytes, position: int) -> tuple[tuple[int, int], int]:
    offset, position = _varint(data, position)
    size, position = _varint(data, position)
    return (offset, size), position


# Protocol-buffer messages: for each field a tag with its number and wire type, then its value.


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        value: int | bytes
        match tag & 7:
            case 0:
                value, position = _varint(message, position)
            case 1 | 5 as wire:
                width = 8 if wire == 1 else 4
                value, position = int.from_bytes(message[position : position + width], "little"), position + width
            case 2:
                length, position = _varint(message, position)
                value, position = message[position : position + length], position + length
            case other:
                raise FormatError(f"a message has the unknown wire type {other}; the index is damaged")
        if position > len(message):
            raise FormatError("a message of the index ends early; the file is damaged")
        yield tag >> 3, value


def _number(fields: Mapping[int, int | bytes], which: int) -> int:
    value = fields.get(which, 0)  # a field that is absent is zero
    if not isinstance(value, int) or value >= 1 << 63:
        raise FormatError(f"field {which} of a message is not a number from 0 on; the index is damaged")
    return value


def _message(fields: Mapping[int, int | bytes], which: int) -> bytes:
    value = fields.get(which, b"")
    if not isinstance(value, bytes):
        raise FormatError(f"field {which} of a message is not a message; the index is damaged")
    return value


def _messages(message: bytes, which: int) -> Iterator[bytes]:
    for number, value in _fields(message):
        if number == which:
            yield _message({which: value}, which)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A whole number in base 128, lowest digits first, and the position after it."""
    value = 0
    for i in range(10):
        if position + i >= len(data):
            break
        digit = data[position + i]
        value |= (digit & 0x7F) << (7 * i)
        if digit < 0x80:
            return value, position + i + 1
    raise FormatError("a number of the index does not end; the file is damaged")
