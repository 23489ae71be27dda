"""Write TensorFlow checkpoints (7.5), byte by byte and without hurry: the reader's other half."""

import struct
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = {"float32": 1, "float64": 2, "int32": 3, "int64": 9, "float16": 19}
MAGIC = 0xDB4775248B80FB57


def write_checkpoint_files(
    folder: Path, variables: Mapping[str, NDArray[Any]], *, prefix: str = "model.ckpt-7"
) -> None:
    """The three files that a loader needs beside options.json."""
    index, shards = bundle(variables)
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "{prefix}"\nall_model_checkpoint_paths: "{prefix}"\n')
    (folder / f"{prefix}.index").write_bytes(index)
    (folder / f"{prefix}.data-00000-of-00001").write_bytes(shards[0])


def bundle(
    variables: Mapping[str, NDArray[Any]], *, n_shards: int = 1, entries_in_a_block: int = 16
) -> tuple[bytes, list[bytes]]:
    """The index and the data files; variables go to the data files in turn."""
    shards = [b""] * n_shards
    entries = [(b"", field(1, n_shards) + field(3, field(1, 1)))]
    for number, (name, values) in enumerate(sorted(variables.items(), key=lambda item: item[0].encode())):
        shard = number % n_shards
        data = values.tobytes()
        entries.append((name.encode(), variable(values, data, shard=shard, offset=len(shards[shard]))))
        shards[shard] += data
    return table(entries, entries_in_a_block=entries_in_a_block), shards


def variable(values: NDArray[Any], data: bytes, *, shard: int, offset: int, more: bytes = b"") -> bytes:
    """The message that describes a variable."""
    shape = b"".join(field(2, field(1, size)) for size in values.shape)
    message = field(1, KINDS[values.dtype.name]) + field(2, shape)
    message += b"".join(field(which, value) for which, value in ((3, shard), (4, offset), (5, len(data))) if value)
    return message + bytes([6 << 3 | 5]) + struct.pack("<I", masked(data)) + more


def table(entries: Iterable[tuple[bytes, bytes]], *, entries_in_a_block: int = 16, compression: int = 0) -> bytes:
    """A table in LevelDB's manner."""
    waiting = list(entries)
    written, addresses = b"", []
    while waiting:
        some, waiting = waiting[:entries_in_a_block], waiting[entries_in_a_block:]
        body = block(some)
        addresses.append((some[-1][0], varint(len(written)) + varint(len(body))))
        written += sealed(body, compression)
    handles = b""
    for body in (block([]), block(addresses)):  # the meta-index has nothing to say
        handles += varint(len(written)) + varint(len(body))
        written += sealed(body, compression)
    return written + handles.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def block(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    written, before = b"", b""
    for key, value in entries:
        shared = 0
        while shared < min(len(before), len(key)) and before[shared] == key[shared]:
            shared += 1
        written += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return written + struct.pack("<II", 0, 1)


def sealed(body: bytes, compression: int) -> bytes:
    body += bytes([compression])
    return body + struct.pack("<I", masked(body))


def field(which: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(which << 3) + varint(value)
    return varint(which << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    digits = []
    while value >= 128:
        digits.append(value % 128 + 128)
        value //= 128
    return bytes([*digits, value])


def masked(data: bytes) -> int:
    checksum = crc32c(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) % 2**32


def crc32c(data: bytes) -> int:
    """One byte after the other, as the polynomial division is defined."""
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder = remainder >> 8 ^ divided(remainder & 0xFF ^ byte)
    return remainder ^ 0xFFFFFFFF


@cache
def divided(remainder: int) -> int:
    for _ in range(8):
        remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder


def as_array(values: Any) -> NDArray[np.float32]:
    return np.asarray(values, dtype=np.float32)
