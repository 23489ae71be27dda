"""Vectors equal to those that the original programs gave, for every format and every variant.

The fixtures' README in `shared` tells how each was made; 5e-6 is the tolerance that it and the design give.
"""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore import Embedder, load
from elmore.model import save, token_embeddings_of
from elmore.text.reading import read_sentences
from elmore.text.vocabulary import Vocabulary
from fixture_variants import VARIANTS

SAME = {"atol": 5e-6, "rtol": 0}


@pytest.mark.parametrize(("folder", "sentences"), [("allennlp", "sentences"), ("bilm-tf", "lm_embeddings_sentences")])
def test_thirty_sentences_with_carried_state_match_the_original_test_vectors(
    fixtures: Path, folder: str, sentences: str
) -> None:
    model = Embedder.from_pretrained(fixtures / folder)
    columns = json.loads((fixtures / folder / f"{sentences}.json").read_text())
    in_calling_order = [columns[k][i].split() for i in range(10) for k in range(3)]
    vectors = model.encode(in_calling_order, state="carry", batch_size=3, layers="top")
    for k in range(3):
        with h5py.File(fixtures / folder / f"lm_embeddings_{k}.hdf5") as expected:
            for i in range(10):
                np.testing.assert_allclose(vectors[3 * i + k], np.concatenate(expected[str(i)][...], axis=-1), **SAME)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_of_the_network_matches_bilm_tf(fixtures: Path, variant: str) -> None:
    model = Embedder.from_pretrained(fixtures / "variants" / variant)
    sentences = json.loads((fixtures / "variants" / "sentences.json").read_text())
    expected = np.load(fixtures / "variants" / variant / "expected.npz")
    for number, vectors in enumerate(model.encode(sentences, layers="all")):
        np.testing.assert_allclose(vectors, expected[str(number)], **SAME)


def test_a_tensorflow_checkpoint_gives_the_vectors_that_tensorflow_gave(fixtures: Path) -> None:
    folder = fixtures / "bilm-tf-checkpoint"
    sentences = json.loads((folder / "sentences.json").read_text())
    expected = np.load(folder / "expected_embeddings.npz")
    dumped = load(options_file=folder / "inference_options.json", weight_file=folder / "expected_weights.hdf5")
    for model in (Embedder.from_pretrained(folder), Embedder(dumped)):
        for number, vectors in enumerate(model.encode(sentences, layers="all")):
            np.testing.assert_allclose(vectors, expected[str(number)], **SAME)
    assert load(folder).fingerprint() == dumped.fingerprint()


@pytest.mark.parametrize("name", ["elmo_word_char", "elmo_char_only", "elmo_word_only"])
def test_elmoformanylangs_models_give_the_vectors_of_the_original(fixtures: Path, name: str) -> None:
    model = Embedder.from_pretrained(fixtures / "elmoformanylangs" / name)
    sentences = json.loads((fixtures / "elmoformanylangs" / "sentences.json").read_text())
    # The original sorts by falling length, and its state rows follow that order.
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    rows = [sentences[number] for number in order]
    twice = model.encode(rows + rows, state="carry", batch_size=len(rows), layers="all")
    average = model.encode(sentences)
    single = model.encode(sentences[:3], state="carry", batch_size=1, layers="all")
    with h5py.File(fixtures / "elmoformanylangs" / name / "expected.hdf5") as expected:
        for row, number in enumerate(order):
            np.testing.assert_allclose(twice[row], expected[f"first_{number}"], **SAME)
            np.testing.assert_allclose(twice[row + len(rows)], expected[f"second_{number}"], **SAME)
            np.testing.assert_allclose(average[number], expected[f"default_{number}"], **SAME)
        for number in range(3):
            np.testing.assert_allclose(single[number], expected[f"single_{number}"], **SAME)


def test_an_nlpl_zip_gives_the_vectors_of_simple_elmo(fixtures: Path) -> None:
    model = Embedder.from_pretrained(fixtures / "nlpl" / "nlpl_like.zip")
    sentences = json.loads((fixtures / "simple_elmo" / "sentences.json").read_text())
    expected = np.load(fixtures / "simple_elmo" / "vectors.npz")
    # Its warm-up runs the first chunk of three once and throws the result away.
    for warmup, stream in ((0, sentences), (1, sentences[:3] + sentences)):
        for layers in ("average", "top", "all"):
            vectors = model.encode(stream, state="carry", batch_size=3, layers=layers)[3 * warmup :]
            for number, words in enumerate(sentences):
                theirs = expected[f"{layers}_warmup{warmup}"][number][..., : len(words), :]
                np.testing.assert_allclose(vectors[number], theirs, **SAME)


def test_a_seqvec_model_gives_residues_and_proteins_as_seqvec_did(fixtures: Path) -> None:
    model = Embedder.from_pretrained(fixtures / "seqvec")
    proteins = {
        sentence.label.split("|")[1]: sentence.words
        for _, sentence in read_sentences(fixtures / "seqvec" / "proteins.fasta", style=model.model.card.text)
    }
    expected = np.load(fixtures / "seqvec" / "expected.npz")
    for name, residues in proteins.items():
        layers = model.encode([residues], layers="all")[0]
        np.testing.assert_allclose(layers, expected[f"{name}_layers"], **SAME)
        np.testing.assert_allclose(layers.sum(axis=0), expected[f"{name}_residues"], **SAME)
        np.testing.assert_allclose(layers.sum(axis=0).mean(axis=0), expected[f"{name}_protein"], **SAME)


def test_an_allennlp_state_dict_holds_the_same_model_as_the_hdf5_file(fixtures: Path) -> None:
    sentences = [["The", "cat", "sat"], ["Déjà", "vu"]]
    tagger = Embedder.from_pretrained(fixtures / "allennlp" / "simple_tagger_best.th")
    pair = Embedder.from_pretrained(fixtures / "allennlp")
    for ours, theirs in zip(tagger.encode(sentences, layers="all"), pair.encode(sentences, layers="all"), strict=True):
        np.testing.assert_allclose(ours, theirs, **SAME)


def test_token_embeddings_equal_those_the_originals_dumped(fixtures: Path) -> None:
    for folder, vocabulary, dumped in (
        ("allennlp", "vocab_test.txt", "elmo_token_embeddings.hdf5"),
        ("bilm-tf-checkpoint", "vocab.txt", "expected_token_embeddings.hdf5"),
    ):
        model = load(fixtures / folder, vocabulary=fixtures / folder / vocabulary)
        with h5py.File(fixtures / folder / dumped) as expected:
            np.testing.assert_allclose(token_embeddings_of(model), expected["embedding"], **SAME)


def test_precomputed_token_embeddings_stand_in_for_the_characters(fixtures: Path) -> None:
    folder = fixtures / "allennlp"
    words = Vocabulary.read(folder / "vocab_test.txt")
    cached = Embedder(
        load(
            folder,
            vocabulary=folder / "vocab_test.txt",
            token_embeddings=folder / "elmo_token_embeddings.hdf5",
        )
    )
    known = [word for word in words.words if word not in ("<S>", "</S>")][:12]
    characters = Embedder.from_pretrained(folder)
    np.testing.assert_allclose(
        cached.encode([known], layers="all")[0], characters.encode([known], layers="all")[0], **SAME
    )


@pytest.mark.parametrize("folder", ["allennlp", "bilm-tf", *(f"variants/{v}" for v in VARIANTS)])
def test_a_converted_model_gives_the_same_bits(fixtures: Path, tmp_path: Path, folder: str) -> None:
    original = load(fixtures / folder)
    for target in ("folder", "hdf5"):
        if target == "hdf5" and original.config.num_directions == 1:
            continue  # AllenNLP and bilm-tf read no one-way model; tests/formats/test_hdf5.py has the refusal
        save(original, tmp_path / target, format=target)
        assert load(tmp_path / target).fingerprint() == original.fingerprint()
