"""Matrices packed for the C++ kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.engine.native_library import Precision
from elmore.engine.packing import PackedMatrix, pack, pack_bias, pack_gates, pack_pair, pad_to_multiple, to_bfloat16
from elmore.formats.arrays import Int8Array

sizes = st.integers(1, 9)
LANES = 4


def unpacked(packed: PackedMatrix) -> np.ndarray:
    """(G, panels, K, 4, W) the values, scaled; groups of rows are taken apart."""
    matrices, panels, groups, vectors, lanes, group = packed.panels.shape
    values = packed.panels.transpose(0, 1, 2, 5, 3, 4).reshape(matrices, panels, groups * group, vectors, lanes)
    if packed.panels.dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values if packed.scales is None else values * packed.scales[:, :, None]


def random_matrix(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


TOLERANCE = {Precision.FLOAT32: 0.0, Precision.BFLOAT16: 0.004, Precision.INT8: 0.004}


@given(sizes, sizes, sizes, st.sampled_from(Precision))
def test_pack_cuts_columns_into_panels(matrices: int, rows: int, columns: int, precision: Precision) -> None:
    weights = random_matrix(matrices, rows, columns)
    values = unpacked(pack(weights, precision, LANES))
    merged = values.transpose(0, 2, 1, 3, 4).reshape(matrices, values.shape[2], -1)
    largest = np.abs(weights).max()
    np.testing.assert_allclose(merged[:, :rows, :columns], weights, atol=TOLERANCE[precision] * largest)
    assert not merged[:, rows:].any()
    assert not merged[:, :, columns:].any()


@given(sizes, sizes, sizes, st.sampled_from(Precision))
def test_pack_gates_puts_four_gates_of_cell_into_one_panel(
    matrices: int, rows: int, cells: int, precision: Precision
) -> None:
    weights = random_matrix(matrices, rows, 4 * cells)
    values = unpacked(pack_gates(weights, precision, LANES))  # (G, panels, K, 4, W)
    expected = weights.reshape(matrices, rows, 4, cells)
    for cell in range(cells):
        found = values[:, cell // LANES, :rows, :, cell % LANES]
        np.testing.assert_allclose(found, expected[..., cell], atol=TOLERANCE[precision] * np.abs(weights).max())


def test_pack_pair_alternates_two_vectors_of_each() -> None:
    first, second = random_matrix(3, 10), -random_matrix(3, 10)
    values = unpacked(pack_pair(first, second, Precision.FLOAT32, LANES))[0]  # (panels, K, 4, W)
    np.testing.assert_array_equal(values[0, :, :2].reshape(3, -1), first[:, :8])
    np.testing.assert_array_equal(values[0, :, 2:].reshape(3, -1), second[:, :8])
    np.testing.assert_array_equal(values[1, :, 0, :2], first[:, 8:])


@pytest.mark.parametrize("block", [None, 8])
def test_pack_of_int8_array_uses_its_values_and_scales(block: int | None) -> None:
    random = np.random.default_rng(0)
    values = random.integers(-127, 128, (2, 20, 6)).astype(np.int8)
    scale = random.uniform(0.1, 1, (2, 1, 6)).astype(np.float32)
    packed = pack(Int8Array(values, scale), Precision.INT8, LANES, block=block)
    assert packed.scales is not None
    assert packed.offsets is not None
    np.testing.assert_array_equal(packed.scales.reshape(2, -1)[:, :6], scale[:, 0])
    whole = packed.panels.transpose(0, 1, 2, 5, 3, 4).reshape(2, 1, 20, 16)[:, 0]
    np.testing.assert_array_equal(whole[:, :, :6], values)
    size = block or 20
    sums = [values[:, first : first + size].sum(axis=1) for first in range(0, 20, size)]
    np.testing.assert_array_equal(packed.offsets.reshape(2, len(sums), -1)[..., :6], -128 * np.stack(sums, axis=1))
    assert packed.offsets.flags.c_contiguous


def test_pack_of_int8_array_in_float32_dequantizes() -> None:
    values = np.arange(-12, 12, dtype=np.int8).reshape(1, 4, 6)
    stored = Int8Array(values, np.full((1, 1, 6), 0.5, np.float32))
    found = unpacked(pack(stored, Precision.FLOAT32, LANES))[0, 0, :4].reshape(4, -1)[:, :6]
    np.testing.assert_array_equal(found, stored.dequantize()[0])


def test_pack_of_zero_column_in_int8_has_no_nan() -> None:
    weights = random_matrix(1, 4, 3)
    weights[..., 1] = 0
    assert np.isfinite(unpacked(pack(weights, Precision.INT8, LANES))).all()


def test_pack_bias_follows_columns_of_gates() -> None:
    bias = np.arange(12, dtype=np.float32)[None]  # three cells
    assert pack_bias(bias, 2).reshape(2, 4, 2).tolist() == [
        [[0, 1], [3, 4], [6, 7], [9, 10]],
        [[2, 0], [5, 0], [8, 0], [11, 0]],
    ]


@pytest.mark.parametrize(
    ("value", "bits"),
    [(1.0, 0x3F80), (1 + 2**-8, 0x3F80), (1 + 3 * 2**-8, 0x3F82), (-0.0, 0x8000), (np.inf, 0x7F80), (3.4e38, 0x7F80)],
)
def test_to_bfloat16_rounds_to_nearest_even(value: float, bits: int) -> None:
    assert to_bfloat16(np.array([value], np.float32))[0] == bits


def test_to_bfloat16_preserves_nan() -> None:
    assert to_bfloat16(np.array([np.nan], np.float32))[0] & 0x7FFF > 0x7F80


def test_pad_to_multiple_returns_argument_where_nothing_is_missing() -> None:
    array = np.zeros((2, 4))
    assert pad_to_multiple(array, 1, 4) is array
    assert pad_to_multiple(array, 0, 3).shape == (3, 4)
