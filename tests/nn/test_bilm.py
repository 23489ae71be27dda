"""The biLM against the NumPy reference over the whole family, and against the vectors of the original programs."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore.config import CharacterConfig, Direction, ModelConfig
from elmore.errors import InputError
from elmore.nn.bilm import BiLM, StateTensors
from elmore.nn.pretrained import WordBatch
from elmore.text.word_ids import WordIndexer
from fixture_variants import VARIANTS, WORD_VARIANTS
from fresh_network import fresh_network
from one_way import DIRECTIONS, one_way_network, one_way_state
from reference import CarriedRows, read_many_languages, read_published
from reference.random_models import random_published
from reference.strategies import batches, many_languages_models, models, patiently, seeds, sentences
from reference.twin import Model, Twin

CONFIG = ModelConfig(
    characters=CharacterConfig(embedding_dim=3, filters=((1, 4), (2, 5)), num_highways=1), vector_dim=3, cell_dim=5
)


@patiently
@given(models, batches, seeds)
def test_layers_and_state_are_those_of_the_reference(model: Model, texts: list[list[str]], seed: int) -> None:
    twin = Twin.of(model)
    reference = CarriedRows(twin.network, twin.random_rows(seed, len(texts)))
    layers, after = twin.read(texts, twin.state(reference.rows))
    for own, expected in zip(layers, reference.read(texts, boundaries=True), strict=True):
        assert_close(own, expected, atol=1e-10)
    assert_close(after.h, twin.state(reference.rows).h, atol=1e-10)
    assert_close(after.c, twin.state(reference.rows).c, atol=1e-10)


@patiently
@given(models, batches)
def test_float32_stays_within_the_tolerance_of_the_fixtures(model: Model, texts: list[list[str]]) -> None:
    layers, _ = Twin.of(model, dtype=torch.float32).read(texts)
    for own, expected in zip(layers, CarriedRows(model.network()).read(texts, boundaries=True), strict=True):
        assert_close(own, expected, atol=5e-6)


@patiently
@given(models, batches)
def test_a_sentence_has_the_same_layers_alone_and_in_a_batch(model: Model, texts: list[list[str]]) -> None:
    twin = Twin.of(model, dtype=torch.float32)
    together, _ = twin.read(texts)
    for own, text in zip(together, texts, strict=True):
        assert_close(own, twin.read([text])[0][0], atol=1e-6)


@patiently
@given(models, batches.flatmap(lambda texts: st.tuples(st.just(texts), st.permutations(range(len(texts))))), seeds)
def test_a_sentence_has_the_same_layers_and_state_in_any_order(
    model: Model, texts_and_order: tuple[list[list[str]], list[int]], seed: int
) -> None:
    texts, order = texts_and_order
    twin = Twin.of(model, dtype=torch.float32)
    start = twin.state(twin.random_rows(seed, len(texts)))
    layers, after = twin.read(texts, start)
    shuffled, after_shuffled = twin.read([texts[row] for row in order], start.select(np.array(order)))
    for row, own in zip(order, shuffled, strict=True):
        assert_close(own, layers[row], atol=1e-6)
    assert_close(after_shuffled.h, after.select(np.array(order)).h, atol=1e-6)
    assert_close(after_shuffled.c, after.select(np.array(order)).c, atol=1e-6)


@patiently
@given(models, batches)
def test_the_same_call_twice_gives_the_same_bits(model: Model, texts: list[list[str]]) -> None:
    twin = Twin.of(model, dtype=torch.float32)
    (first, after_first), (second, after_second) = twin.read(texts), twin.read(texts)
    for own, again in zip(first, second, strict=True):
        assert own.tobytes() == again.tobytes()
    assert torch.equal(after_first.h, after_second.h)
    assert torch.equal(after_first.c, after_second.c)


@patiently
@given(models, sentences, sentences)
def test_a_state_handed_on_continues_where_the_first_sentence_ended(
    model: Model, first: list[str], second: list[str]
) -> None:
    twin = Twin.of(model)
    _, after_first = twin.read([first])
    (own,), _ = twin.read([second], after_first)
    _, carried = twin.network.read(first)
    expected, _ = twin.network.read(second, carried)
    assert_close(own, expected, atol=1e-10)


def test_a_state_handed_on_changes_what_is_read() -> None:
    """Or else the tests above would prove nothing."""
    twin = some_twin()
    (fresh,), after = twin.read([["the", "cat"]])
    (carried,), _ = twin.read([["the", "cat"]], after)
    assert abs(fresh[1:] - carried[1:]).max() > 0.01
    assert (fresh[0] == carried[0]).all()


@patiently
@given(models, batches)
def test_reading_from_word_vectors_is_reading_the_words(model: Model, texts: list[list[str]]) -> None:
    twin = Twin.of(model)
    batch, start = twin.batch(texts), twin.zeros(len(texts))
    layers, _ = twin.bilm(batch.ids, batch.rows, start)
    from_vectors, _ = twin.bilm.run(twin.bilm.words(batch.ids), batch.rows, start)
    assert torch.equal(layers, from_vectors)


@pytest.mark.parametrize("direction", DIRECTIONS)
@patiently
@given(many_languages_models(), batches, seeds)
def test_a_direction_alone_gives_its_half_of_the_layers_of_both(
    direction: Direction, model: Model, texts: list[list[str]], seed: int
) -> None:
    twin = Twin.of(model)
    batch, start = twin.batch(texts), twin.state(twin.random_rows(seed, len(texts)))
    both, after_both = twin.bilm(batch.ids, batch.rows, start)
    alone, after = one_way_network(twin.bilm, direction)(batch.ids, batch.rows, one_way_state(start, direction))
    half = both.chunk(2, dim=-1)[DIRECTIONS.index(direction)]
    assert_close(alone, half, atol=1e-12)
    assert_close(after.h, one_way_state(after_both, direction).h, atol=1e-12)
    assert_close(after.c, one_way_state(after_both, direction).c, atol=1e-12)


def test_the_two_halves_differ() -> None:
    """Or else the test above would prove nothing."""
    (layers,), _ = some_twin().read([["the", "cat"]])
    forward, backward = np.split(layers, 2, axis=-1)
    assert abs(forward[1:] - backward[1:]).max() > 0.01


@pytest.mark.parametrize("rows", [1, 3])
def test_a_state_of_another_number_of_rows_is_refused(rows: int) -> None:
    batch = WordBatch.of([["a"], ["b"]], WordIndexer(CONFIG))
    with pytest.raises(InputError, match=f"state has {rows} rows and the batch 2 sentences"):
        fresh_network(CONFIG)(batch.ids, batch.rows, StateTensors.zeros(CONFIG, rows))


def test_gradients_reach_every_parameter_and_the_state() -> None:
    torch.manual_seed(0)
    bilm = fresh_network(CONFIG)
    batch = WordBatch.of([["the", "cat", "sat"], ["Déjà", "vu"]], WordIndexer(CONFIG))
    zeros = StateTensors.zeros(CONFIG, 2)
    start = StateTensors(zeros.h.requires_grad_(), zeros.c.requires_grad_())
    layers, _ = bilm(batch.ids, batch.rows, start)
    layers.square().sum().backward()
    for name, parameter in [*bilm.named_parameters(), ("h", start.h), ("c", start.c)]:
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_no_gradient_flows_through_a_detached_state() -> None:
    bilm = fresh_network(CONFIG)
    batch = WordBatch.of([["the", "cat"]], WordIndexer(CONFIG))
    _, after = bilm(batch.ids, batch.rows, StateTensors.zeros(CONFIG, 1))
    assert after.h.requires_grad
    layers, _ = bilm.requires_grad_(False)(batch.ids, batch.rows, after.detach())
    assert not layers.requires_grad


def test_the_forget_bias_is_added_to_the_stored_bias() -> None:
    plain = some_twin().bilm
    lifted = BiLM(ModelConfig.from_dict(plain.config.to_dict() | {"forget_bias": 0.0})).double().requires_grad_(False)
    tensors = {name: tensor.clone() for name, tensor in plain.state_dict().items()}
    cells = plain.config.cell_dim
    for layer in range(plain.config.lstm_layers):
        tensors[f"lstm.{layer}.bias"][:, 2 * cells : 3 * cells] += 1
    lifted.load_state_dict(tensors)
    batch = WordBatch.of([["the", "cat"]], WordIndexer(plain.config))
    start = StateTensors.zeros(plain.config, 1).to(torch.float64)
    assert torch.equal(lifted(batch.ids, batch.rows, start)[0], plain(batch.ids, batch.rows, start)[0])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_a_copy_reads_the_same(copied: Any) -> None:
    bilm = fresh_network(CONFIG)
    batch, start = WordBatch.of([["the", "cat"]], WordIndexer(CONFIG)), StateTensors.zeros(CONFIG, 1)
    assert torch.equal(copied(bilm)(batch.ids, batch.rows, start)[0], bilm(batch.ids, batch.rows, start)[0])


@pytest.mark.parametrize(("source", "texts"), [("allennlp", "sentences"), ("bilm-tf", "lm_embeddings_sentences")])
def test_thirty_sentences_in_ten_carried_calls_are_those_of_the_originals(
    fixtures: Path, source: str, texts: str
) -> None:
    folder = fixtures / source
    twin = Twin.of(read_published(folder / "options.json", folder / "lm_weights.hdf5"), dtype=torch.float32)
    columns = json.loads((folder / f"{texts}.json").read_text(encoding="utf-8"))
    state = twin.zeros(3)
    for i in range(10):
        layers, state = twin.read([columns[k][i].split() for k in range(3)], state)
        for k in range(3):
            with h5py.File(folder / f"lm_embeddings_{k}.hdf5") as file:
                forward, backward = file[str(i)][()]
            assert_close(layers[k][-1, 1:-1], np.concatenate([forward, backward], axis=-1), atol=5e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_gives_the_vectors_of_bilm_tf(fixtures: Path, variant: str) -> None:
    folder = fixtures / "variants" / variant
    vocabulary = folder / "vocab.txt" if variant in WORD_VARIANTS else None
    model = read_published(folder / "options.json", folder / "weights.hdf5", vocabulary)
    texts = json.loads((fixtures / "variants" / "sentences.json").read_text(encoding="utf-8"))
    layers, _ = Twin.of(model, dtype=torch.float32).read(texts)
    with np.load(folder / "expected.npz") as expected:
        for row, own in enumerate(layers):
            assert_close(own[:, 1:-1], expected[str(row)], atol=5e-6)


@pytest.mark.parametrize("kind", ["elmo_word_char", "elmo_char_only", "elmo_word_only"])
def test_elmo_for_many_languages_gives_its_vectors(fixtures: Path, kind: str) -> None:
    folder = fixtures / "elmoformanylangs"
    twin = Twin.of(read_many_languages(folder / kind), dtype=torch.float32)
    texts = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    state = twin.zeros(len(texts))
    with h5py.File(folder / kind / "expected.hdf5") as expected:
        for call in ("first", "second"):
            layers, state = twin.read([texts[i] for i in order], state)
            for i, own in zip(order, layers, strict=True):
                assert_close(own[:, 1:-1], expected[f"{call}_{i}"][()], atol=5e-6)


def some_twin() -> Twin:
    """A model such as the published ones, only smaller."""
    cnn = {"embedding": {"dim": 4}, "filters": [(1, 4), (2, 8), (3, 8)], "activation": "relu", "n_highway": 1}
    lstm = {"projection_dim": 6, "dim": 12, "n_layers": 2, "use_skip_connections": True, "cell_clip": 3, "proj_clip": 3}
    return Twin.of(random_published(1, {"char_cnn": cnn | {"max_characters_per_token": 20}, "lstm": lstm}))


def assert_close(actual: Any, expected: Any, *, atol: float) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)
