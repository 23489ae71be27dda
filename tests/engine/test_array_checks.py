"""Wrong arrays are rejected at the boundary of an engine: no crash and no silent wrong numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore import load
from elmore.engine.array_checks import check_array, check_indices, check_lengths
from elmore.engine.cpu_engine import CpuEngine
from elmore.engine.native_engine import NativeEngine
from elmore.engine.native_library import Precision, why_unavailable
from elmore.engine.numpy_engine import NumpyEngine
from elmore.engine.rows import RowSteps
from elmore.engine.state import State
from elmore.errors import InputError
from elmore.text.word_ids import WordIds
from reference.as_checkpoint import as_checkpoint
from reference.strategies import models

ENGINES = [NumpyEngine, NativeEngine] if why_unavailable(Precision.FLOAT32) is None else [NumpyEngine]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> CpuEngine:
    opened: CpuEngine = request.param(load("tiny-random").checkpoint)
    return opened


def table(engine: CpuEngine) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(9, engine.config.vector_dim)).astype(np.float32)


def steps(**changes: Any) -> RowSteps:
    """Two rows of four steps, in two directions."""
    words = np.arange(16).reshape(2, 4, 2) % 9
    return RowSteps(words, np.array([4, 3]), None)._replace(**changes)


def random_state(engine: CpuEngine) -> State:
    random = np.random.default_rng(1)
    zeros = state(engine)
    return State(*(random.normal(0, 0.5, part.shape).astype(np.float32) for part in (zeros.h, zeros.c)))


def state(engine: CpuEngine, **changes: Any) -> State:
    config = engine.config
    shape = {"layers": config.lstm_layers, "directions": 2, "rows": 2, "p": config.vector_dim, "d": config.cell_dim}
    shape |= {name: value for name, value in changes.items() if name in shape}
    dtype = changes.get("dtype", np.float32)
    first = (shape["layers"], shape["directions"], shape["rows"])
    return State(np.zeros((*first, shape["p"]), dtype), np.zeros((*first, shape["d"]), dtype))


def test_run_steps_accepts_matching_arrays(engine: CpuEngine) -> None:
    outputs, after = engine.run_steps(table(engine), steps(), state(engine))
    assert outputs.shape == (2, 4, 2, engine.config.vector_dim)
    assert after.rows == 2


@pytest.mark.parametrize(
    "change",
    [
        {"p": 15},
        {"p": 17},
        {"d": 47},
        {"d": 49},
        {"layers": 1},
        {"layers": 3},
        {"directions": 1},
        {"rows": 1},
        {"rows": 3},
    ],
    ids=str,
)
def test_run_steps_rejects_state_of_other_shape(engine: CpuEngine, change: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"state\.[hc] has shape \(.*\); it must have shape \(2, 2, 2, (16|48)\)"):
        engine.run_steps(table(engine), steps(), state(engine, **change))


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.dtype(">f4")])
def test_run_steps_rejects_state_of_other_type(engine: CpuEngine, dtype: Any) -> None:
    with pytest.raises(InputError, match=r"state\.h has dtype .*; it must be float32"):
        engine.run_steps(table(engine), steps(), state(engine, dtype=dtype))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"words": np.full((2, 4, 2), 9)}, "steps.words contains 9; it must be from 0 to 8"),
        ({"words": np.full((2, 4, 2), -1)}, "steps.words contains -1"),
        ({"words": np.zeros((2, 4, 2), np.int32)}, "steps.words has dtype int32; it must be int64"),
        ({"words": np.zeros((1, 4, 2), np.int64)}, "steps.words has shape"),
        ({"words": [[[0]]]}, "steps.words is a list"),
        ({"lengths": np.array([5, 3])}, "steps.lengths are from 3 to 5; they must be from 0 to 4"),
        ({"lengths": np.array([4, -1])}, "steps.lengths are from -1 to 4"),
        ({"lengths": np.array([3, 4])}, "steps.lengths must not increase"),
        ({"lengths": np.array([4])}, "steps.lengths has shape"),
        ({"lengths": np.array([4, 3], np.int32)}, "steps.lengths has dtype int32"),
        ({"starts": np.zeros((2, 4, 2), bool)}, "steps.starts has dtype bool"),
        ({"starts": np.zeros((2, 3, 2), np.uint8)}, "steps.starts has shape"),
    ],
    ids=str,
)
def test_run_steps_rejects_wrong_steps(engine: CpuEngine, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        engine.run_steps(table(engine), steps(**change), state(engine))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((9, 15), np.float32), np.zeros((9, 16)), np.zeros(16, np.float32), [[0.0] * 16]],
    ids=["narrow", "float64", "one row", "list"],
)
def test_run_steps_rejects_wrong_table(engine: CpuEngine, wrong: Any) -> None:
    with pytest.raises(InputError, match="table"):
        engine.run_steps(wrong, steps(), state(engine))


def with_gaps(array: np.ndarray) -> np.ndarray:
    """The same numbers, with other numbers between them."""
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), 99).astype(array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def backwards(array: np.ndarray) -> np.ndarray:
    """The same numbers, from the end of the memory to its start."""
    return np.flip(np.flip(array).copy())


OTHER_ORDERS = [np.asfortranarray, with_gaps, backwards]
ORDERS = [np.ascontiguousarray, *OTHER_ORDERS]


@pytest.mark.parametrize("order", OTHER_ORDERS)
@pytest.mark.parametrize("packed", [False, True])
def test_run_steps_accepts_arrays_in_any_memory_order(
    engine: CpuEngine, order: Callable[[np.ndarray], np.ndarray], packed: bool
) -> None:
    start = random_state(engine)
    given = steps()
    if packed:
        start = start.first(1)
        given = steps(starts=(np.arange(16).reshape(2, 4, 2) % 3 == 0).astype(np.uint8))
    expected, expected_after = engine.run_steps(table(engine), given, start)
    turned = RowSteps(*(part if part is None else order(part) for part in given))
    found, after = engine.run_steps(order(table(engine)), turned, State(order(start.h), order(start.c)))
    assert np.array_equal(found, expected)
    assert np.array_equal(after.h, expected_after.h)
    assert np.array_equal(after.c, expected_after.c)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_run_steps_returns_nan_for_the_row_of_a_nan_only(engine: CpuEngine, value: float) -> None:
    """Infinity times a weight of zero is NaN too; what both engines return for it may differ otherwise."""
    words = np.tile(np.arange(1, 5)[:, None], (2, 1, 2))
    words[:, 1, 0] = 0
    vectors = table(engine)
    expected, _ = engine.run_steps(vectors, steps(words=words), random_state(engine))
    vectors[0, 3] = value
    found, after = engine.run_steps(vectors, steps(words=words), random_state(engine))
    assert np.array_equal(found[:, :, 1], expected[:, :, 1])
    assert np.array_equal(found[:, 0, 0], expected[:, 0, 0])
    if np.isnan(value):
        assert np.isnan(found[:, 1:, 0]).all()
        assert np.isnan(after.h[:, :, 0]).all()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.full((2, 6), 261), "character_ids contains 261; it must be from 0 to 260"),
        (np.full((2, 6), -1), "character_ids contains -1"),
        (np.zeros((2, 6), np.int32), "character_ids has dtype int32; it must be int64"),
        (np.zeros(6, np.int64), "character_ids has shape"),
        (np.zeros((2, 2), np.int64), "character_ids has 2 columns; the widest filter needs 3"),
        (None, "of another model"),
    ],
    ids=str,
)
def test_encode_words_rejects_wrong_ids(engine: CpuEngine, ids: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        engine.encode_words(WordIds(ids, None))
    assert message in str(raised.value)


def test_encode_words_rejects_word_numbers_of_another_model(engine: CpuEngine) -> None:
    with pytest.raises(InputError, match="of another model"):
        engine.encode_words(WordIds(np.zeros((2, 6), np.int64), np.zeros(2, np.int64)))


dtypes = st.sampled_from([np.float32, np.float64, np.int64, np.int32, np.uint8, np.bool_])
sizes = st.integers(0, 5)


@settings(max_examples=300)
@given(data=st.data())
def test_run_steps_never_crashes_or_returns_numbers_for_wrong_arrays(data: st.DataObject) -> None:
    """Random shapes, types and values: an InputError, or the numbers of the NumPy engine."""
    checkpoint = load("tiny-random").checkpoint
    engines = [one(checkpoint) for one in ENGINES]
    config = checkpoint.config

    def array(*usual: int, kind: Any, low: int = -1, high: int = 9) -> np.ndarray:
        shape = [size if data.draw(st.integers(0, 9)) else data.draw(sizes) for size in usual]
        dtype = kind if data.draw(st.integers(0, 9)) else data.draw(dtypes)
        values = np.random.default_rng(data.draw(st.integers(0, 99))).integers(low, high, shape)
        return data.draw(st.sampled_from(ORDERS))(values.astype(dtype))

    count, rows = data.draw(sizes), data.draw(sizes)
    lengths = np.sort(array(rows, kind=np.int64, low=0, high=count + 1))[::-1]
    packed = data.draw(st.booleans())
    given_steps = RowSteps(
        array(2, count, rows, kind=np.int64, low=-1 if data.draw(st.integers(0, 5)) == 0 else 0),
        lengths,
        array(2, count, rows, kind=np.uint8, low=0, high=2) if packed else None,
    )
    state_rows = 1 if packed else rows
    given_state = State(
        array(config.lstm_layers, 2, state_rows, config.vector_dim, kind=np.float32),
        array(config.lstm_layers, 2, state_rows, config.cell_dim, kind=np.float32),
    )
    given_table = array(9, config.vector_dim, kind=np.float32)
    results = []
    for engine in engines:
        try:
            outputs, after = engine.run_steps(given_table, given_steps, given_state)
            results.append((outputs, after.h, after.c))
        except InputError as error:
            results.append(str(error))
    for other in results[1:]:
        assert type(other) is type(results[0])
        if isinstance(other, tuple):
            for own, expected in zip(other, results[0], strict=True):
                np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=300)
@given(data=st.data())
def test_encode_words_never_crashes_or_returns_numbers_for_wrong_ids(data: st.DataObject) -> None:
    """Random shapes, types, values and memory orders: an InputError, or the numbers of the NumPy engine."""
    checkpoint = as_checkpoint(data.draw(models))
    config = checkpoint.config
    count = data.draw(sizes)

    def ids(*usual: int, limit: int) -> np.ndarray:
        shape = [size if data.draw(st.integers(0, 9)) else data.draw(sizes) for size in usual]
        dtype = data.draw(dtypes) if data.draw(st.integers(0, 9)) == 0 else np.int64
        low, high = (-1, limit + 1) if data.draw(st.integers(0, 5)) == 0 else (0, limit)
        values = np.random.default_rng(data.draw(st.integers(0, 99))).integers(low, high, shape).astype(dtype)
        return data.draw(st.sampled_from(ORDERS))(values)

    has_characters = (config.characters is not None) != (data.draw(st.integers(0, 9)) == 0)
    has_numbers = bool(config.word_embedding_dim) != (data.draw(st.integers(0, 9)) == 0)
    limit = 10 if config.characters is None else config.characters.n_characters
    given_ids = WordIds(
        ids(count, data.draw(st.integers(0, 12)), limit=limit) if has_characters else None,
        ids(count, limit=max(config.vocab_size, 1)) if has_numbers else None,
    )
    results: list[np.ndarray | str] = []
    for kind in ENGINES:
        try:
            results.append(kind(checkpoint).encode_words(given_ids))
        except InputError as error:
            results.append(str(error))
    for other in results[1:]:
        if isinstance(other, str) or isinstance(results[0], str):
            assert other == results[0]
        else:
            np.testing.assert_allclose(other, results[0], rtol=1e-4, atol=1e-4)


def test_check_array_names_argument_and_both_shapes() -> None:
    with pytest.raises(InputError, match=r"^x has shape \(3,\); it must have shape \(2, any\)$"):
        check_array("x", np.zeros(3, np.float32), (2, None), np.float32)


def test_check_indices_accepts_empty_array() -> None:
    check_indices("x", np.zeros(0, np.int64), 0)


def test_check_lengths_accepts_zero_rows() -> None:
    check_lengths("x", np.zeros(0, np.int64), 0)
