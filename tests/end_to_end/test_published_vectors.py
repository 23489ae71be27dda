"""Vectors equal those of the original programs, for every format and every variant, by every engine.

The README of the fixtures in `shared` describes how each was made; 5e-6 is the tolerance that it and the design state.
"""

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore import Embedder, load
from elmore.embedding.warm_start import embed_vocabulary
from elmore.engine.native_library import Precision, why_unavailable
from elmore.model import save
from elmore.text.sentence_reader import read_sentences
from elmore.text.vocabulary import Vocabulary
from fixture_variants import VARIANTS

SAME = {"atol": 5e-6, "rtol": 0}


@pytest.fixture(autouse=True, params=["native", "numpy"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine of all models in a test."""
    name: str = request.param
    if name == "numpy":
        # The function hides its module of the same name.
        monkeypatch.setattr(sys.modules["elmore.engine.open_engine"], "why_unavailable", lambda _: "a test")
    elif reason := why_unavailable(Precision.FLOAT32):
        pytest.skip(f"native engine: {reason}")
    return name


def test_embedder_uses_the_engine_of_the_fixture(engine: str) -> None:
    assert Embedder.from_pretrained("tiny-random", device="cpu").engine.name == engine


@pytest.mark.parametrize(("folder", "sentences"), [("allennlp", "sentences"), ("bilm-tf", "lm_embeddings_sentences")])
def test_carried_state_equals_original_test_vectors(fixtures: Path, folder: str, sentences: str) -> None:
    model = Embedder.from_pretrained(fixtures / folder)
    columns = json.loads((fixtures / folder / f"{sentences}.json").read_text())
    in_calling_order = [columns[k][i].split() for i in range(10) for k in range(3)]
    vectors = model.encode(in_calling_order, state="carry", batch_size=3, layers="top")
    for k in range(3):
        with h5py.File(fixtures / folder / f"lm_embeddings_{k}.hdf5") as expected:
            for i in range(10):
                np.testing.assert_allclose(vectors[3 * i + k], np.concatenate(expected[str(i)][...], axis=-1), **SAME)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_equals_bilm_tf(fixtures: Path, variant: str) -> None:
    model = Embedder.from_pretrained(fixtures / "variants" / variant)
    sentences = json.loads((fixtures / "variants" / "sentences.json").read_text())
    expected = np.load(fixtures / "variants" / variant / "expected.npz")
    for number, vectors in enumerate(model.encode(sentences, layers="all")):
        np.testing.assert_allclose(vectors, expected[str(number)], **SAME)


def test_tensorflow_checkpoint_equals_tensorflow(fixtures: Path) -> None:
    folder = fixtures / "bilm-tf-checkpoint"
    sentences = json.loads((folder / "sentences.json").read_text())
    expected = np.load(folder / "expected_embeddings.npz")
    dumped = load(options_file=folder / "inference_options.json", weight_file=folder / "expected_weights.hdf5")
    for model in (Embedder.from_pretrained(folder), Embedder(dumped)):
        for number, vectors in enumerate(model.encode(sentences, layers="all")):
            np.testing.assert_allclose(vectors, expected[str(number)], **SAME)
    assert load(folder).fingerprint() == dumped.fingerprint()


@pytest.mark.parametrize("name", ["elmo_word_char", "elmo_char_only", "elmo_word_only"])
def test_elmoformanylangs_model_equals_original(fixtures: Path, name: str) -> None:
    model = Embedder.from_pretrained(fixtures / "elmoformanylangs" / name)
    sentences = json.loads((fixtures / "elmoformanylangs" / "sentences.json").read_text())
    # The original sorts by decreasing length, and the rows of its state follow that order.
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


def test_nlpl_zip_equals_simple_elmo(fixtures: Path) -> None:
    model = Embedder.from_pretrained(fixtures / "nlpl" / "nlpl_like.zip")
    sentences = json.loads((fixtures / "simple_elmo" / "sentences.json").read_text())
    expected = np.load(fixtures / "simple_elmo" / "vectors.npz")
    # Its warm-up runs the first chunk of three once and discards the result.
    for warmup, stream in ((0, sentences), (1, sentences[:3] + sentences)):
        for layers in ("average", "top", "all"):
            vectors = model.encode(stream, state="carry", batch_size=3, layers=layers)[3 * warmup :]
            for number, words in enumerate(sentences):
                theirs = expected[f"{layers}_warmup{warmup}"][number][..., : len(words), :]
                np.testing.assert_allclose(vectors[number], theirs, **SAME)


def test_seqvec_model_equals_seqvec(fixtures: Path) -> None:
    model = Embedder.from_pretrained(fixtures / "seqvec")
    proteins = {
        sentence.label.split("|")[1]: sentence.words
        for _, sentence in read_sentences(fixtures / "seqvec" / "proteins.fasta", style=model.card.text)
    }
    expected = np.load(fixtures / "seqvec" / "expected.npz")
    for name, residues in proteins.items():
        layers = model.encode([residues], layers="all")[0]
        np.testing.assert_allclose(layers, expected[f"{name}_layers"], **SAME)
        np.testing.assert_allclose(layers.sum(axis=0), expected[f"{name}_residues"], **SAME)
        np.testing.assert_allclose(layers.sum(axis=0).mean(axis=0), expected[f"{name}_protein"], **SAME)


def test_allennlp_state_dict_equals_hdf5_file(fixtures: Path) -> None:
    sentences = [["The", "cat", "sat"], ["Déjà", "vu"]]
    tagger = Embedder.from_pretrained(fixtures / "allennlp" / "simple_tagger_best.th")
    pair = Embedder.from_pretrained(fixtures / "allennlp")
    for ours, theirs in zip(tagger.encode(sentences, layers="all"), pair.encode(sentences, layers="all"), strict=True):
        np.testing.assert_allclose(ours, theirs, **SAME)


def test_embed_vocabulary_equals_dumps_of_originals(fixtures: Path) -> None:
    for folder, vocabulary, dumped in (
        ("allennlp", "vocab_test.txt", "elmo_token_embeddings.hdf5"),
        ("bilm-tf-checkpoint", "vocab.txt", "expected_token_embeddings.hdf5"),
    ):
        model = load(fixtures / folder, vocabulary=fixtures / folder / vocabulary)
        with h5py.File(fixtures / folder / dumped) as expected:
            np.testing.assert_allclose(embed_vocabulary(model), expected["embedding"], **SAME)


def test_precomputed_token_embeddings_equal_character_encoder(fixtures: Path) -> None:
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
def test_converted_model_has_the_same_fingerprint(fixtures: Path, tmp_path: Path, folder: str) -> None:
    original = load(fixtures / folder)
    for target in ("folder", "hdf5"):
        if target == "hdf5" and original.config.num_directions == 1:
            continue  # AllenNLP and bilm-tf cannot read a model of one direction; see tests/formats/test_hdf5.py
        save(original, tmp_path / target, format=target)
        assert load(tmp_path / target).fingerprint() == original.fingerprint()
