"""CRC-32C (Castagnoli), the checksum in TensorFlow's files, computed with NumPy.

Without its start value the checksum is linear: leading zeros do not change it, and the checksum of the data follows
from the checksums of its parts. The data is split into many short lanes, which are processed in parallel, two bytes in
each step. Then the lanes are combined in pairs.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

_POLYNOMIAL = np.uint32(0x82F63B78)  # bits reversed: the lowest bit comes first
_ONE, _SIXTEEN = np.uint32(1), np.uint32(16)
_CHUNK = 8 << 20  # bytes; enough lanes to make the cost of NumPy calls negligible, and little to copy


def crc32c(data: bytes | memoryview) -> int:
    """The checksum of these bytes.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    values = np.frombuffer(data, dtype=np.uint8)
    state = 0xFFFFFFFF
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        state = _after_zeros(state, len(chunk)) ^ _linear_checksum(chunk)
    return state ^ 0xFFFFFFFF


def unmask(masked: int) -> int:
    """The checksum of a masked one: TensorFlow stores checksums rotated, with an added constant."""
    turned = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return ((turned >> 17) | (turned << 15)) & 0xFFFFFFFF


def _linear_checksum(data: NDArray[np.uint8]) -> int:
    length = 1024 if len(data) > 1 << 16 else 32  # of a lane
    lanes = 1
    while lanes * length < len(data):
        lanes *= 2
    padded = np.zeros(lanes * length, dtype=np.uint8)
    padded[len(padded) - len(data) :] = data
    table = _two_byte_table()
    states = np.zeros(lanes, dtype=np.uint32)
    for pairs in np.ascontiguousarray(padded.view("<u2").reshape(lanes, -1).T):
        states = table.take(states.astype(np.uint16) ^ pairs) ^ (states >> _SIXTEEN)
    while len(states) > 1:
        states = _apply(_zeros(length), states[0::2]) ^ states[1::2]
        length *= 2
    return int(states[0])


def _after_zeros(state: int, length: int) -> int:
    states = np.array([state], dtype=np.uint32)
    power = 1
    while power <= length:
        if length & power:
            states = _apply(_zeros(power), states)
        power *= 2
    return int(states[0])


def _apply(matrix: Words, states: Words) -> Words:
    """Multiply by a matrix over GF(2); row b is the result for bit b."""
    result = np.zeros_like(states)
    for row in matrix:
        result ^= row * (states & _ONE)
        states = states >> _ONE
    return result


@cache
def _zeros(length: int) -> Words:
    """The matrix that appends this number of zero bytes, a power of two."""
    if length == 1:
        return _step(_ONE << np.arange(32, dtype=np.uint32), bits=8)
    half = _zeros(length // 2)
    return _apply(half, half)


@cache
def _two_byte_table() -> Words:
    return _step(np.arange(1 << 16, dtype=np.uint32), bits=16)


def _step(states: Words, *, bits: int) -> Words:
    for _ in range(bits):
        states = (states >> _ONE) ^ (_POLYNOMIAL * (states & _ONE))
    return states
