"""The NumPy engine against the reference network, over the whole family of models."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmore.engine.numpy_engine import NumpyEngine
from elmore.engine.rows import PackedRows
from elmore.engine.state import State
from packed_sentences import run_sentences, store_for
from reference import CarriedRows, ManyLanguagesModel, PublishedModel
from reference.as_checkpoint import as_checkpoint
from reference.strategies import batches, models, patiently, seeds

Model = PublishedModel | ManyLanguagesModel


@patiently
@given(models, batches, st.integers(1, 4))
def test_run_returns_layers_of_reference_for_packed_rows(model: Model, texts: list[list[str]], rows: int) -> None:
    checkpoint = as_checkpoint(model)
    engine = NumpyEngine(checkpoint)
    layers, _ = run_sentences(engine, store_for(engine, checkpoint), texts, rows=rows)
    network = model.network()
    for own, text in zip(layers, texts, strict=True):
        np.testing.assert_allclose(own, network.read(text)[0], atol=5e-6)


@patiently
@given(models, batches, seeds)
def test_run_returns_layers_and_state_of_reference_for_carried_rows(
    model: Model, texts: list[list[str]], seed: int
) -> None:
    checkpoint = as_checkpoint(model)
    engine = NumpyEngine(checkpoint)
    reference = CarriedRows(model.network())
    store = store_for(engine, checkpoint)
    state = State.zeros(engine.config, len(texts))
    for _ in range(2):
        layers, state = run_sentences(engine, store, texts, state=state, carried=True)
        for own, expected in zip(layers, reference.read(texts, boundaries=True), strict=True):
            np.testing.assert_allclose(own, expected, atol=5e-6)
    np.testing.assert_allclose(state.h, state_of(reference, "h"), atol=5e-6)
    np.testing.assert_allclose(state.c, state_of(reference, "c"), atol=5e-6)


def state_of(reference: CarriedRows, part: str) -> np.ndarray:
    values = [[[layer["hc".index(part)] for layer in direction] for direction in row] for row in reference.rows]
    return np.array(values).transpose(2, 1, 0, 3)  # (R, G, L, ...) -> (L, G, R, ...)


@patiently
@given(models, batches)
def test_run_twice_returns_same_bits(model: Model, texts: list[list[str]]) -> None:
    checkpoint = as_checkpoint(model)
    engine = NumpyEngine(checkpoint)
    store = store_for(engine, checkpoint)
    first, _ = run_sentences(engine, store, texts)
    second, _ = run_sentences(engine, store, texts)
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


@patiently
@given(models, batches, st.integers(0, 3))
def test_run_with_less_depth_returns_lower_layers(model: Model, texts: list[list[str]], depth: int) -> None:
    checkpoint = as_checkpoint(model)
    engine = NumpyEngine(checkpoint)
    store = store_for(engine, checkpoint)
    depth = min(depth, engine.config.lstm_layers)
    full, _ = run_sentences(engine, store, texts)
    lower, after = run_sentences(engine, store, texts, depth=depth, carried=True)
    for own, expected in zip(lower, full, strict=True):
        assert len(own) == depth + 1
        np.testing.assert_allclose(own, expected[: depth + 1], atol=5e-6)
    # Layers that did not run keep their state.
    assert not after.h[depth:].any()


@patiently
@given(models, batches, st.sampled_from([[0], [1], [0, 1], [1, 0]]))
def test_average_is_mean_of_the_named_layers(model: Model, texts: list[list[str]], numbers: list[int]) -> None:
    checkpoint = as_checkpoint(model)
    engine = NumpyEngine(checkpoint)
    words = store_for(engine, checkpoint).number([word for text in texts for word in text])
    lengths = np.array([len(text) for text in texts])
    rows = PackedRows.pack(words.numbers, lengths, boundaries=words.boundaries, rows=2)
    layers, _ = engine.run(words.table, rows, State.zeros(engine.config))
    expected = layers.stack(numbers).mean(axis=0)
    np.testing.assert_allclose(layers.average(numbers), expected, rtol=1e-6, atol=1e-6)
    assert layers.average(numbers, np.float16).dtype == np.float16


@patiently
@given(models, batches)
def test_run_without_boundaries_leaves_them_out(model: Model, texts: list[list[str]]) -> None:
    checkpoint = as_checkpoint(model)
    engine = NumpyEngine(checkpoint)
    store = store_for(engine, checkpoint)
    with_them, _ = run_sentences(engine, store, texts)
    without, _ = run_sentences(engine, store, texts, boundaries=False)
    for own, expected in zip(without, with_them, strict=True):
        assert np.array_equal(own, expected[:, 1:-1])
