"""The state of a biLM."""

import numpy as np
import pytest

from elmore.config import SMALL
from elmore.engine.state import State
from elmore.errors import InputError


def numbered(rows: int, first: int = 0) -> State:
    """Row r contains the number first + r."""
    numbers = np.arange(first, first + rows, dtype=np.float32)[:, None]
    shape = (SMALL.lstm_layers, 2, rows)
    return State(
        np.broadcast_to(numbers, (*shape, SMALL.vector_dim)).copy(),
        np.broadcast_to(numbers, (*shape, SMALL.cell_dim)).copy(),
    )


def rows_of(state: State) -> list[float]:
    assert np.array_equal(state.h[0, 0, :, 0], state.c[-1, -1, :, -1])
    return [float(number) for number in state.h[0, 0, :, 0]]


def test_zeros_has_shape_of_model() -> None:
    state = State.zeros(SMALL, rows=3)
    state.check(SMALL, 3)
    assert not state.h.any()
    assert not state.c.any()


def test_repeat_copies_first_row() -> None:
    assert rows_of(numbered(1, first=5).repeat(3)) == [5, 5, 5]


def test_select_orders_rows() -> None:
    assert rows_of(numbered(4).select(np.array([3, 1]))) == [3, 1]


def test_first_adds_rows_of_zeros() -> None:
    assert rows_of(numbered(2, first=1).first(4)) == [1, 2, 0, 0]
    assert rows_of(numbered(4, first=1).first(2)) == [1, 2]


def test_updated_replaces_first_rows_only() -> None:
    assert rows_of(numbered(4).updated(numbered(2, first=8))) == [8, 9, 2, 3]
    assert rows_of(numbered(1).updated(numbered(3, first=8))) == [8, 9, 10]


def test_check_names_argument_and_shapes() -> None:
    with pytest.raises(InputError, match=r"state\.h has shape \(2, 2, 3, 128\); it must have shape \(2, 2, 4, 128\)"):
        State.zeros(SMALL, rows=3).check(SMALL, 4)
