"""The softmax of a language model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.engine import cpu_engine as module
from elmore.engine.cpu_engine import NumpySoftmax
from elmore.errors import InputError


def exact(weight: np.ndarray, bias: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    scores = hidden.astype(np.float64) @ weight.T.astype(np.float64) + bias
    return (
        scores
        - np.log(np.exp(scores - scores.max(1, keepdims=True)).sum(1, keepdims=True))
        - scores.max(1, keepdims=True)
    )


def random_softmax(classes: int, size: int, positions: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(classes)
    return tuple(
        random.normal(0, 2, shape).astype(np.float32) for shape in ((classes, size), classes, (positions, size))
    )


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 12), st.integers(1, 50))
def test_log_probabilities_agree_with_float64_in_any_blocks(
    classes: int, size: int, positions: int, block: int
) -> None:
    weight, bias, hidden = random_softmax(classes, size, positions)
    wanted = np.arange(positions) % classes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LOGITS_AT_ONCE", block)
        patch.setattr(module, "POSITIONS_AT_ONCE", 5)
        found = NumpySoftmax(weight, bias).log_probabilities(hidden, wanted)
    np.testing.assert_allclose(found, exact(weight, bias, hidden)[np.arange(positions), wanted], rtol=1e-4, atol=1e-4)


def test_log_distribution_sums_to_one() -> None:
    weight, bias, hidden = random_softmax(30, 4, 1)
    found = NumpySoftmax(weight, bias).log_distribution(hidden[0])
    np.testing.assert_allclose(np.exp(found).sum(), 1, rtol=1e-5)
    np.testing.assert_allclose(found, exact(weight, bias, hidden)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("wrong", [np.zeros(3, np.float32), np.zeros((4, 1), np.float32), np.zeros(4), [0.0] * 4])
def test_log_distribution_rejects_wrong_arrays(wrong: np.ndarray) -> None:
    weight, bias, _ = random_softmax(30, 4, 1)
    with pytest.raises(InputError, match="hidden"):
        NumpySoftmax(weight, bias).log_distribution(wrong)


def test_log_probabilities_survive_large_scores() -> None:
    weight = np.array([[1000.0], [-1000.0]], np.float32)
    found = NumpySoftmax(weight, np.zeros(2, np.float32)).log_probabilities(
        np.ones((2, 1), np.float32), np.array([0, 1])
    )
    assert found.tolist() == [0.0, -2000.0]


@pytest.mark.parametrize(
    ("hidden", "classes"),
    [
        (np.zeros((1, 3), np.float32), np.array([0])),
        (np.zeros((1, 4), np.float64), np.array([0])),
        (np.zeros((1, 4), np.float32), np.array([30])),
        (np.zeros((1, 4), np.float32), np.array([-1])),
        (np.zeros((2, 4), np.float32), np.array([0])),
    ],
)
def test_log_probabilities_reject_wrong_arrays(hidden: np.ndarray, classes: np.ndarray) -> None:
    weight, bias, _ = random_softmax(30, 4, 1)
    with pytest.raises(InputError):
        NumpySoftmax(weight, bias).log_probabilities(hidden, classes)
