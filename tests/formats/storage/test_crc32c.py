import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.formats.storage import crc32c as module
from elmore.formats.storage.crc32c import crc32c, unmask
from reference.tensorflow_bundle import crc32c as byte_by_byte
from reference.tensorflow_bundle import masked


# The examples of RFC 3720, B.4.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytes(32), 0x8A9136AA),
        (bytes([0xFF] * 32), 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"", 0),
    ],
)
def test_the_checksum_is_the_standard_one(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


@given(st.binary(max_size=300))
def test_the_checksum_equals_the_one_computed_byte_by_byte(data: bytes) -> None:
    assert crc32c(data) == byte_by_byte(data)


@pytest.mark.parametrize("length", [31, 32, 33, 1024, 65536, 65537, 300_000])
def test_lengths_around_lanes_and_chunks_make_no_difference(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 128 * 1024)
    data = random.Random(length).randbytes(length)
    assert crc32c(data) == byte_by_byte(data)


@given(st.binary(max_size=20))
def test_unmasking_undoes_the_mask(data: bytes) -> None:
    assert unmask(masked(data)) == crc32c(data)
