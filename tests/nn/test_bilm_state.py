"""The state is a value: rows are chosen, added, renewed, and nothing is remembered behind the caller's back."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore.config import ModelConfig
from elmore.nn.bilm import StateTensors
from reference.network import CarriedRows
from reference.strategies import batches, models, patiently
from reference.twin import Model, Twin

CONFIG = ModelConfig(vector_dim=3, cell_dim=5, lstm_layers=2)


def numbered(rows: int, *, start: int = 1) -> StateTensors:
    """A state whose every number tells the row it stands in."""
    number = torch.arange(start, start + rows, dtype=torch.float32)[:, None]
    return StateTensors(number.expand(2, 2, rows, 3), number.expand(2, 2, rows, 5))


def rows_of(state: StateTensors) -> list[int]:
    """The numbers of the rows, after checking that every part of a row has the same."""
    numbers = state.h[0, 0, :, 0]
    for part in (state.h, state.c):
        assert torch.equal(part, numbers[:, None].expand_as(part))
    return [int(number) for number in numbers]


def test_zeros_have_the_shape_of_the_model() -> None:
    state = StateTensors.zeros(CONFIG, rows=4)
    assert (state.h.shape, state.c.shape, state.rows) == ((2, 2, 4, 3), (2, 2, 4, 5), 4)
    assert not state.h.any()
    assert not state.c.any()


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_one_row_can_be_repeated_for_all(rows: int) -> None:
    assert rows_of(numbered(1).repeat(rows)) == [1] * rows


def test_rows_are_selected_in_the_given_order() -> None:
    assert rows_of(numbered(4).select(np.array([2, 0, 3]))) == [3, 1, 4]


@pytest.mark.parametrize(("rows", "expected"), [(0, []), (2, [1, 2]), (3, [1, 2, 3]), (5, [1, 2, 3, 0, 0])])
def test_the_first_rows_are_those_that_are_there_and_then_zeros(rows: int, expected: list[int]) -> None:
    assert rows_of(numbered(3).first(rows)) == expected


@pytest.mark.parametrize(
    ("newer", "expected"), [(0, [1, 2, 3]), (2, [11, 12, 3]), (3, [11, 12, 13]), (4, [11, 12, 13, 14])]
)
def test_a_newer_state_replaces_the_rows_it_has_and_no_others(newer: int, expected: list[int]) -> None:
    assert rows_of(numbered(3).updated(numbered(newer, start=11))) == expected


def test_detached_values_are_equal_and_carry_no_gradient() -> None:
    state = StateTensors(torch.ones(2, 2, 1, 3, requires_grad=True) * 2, torch.ones(2, 2, 1, 5, requires_grad=True) * 2)
    detached = state.detach()
    assert state.h.requires_grad
    assert not detached.h.requires_grad
    assert not detached.c.requires_grad
    assert torch.equal(state.c, detached.c)


def test_a_state_changes_its_kind_of_number() -> None:
    assert numbered(1).to(torch.float64).c.dtype == torch.float64


@patiently
@given(models, st.lists(batches, min_size=2, max_size=4))
def test_batches_of_any_sizes_one_after_the_other_carry_their_rows_as_in_allennlp(
    model: Model, calls: list[list[list[str]]]
) -> None:
    twin, reference = Twin.of(model), CarriedRows(model.network())
    state = twin.zeros(0)
    for sentences in calls:
        layers, after = twin.read(sentences, state.first(len(sentences)))
        state = state.updated(after)
        for own, expected in zip(layers, reference.read(sentences, boundaries=True), strict=True):
            assert_close(own, expected)
    expected_state = twin.state(reference.rows)
    assert_close(state.h, expected_state.h)
    assert_close(state.c, expected_state.c)


def assert_close(actual: object, expected: object) -> None:
    torch.testing.assert_close(torch.as_tensor(actual), torch.as_tensor(expected), rtol=0, atol=1e-10)
