"""The NumPy reference gives the vectors of the original programs, for every set of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fixture_variants import VARIANTS, WORD_VARIANTS
from reference import Array, CarriedRows, PublishedModel, masked_batch_norm, mix, read_many_languages, read_published
from reference.published import read_vocabulary

ATOL = 5e-6  # the originals computed in float32

# Scalars and gamma of the mixes, as the README of the fixtures has them.
FIRST_MIX = ([0.1, 0.3, 0.5], 1.1)
SECOND_MIX = ([0.2, -0.4, 0.6], 0.88)

Sentences = list[list[str]]


@pytest.fixture(scope="module")
def allennlp(fixtures: Path) -> PublishedModel:
    """The model that most of the vectors were made with."""
    return read_published(fixtures / "allennlp" / "options.json", fixtures / "allennlp" / "lm_weights.hdf5")


@pytest.fixture(scope="module")
def mixed_sentences(fixtures: Path) -> Sentences:
    return read_sentences(fixtures / "mixes" / "sentences.json")


@pytest.fixture(scope="module")
def of_allennlp(fixtures: Path) -> dict[str, Any]:
    return read_arrays(fixtures / "mixes" / "allennlp_0.9.npz")


@pytest.fixture(scope="module")
def of_bilm_tf(fixtures: Path) -> dict[str, Any]:
    return read_arrays(fixtures / "mixes" / "bilm_tf.npz")


@pytest.mark.parametrize(("source", "sentences"), [("allennlp", "sentences"), ("bilm-tf", "lm_embeddings_sentences")])
def test_thirty_sentences_in_ten_carried_calls(fixtures: Path, source: str, sentences: str) -> None:
    folder = fixtures / source
    rows = CarriedRows(read_published(folder / "options.json", folder / "lm_weights.hdf5").network())
    columns = json.loads((folder / f"{sentences}.json").read_text(encoding="utf-8"))
    expected = [read_datasets(folder / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    for i in range(10):
        layers = rows.read([columns[k][i].split() for k in range(3)])
        for k in range(3):
            forward, backward = expected[k][str(i)]
            assert_close(layers[k][-1], np.concatenate([forward, backward], axis=-1))


@pytest.mark.parametrize(
    ("folder", "options", "weights", "vocabulary", "expected"),
    [
        ("allennlp", "options", "lm_weights", "vocab_test", "elmo_token_embeddings"),
        ("bilm-tf-checkpoint", "inference_options", "expected_weights", "vocab", "expected_token_embeddings"),
    ],
)
def test_token_vectors_of_a_vocabulary(
    fixtures: Path, folder: str, options: str, weights: str, vocabulary: str, expected: str
) -> None:
    place = fixtures / folder
    model = read_published(place / f"{options}.json", place / f"{weights}.hdf5")
    vectors = [model.token_vector(word) for word in read_vocabulary(place / f"{vocabulary}.txt")]
    assert_close(vectors, read_datasets(place / f"{expected}.hdf5")["embedding"])


def test_a_dumped_checkpoint_in_one_batch(fixtures: Path) -> None:
    folder = fixtures / "bilm-tf-checkpoint"
    model = read_published(folder / "inference_options.json", folder / "expected_weights.hdf5")
    expected = read_arrays(folder / "expected_embeddings.npz")
    for i, layers in enumerate(CarriedRows(model.network()).read(read_sentences(folder / "sentences.json"))):
        assert_close(layers, expected[str(i)])


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_that_bilm_tf_dumps(fixtures: Path, variant: str) -> None:
    folder = fixtures / "variants" / variant
    vocabulary = folder / "vocab.txt" if variant in WORD_VARIANTS else None
    model = read_published(folder / "options.json", folder / "weights.hdf5", vocabulary)
    sentences = read_sentences(fixtures / "variants" / "sentences.json")
    expected = read_arrays(folder / "expected.npz")
    for row, layers in enumerate(CarriedRows(model.network()).read(sentences)):
        ids = [model.input_ids(token) for token in ("<S>", *sentences[row], "</S>")]
        assert expected["ids"][row, : len(ids)].tolist() == ids
        assert_close(layers, expected[str(row)])


def test_character_ids_of_allennlp(
    allennlp: PublishedModel, mixed_sentences: Sentences, of_allennlp: dict[str, Any]
) -> None:
    for ids, tokens in zip(of_allennlp["char_ids"], mixed_sentences, strict=True):
        assert ids[: len(tokens)].tolist() == [allennlp.input_ids(token) for token in tokens]
        assert not ids[len(tokens) :].any()


def test_layers_of_allennlp_with_boundaries(
    allennlp: PublishedModel, mixed_sentences: Sentences, of_allennlp: dict[str, Any]
) -> None:
    for row, layers in enumerate(CarriedRows(allennlp.network()).read(mixed_sentences, boundaries=True)):
        assert of_allennlp["bilm_mask"][row].sum() == layers.shape[1]
        for k, layer in enumerate(layers):
            assert_close(layer, of_allennlp[f"bilm_layer{k}"][row, : len(layer)])


def test_layers_of_allennlp_with_cached_words(
    allennlp: PublishedModel, fixtures: Path, of_allennlp: dict[str, Any]
) -> None:
    cached = json.loads((fixtures / "mixes" / "cached_words.json").read_text(encoding="utf-8"))
    sentences = [[cached[number] for number in row if number > 0] for row in of_allennlp["cached_word_ids"]]
    assert sentences[0][1] == "@@UNKNOWN@@"
    for row, layers in enumerate(CarriedRows(allennlp.network()).read(sentences, boundaries=True)):
        for k, layer in enumerate(layers):
            assert_close(layer, of_allennlp[f"cached_layer{k}"][row, : len(layer)])


@pytest.mark.parametrize(("number", "parameters"), [(0, FIRST_MIX), (1, SECOND_MIX)])
def test_mixes_of_allennlp(
    allennlp: PublishedModel,
    mixed_sentences: Sentences,
    of_allennlp: dict[str, Any],
    number: int,
    parameters: tuple[list[float], float],
) -> None:
    batch = CarriedRows(allennlp.network()).read(mixed_sentences, boundaries=True)
    for kind, layers in (("plain", batch), ("norm", normalized(batch))):
        for row, own in enumerate(layers):
            mixed = mix(list(own), *parameters)
            assert_close(mixed, of_allennlp[f"{kind}_boundaries_rep{number}"][row, : len(mixed)])
            assert_close(mixed[1:-1], of_allennlp[f"{kind}_rep{number}"][row, : len(mixed) - 2])


def test_four_calls_of_allennlp_with_changing_batches(
    allennlp: PublishedModel, mixed_sentences: Sentences, of_allennlp: dict[str, Any]
) -> None:
    rows = CarriedRows(allennlp.network())
    calls = [
        (mixed_sentences, "plain_rep0"),
        (mixed_sentences, "second_call_plain_rep0"),
        (mixed_sentences[1:], "third_call_rows_1_2_as_batch_of_2_rep0"),
        (mixed_sentences, "fourth_call_plain_rep0"),
    ]
    for sentences, name in calls:
        for row, layers in enumerate(rows.read(sentences)):
            assert_close(mix(list(layers), *FIRST_MIX), of_allennlp[name][row, : layers.shape[1]])


def test_four_dimensional_input_of_allennlp_is_rows_one_after_the_other(
    allennlp: PublishedModel, mixed_sentences: Sentences, of_allennlp: dict[str, Any]
) -> None:
    flat = [tokens for pair in zip(mixed_sentences, reversed(mixed_sentences), strict=True) for tokens in pair]
    for row, layers in enumerate(CarriedRows(allennlp.network()).read(flat)):
        mixed = of_allennlp["reset_4d_rep0"][row // 2, row % 2]
        assert_close(mix(list(layers), *FIRST_MIX), mixed[: layers.shape[1]])


def test_ids_and_token_vectors_of_bilm_tf(
    allennlp: PublishedModel, mixed_sentences: Sentences, of_bilm_tf: dict[str, Any]
) -> None:
    for row, tokens in enumerate(mixed_sentences):
        padded = ["<S>", *tokens, "</S>"]
        vectors = [allennlp.token_vector(token) for token in padded]
        assert of_bilm_tf["char_ids"][row, : len(padded)].tolist() == [allennlp.input_ids(token) for token in padded]
        assert_close(vectors, of_bilm_tf["token_embeddings"][row, : len(padded)])


def test_four_calls_of_bilm_tf_with_changing_batches(
    allennlp: PublishedModel, mixed_sentences: Sentences, of_bilm_tf: dict[str, Any]
) -> None:
    rows = CarriedRows(allennlp.network())
    calls = [
        (mixed_sentences, "lm_embeddings"),
        (mixed_sentences, "second_call_lm_embeddings"),
        (mixed_sentences[1:], "third_call_rows_1_2_as_batch_of_2"),
        (mixed_sentences, "fourth_call_lm_embeddings"),
    ]
    for sentences, name in calls:
        for row, layers in enumerate(rows.read(sentences)):
            assert_close(layers, of_bilm_tf[name][row, :, : layers.shape[1]])


def test_mixes_of_bilm_tf(allennlp: PublishedModel, mixed_sentences: Sentences, of_bilm_tf: dict[str, Any]) -> None:
    batch = CarriedRows(allennlp.network()).read(mixed_sentences)
    scalars, gamma = FIRST_MIX
    for row, (layers, normal) in enumerate(zip(batch, normalized(batch), strict=True)):
        n = layers.shape[1]
        assert_close(mix(list(layers), scalars, gamma), of_bilm_tf["mix"][row, :n])
        assert_close(mix(list(normal), scalars, gamma), of_bilm_tf["mix_norm"][row, :n])
        assert_close(gamma * layers[-1], of_bilm_tf["top"][row, :n])


@pytest.mark.parametrize(
    ("name", "batch_size"),
    [("all", 64), ("all_forget_sentences", 64), ("all_batch_size_2", 2), ("bilm_tf_dump_bilm_embeddings", 1)],
)
def test_files_of_the_allennlp_command_with_all_layers(
    allennlp: PublishedModel, fixtures: Path, name: str, batch_size: int
) -> None:
    lines = read_lines(fixtures / "allennlp-cli" / "sentences.txt")
    expected = read_datasets(fixtures / "allennlp-cli" / f"{name}.hdf5")
    rows = CarriedRows(allennlp.network())
    for start in range(0, len(lines), batch_size):
        for number, layers in enumerate(rows.read(lines[start : start + batch_size]), start):
            assert_close(layers, expected[str(number)])


def test_files_of_the_allennlp_command_in_its_other_modes(allennlp: PublishedModel, fixtures: Path) -> None:
    folder = fixtures / "allennlp-cli"
    by_sentence = read_datasets(folder / "all_use_sentence_keys.hdf5")
    top, average = read_datasets(folder / "top.hdf5"), read_datasets(folder / "average.hdf5")
    lines = read_lines(folder / "sentences.txt")
    for number, layers in enumerate(CarriedRows(allennlp.network()).read(lines)):
        assert_close(layers, by_sentence[" ".join(lines[number])])
        assert_close(layers[-1], top[str(number)])
        assert_close(layers.mean(axis=0), average[str(number)])


@pytest.mark.parametrize("warm", [True, False])
def test_simple_elmo_with_and_without_its_warm_up(allennlp: PublishedModel, fixtures: Path, warm: bool) -> None:
    sentences = read_sentences(fixtures / "simple_elmo" / "sentences.json")
    expected = read_arrays(fixtures / "simple_elmo" / "vectors.npz")
    rows = CarriedRows(allennlp.network())
    if warm:
        rows.read(sentences[:3])
    for row, layers in enumerate(rows.read(sentences[:3]) + rows.read(sentences[3:])):
        n = layers.shape[1]
        assert_close(layers, expected[f"all_warmup{warm:d}"][row, :, :n])
        assert_close(layers[-1], expected[f"top_warmup{warm:d}"][row, :n])
        assert_close(layers.mean(axis=0), expected[f"average_warmup{warm:d}"][row, :n])


def test_proteins_letter_by_letter(fixtures: Path) -> None:
    folder = fixtures / "seqvec"
    network = read_published(folder / "options.json", folder / "weights.hdf5").network()
    fasta = (folder / "proteins.fasta").read_text(encoding="utf-8").split()
    proteins = {header.split("|")[1]: list(letters) for header, letters in zip(fasta[::2], fasta[1::2], strict=True)}
    shortest_first = ["P3", "P2", "P1"]
    expected = read_arrays(folder / "expected.npz")
    batch = CarriedRows(network).read([proteins[name] for name in shortest_first])
    for name, layers in zip(shortest_first, batch, strict=True):
        assert_close(layers, expected[f"{name}_layers"])
        assert_close(layers.sum(axis=0), expected[f"{name}_residues"])
        assert_close(layers.sum(axis=0).mean(axis=0), expected[f"{name}_protein"])


@pytest.mark.parametrize("kind", ["elmo_word_char", "elmo_char_only", "elmo_word_only"])
def test_elmo_for_many_languages(fixtures: Path, kind: str) -> None:
    folder = fixtures / "elmoformanylangs"
    network = read_many_languages(folder / kind).network()
    sentences = read_sentences(folder / "sentences.json")
    expected = read_datasets(folder / kind / "expected.hdf5")
    # Rows of the state follow the order by falling length.
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
    rows = CarriedRows(network)
    for call in ("first", "second"):
        for i, layers in zip(order, rows.read([sentences[i] for i in order]), strict=True):
            assert_close(layers, expected[f"{call}_{i}"])
            if call == "first":
                assert_close(layers.mean(axis=0), expected[f"default_{i}"])
    alone = CarriedRows(network)
    for i in range(3):
        assert_close(alone.read([sentences[i]])[0], expected[f"single_{i}"])


def assert_close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=ATOL)


def normalized(batch: Sequence[Array]) -> list[Array]:
    """Each layer of a batch normalised over all its sentences; the layers of each sentence again."""
    layers = [masked_batch_norm([sentence[k] for sentence in batch]) for k in range(len(batch[0]))]
    return [np.array([layer[row] for layer in layers]) for row in range(len(batch))]


def read_sentences(path: Path) -> Sentences:
    return [list(tokens) for tokens in json.loads(path.read_text(encoding="utf-8"))]


def read_lines(path: Path) -> Sentences:
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines()]


def read_arrays(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return dict(file)


def read_datasets(path: Path) -> dict[str, Any]:
    with h5py.File(path) as file:
        return {name: dataset[()] for name, dataset in file.items()}
