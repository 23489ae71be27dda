import io
import random
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from elmore.errors import ElmoreError, FormatError
from elmore.formats.storage.tensorflow_bundle import Bundle, read_bundle
from reference.tensorflow_bundle import as_array, bundle, field, table, variable

HEADER = (b"", field(1, 1))


class Shards:
    """Data files in memory that count how often they are opened."""

    def __init__(self, *contents: bytes) -> None:
        self.contents = contents
        self.opened = 0

    def __call__(self, shard: int, number: int) -> BinaryIO:
        assert number == len(self.contents)
        self.opened += 1
        return io.BytesIO(self.contents[shard])


def one_variable(values: NDArray[Any], *, data: bytes | None = None, **changes: Any) -> Bundle:
    """A bundle whose only variable is called w."""
    data = values.tobytes() if data is None else data
    message = variable(values, values.tobytes(), **{"shard": 0, "offset": 0} | changes)
    return read_bundle(table([HEADER, (b"w", message)]), Shards(data))


def test_variables_are_those_that_tensorflow_wrote(fixtures: Path) -> None:
    folder = fixtures / "bilm-tf-checkpoint"
    stored = read_bundle(
        (folder / "model.ckpt-600.index").read_bytes(),
        lambda shard, number: (folder / f"model.ckpt-600.data-{shard:05}-of-{number:05}").open("rb"),
    )
    values = stored.read(stored.entries)  # every checksum by TensorFlow agrees
    assert len(values) == 64
    assert values["global_step"] == 600
    with h5py.File(folder / "expected_weights.hdf5") as dumped:
        np.testing.assert_array_equal(values["lm/char_embed"], dumped["char_embed"][...])
        np.testing.assert_array_equal(
            values["lm/RNN_1/rnn/multi_rnn_cell/cell_1/lstm_cell/projection/kernel"],
            dumped["RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0"][...],
        )


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8),
        arrays.arrays(
            st.sampled_from(["<f4", "<f8", "<i4", "<i8", "<f2"]),
            arrays.array_shapes(min_dims=0, max_dims=3, min_side=0),
        ),
        max_size=9,
    ),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_whatever_is_written_is_read_back(
    variables: dict[str, NDArray[Any]], n_shards: int, entries_in_a_block: int
) -> None:
    variables = {name: values for name, values in variables.items() if name.isprintable()}
    index, shards = bundle(variables, n_shards=n_shards, entries_in_a_block=entries_in_a_block)
    stored = read_bundle(index, Shards(*shards))
    read = stored.read(stored.entries)
    assert read.keys() == variables.keys()
    for name, values in variables.items():
        np.testing.assert_array_equal(read[name], values)


def test_values_are_read_only_when_asked_for_and_each_file_once() -> None:
    index, shards = bundle({"a": as_array([1, 2]), "b": as_array([3]), "softmax": as_array([4])})
    files = Shards(*shards)
    stored = read_bundle(index, files)
    assert (files.opened, stored.entries["softmax"].shape) == (0, (1,))
    assert stored.read(["b", "a"])["b"].tolist() == [3]
    assert files.opened == 1


def test_a_damaged_value_is_named_with_its_variable() -> None:
    stored = one_variable(as_array([1, 2]), data=as_array([1, 3]).tobytes())
    with pytest.raises(FormatError, match="w: its values do not match their checksum"):
        stored.read(["w"])


def test_a_data_file_that_is_cut_short_is_an_error_before_memory_is_taken() -> None:
    stored = one_variable(np.broadcast_to(as_array(0), (2**20,)), data=bytes(100))
    with pytest.raises(FormatError, match="w: its values end at byte 4194304 and the data file at 100"):
        stored.read(["w"])


@pytest.mark.parametrize(
    ("values", "changes", "reason"),
    [
        (as_array([1]), {"more": field(7, b"")}, "stored in slices"),
        (as_array([1]), {"more": field(1, 7)}, "TensorFlow's type 7"),
        (as_array([1]), {"more": field(5, 3)}, r"3 bytes do not fit shape \(1,\)"),
        (as_array([1]), {"offset": 2**62}, "the data file at 4"),
        (as_array(np.ones([1] * 9)), {}, "4 bytes do not fit shape"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(values: NDArray[Any], changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(FormatError, match=f"^w: .*{reason}"):
        one_variable(values, **changes).read(["w"])


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        (b"", "not the index of a TensorFlow checkpoint"),
        (bytes(100), "not the index of a TensorFlow checkpoint"),
        (table([HEADER], compression=1), "compressed .snappy."),
        (table([(b"", field(1, 1) + field(2, 1))]), "big-endian"),
        (table([(b"w", b"")]), "no header"),
        (table([HEADER, (b"w", field(3, 1))]), "w: it is in data file 1 of 1"),
        (table([HEADER, (b"\xff", b"")]), "not UTF-8"),
        (table([HEADER, (b"w", field(2, 5))]), "w: field 2 of a message is not a message"),
        (table([HEADER, (b"w", b"\x08" + b"\xff" * 11)]), "w: a number of the index does not end"),
        (table([HEADER, (b"w", b"\x12\x7f")]), "w: a message of the index ends early"),
        (table([HEADER, (b"w", b"\x0b")]), "w: a message has the unknown wire type 3"),
        (table([HEADER, (b"w" * 2000, b"")]), "reaches beyond its block"),
    ],
)
def test_a_wrong_index_is_refused_with_a_reason(index: bytes, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        read_bundle(index, Shards())


def test_every_cut_of_an_index_is_an_error_and_every_flipped_bit_is_one_or_changes_nothing() -> None:
    index, shards = bundle({"lm/a": as_array([1]), "lm/b": as_array([2])}, entries_in_a_block=2)
    intact = read_bundle(index, Shards(*shards)).entries
    for length in range(len(index)):
        with pytest.raises(FormatError):
            read_bundle(index[:length], Shards(*shards))
    harmless = 0
    for place in range(8 * len(index)):
        damaged = bytearray(index)
        damaged[place // 8] ^= 1 << place % 8
        try:
            assert read_bundle(bytes(damaged), Shards(*shards)).entries == intact
        except FormatError:
            continue
        harmless += 1
    assert harmless <= 8 * 40  # the filling of the footer, which says nothing


def test_an_index_with_right_checksums_and_wrong_content_never_ends_in_anything_but_our_errors() -> None:
    for seed in range(1000):
        chance = random.Random(seed)
        message = bytearray(variable(as_array([1, 2]), bytes(8), shard=0, offset=0))
        for _ in range(chance.randint(1, 4)):
            message[chance.randrange(len(message))] = chance.randrange(256)
        entries = [HEADER, (b"lm/w", bytes(message))]
        try:
            read_bundle(table(entries), Shards(bytes(8))).read(["lm/w"])
        except ElmoreError:
            continue
