"""The native engine against the NumPy engine, and its guarantee: identical bits in any batch, with any threads."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore import load
from elmore.defaults import ComputeName
from elmore.engine.native_engine import PRECISIONS, NativeEngine
from elmore.engine.native_library import Precision, why_unavailable
from elmore.engine.numpy_engine import NumpyEngine
from elmore.engine.state import State
from elmore.engine.threads import set_threads
from elmore.formats.checkpoint import Checkpoint
from packed_sentences import run_sentences, store_for
from reference import ManyLanguagesModel, PublishedModel
from reference.as_checkpoint import as_checkpoint
from reference.strategies import batches, models, patiently

pytestmark = pytest.mark.skipif(
    why_unavailable(Precision.FLOAT32) is not None, reason="the native library is not built for this machine"
)
Model = PublishedModel | ManyLanguagesModel
COMPUTES = [name for name in get_args(ComputeName) if name in PRECISIONS]


def needs(compute: ComputeName) -> None:
    if reason := why_unavailable(PRECISIONS[compute]):
        pytest.skip(f"{compute} is unavailable here: {reason}")


@patiently
@given(models, batches, st.integers(1, 5), st.booleans())
def test_run_agrees_with_numpy_engine(model: Model, texts: list[list[str]], rows: int, carried: bool) -> None:
    checkpoint = as_checkpoint(model)
    found, expected = (
        run_sentences(engine, store_for(engine, checkpoint), texts, rows=rows, carried=carried)
        for engine in (NativeEngine(checkpoint), NumpyEngine(checkpoint))
    )
    for own, other in zip(found[0], expected[0], strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1].h, expected[1].h, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1].c, expected[1].c, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module", params=["tiny-random", "elmore-en"])
def checkpoint(request: pytest.FixtureRequest) -> Checkpoint:
    return load(request.param).checkpoint


SENTENCES = [
    ["I", "took", "a", "bow", "."],
    [],
    ["He", "drew", "his", "bow", "and", "let", "the", "arrow", "fly", "."],
    ["word"] * 41,
    ["one"],
    ["Me", "too", "."],
]


@pytest.mark.parametrize("compute", COMPUTES)
def test_run_returns_same_bits_in_any_batch_and_with_any_threads(
    checkpoint: Checkpoint, compute: ComputeName, restored_threads: None
) -> None:
    needs(compute)
    engine = NativeEngine(checkpoint, compute)
    store = store_for(engine, checkpoint)
    alone = [run_sentences(engine, store_for(engine, checkpoint), [text], rows=1)[0][0] for text in SENTENCES]
    for threads in (1, 2, 3, 8):
        set_threads(threads)
        for rows in (1, 2, 3, 6):
            for carried in (False, True):
                order = np.random.default_rng(rows).permutation(len(SENTENCES))
                together, _ = run_sentences(
                    engine, store, [SENTENCES[number] for number in order], rows=rows, carried=carried
                )
                for number, own in zip(order, together, strict=True):
                    assert np.array_equal(own, alone[number])


@pytest.mark.parametrize("compute", ["bfloat16", "int8"])
def test_run_in_lower_precision_resembles_float32(checkpoint: Checkpoint, compute: ComputeName) -> None:
    needs(compute)
    texts = [text for text in SENTENCES if len(set(text)) > 1]
    exact, rounded = (
        np.concatenate(run_sentences(engine, store_for(engine, checkpoint), texts)[0], axis=1)
        for engine in (NumpyEngine(checkpoint), NativeEngine(checkpoint, compute))
    )
    cosine = (exact * rounded).sum(-1) / np.linalg.norm(exact, axis=-1) / np.linalg.norm(rounded, axis=-1)
    assert cosine.mean(axis=1).min() > (0.999 if compute == "bfloat16" else 0.99)
    assert not np.array_equal(exact, rounded)


def test_engine_of_int8_checkpoint_uses_stored_values() -> None:
    """No second quantization: the vectors of an int8 model are those of its dequantized copy, in every compute."""
    stored = load("elmore-en").checkpoint
    as_float = Checkpoint(config=stored.config, tensors=stored.float_arrays(), vocabulary=stored.vocabulary)
    for compute in COMPUTES:
        needs(compute)
        found, expected = (
            run_sentences(NativeEngine(one, compute), store_for(NativeEngine(one, compute), one), SENTENCES)[0]
            for one in (stored, as_float)
        )
        for own, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-4)


def test_run_from_warm_state_differs_from_zeros(checkpoint: Checkpoint) -> None:
    engine = NativeEngine(checkpoint)
    store = store_for(engine, checkpoint)
    random = np.random.default_rng(0)
    zeros = State.zeros(engine.config)
    warm = State(*(random.normal(0, 0.3, part.shape).astype(np.float32) for part in (zeros.h, zeros.c)))
    cold_layers, warm_layers = (run_sentences(engine, store, SENTENCES, state=state)[0] for state in (zeros, warm))
    for number, (cold, hot) in enumerate(zip(cold_layers, warm_layers, strict=True)):
        assert np.array_equal(cold[0], hot[0]), number
        assert not np.allclose(cold[1:], hot[1:])
