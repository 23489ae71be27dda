from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore import Embedder
from elmore.config import tensor_shapes
from elmore.embedding.warm_start import embed_vocabulary
from elmore.errors import ElmoreError, FormatError, NotFound
from elmore.formats import read_checkpoint
from elmore.formats.storage.container import FileContainer
from elmore.formats.token_embeddings import read_token_embeddings, with_token_embeddings, write_token_embeddings
from elmore.model import Model, load
from elmore.sources.tiny_random import tiny_checkpoint
from elmore.text.vocabulary import Vocabulary

WORDS = Vocabulary(["<S>", "</S>", "<UNK>", "a", "bow"])


@pytest.mark.parametrize(
    ("name", "weights", "vectors", "words"),
    [
        ("allennlp", "lm_weights.hdf5", "elmo_token_embeddings.hdf5", 458),
        ("bilm-tf-checkpoint", "expected_weights.hdf5", "expected_token_embeddings.hdf5", 32),
    ],
)
def test_files_of_the_original_program_hold_what_the_encoder_gives(
    fixtures: Path, name: str, weights: str, vectors: str, words: int
) -> None:
    place = fixtures / name
    vocabulary = next(place.glob("vocab*.txt"))
    files = {"options.json": place / "options.json", "weights.hdf5": place / weights, "vocab.txt": vocabulary}
    expected = embed_vocabulary(Model(read_checkpoint(FileContainer(files))))
    found = read_token_embeddings(place / vectors)
    assert found.shape == (words, expected.shape[1])
    assert np.allclose(found, expected, atol=5e-6)


def test_what_is_written_reads_back_bit_equal(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((5, 16), np.float32)
    write_token_embeddings(vectors, tmp_path / "words.hdf5")
    assert np.array_equal(read_token_embeddings(tmp_path / "words.hdf5"), vectors)
    with h5py.File(tmp_path / "words.hdf5") as file:
        assert list(file) == ["embedding"]
        assert file["embedding"].dtype == np.float32


def test_the_table_takes_the_place_of_the_encoder() -> None:
    checkpoint = tiny_checkpoint()
    vectors = np.random.default_rng(0).standard_normal((5, 16), np.float32)
    changed = with_token_embeddings(checkpoint, vectors, WORDS)
    changed.check()
    assert changed.config.characters is None
    assert (changed.config.vocab_size, changed.config.word_embedding_dim, changed.config.token_projection) == (
        5,
        16,
        False,
    )
    assert changed.tensors.keys() == tensor_shapes(changed.config).keys()
    assert np.array_equal(changed.tensors["words.table"], vectors)
    assert all(tensor is checkpoint.tensors[name] for name, tensor in changed.tensors.items() if "lstm" in name)
    assert changed.vocabulary == WORDS
    assert checkpoint.config.characters is not None  # the model it was made from is untouched


def test_a_model_with_its_own_token_embeddings_gives_the_same_vectors(tmp_path: Path) -> None:
    model = Model(replace(tiny_checkpoint(), vocabulary=WORDS))
    write_token_embeddings(embed_vocabulary(model), tmp_path / "words.hdf5")
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS.words))
    table = load("tiny-random", vocabulary=tmp_path / "vocab.txt", token_embeddings=tmp_path / "words.hdf5")
    sentences = [["a", "bow"], ["bow", "bow", "a"]]
    encoded, looked_up = (Embedder(one, device="cpu").encode(sentences, layers="all") for one in (model, table))
    for own, other in zip(encoded, looked_up, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-6)


def test_what_does_not_fit_the_model_is_said() -> None:
    checkpoint = tiny_checkpoint()
    with pytest.raises(FormatError, match="token embeddings have size 15; this model needs 16"):
        with_token_embeddings(checkpoint, np.zeros((5, 15), np.float32), WORDS)
    with pytest.raises(FormatError, match="there are 4 token embeddings for 5 words; give the vocabulary of the file"):
        with_token_embeddings(checkpoint, np.zeros((4, 16), np.float32), WORDS)
    with pytest.raises(FormatError, match="the vocabulary lacks </S>"):
        with_token_embeddings(checkpoint, np.zeros((2, 16), np.float32), Vocabulary(["<S>", "a"]))


def test_what_is_wrong_with_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "words.hdf5"
    with pytest.raises(NotFound, match=r"words\.hdf5: no such file"):
        read_token_embeddings(path)
    path.write_bytes(b"word 0.1 0.2\n" * 100)
    with pytest.raises(FormatError, match=r"words\.hdf5: not an HDF5 file"):
        read_token_embeddings(path)
    for name, values, message in (
        ("vectors", np.zeros((2, 3), np.float32), r"words\.hdf5: contains no array embedding"),
        ("embedding", np.zeros(3, np.float32), r"words\.hdf5: embedding has shape \(3,\); a row for each word"),
        ("embedding", np.full((2, 3), np.nan, np.float32), r"words\.hdf5: embedding contains nan or infinity"),
        ("embedding", np.zeros((2, 3), np.int64), r"words\.hdf5: embedding: contains no floating-point numbers"),
    ):
        with h5py.File(path, "w") as file:
            file[name] = values
        with pytest.raises(ElmoreError, match=message):
            read_token_embeddings(path)
