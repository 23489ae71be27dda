import json
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from elmore.compat.allennlp import ElmoEmbedder
from elmore.errors import InputError

SENTENCES = [["I", "took", "a", "bow"], ["Me", "too"], ["So", "did", "she"]]
TOLERANCE = 5e-6


def test_proteins_are_those_of_allennlp(fixtures: Path) -> None:
    folder = fixtures / "seqvec"
    records = (folder / "proteins.fasta").read_text(encoding="utf-8").split(">")[1:]
    proteins = {head.split("|")[1]: "".join(rest) for head, *rest in (record.splitlines() for record in records)}
    embedder = ElmoEmbedder(folder / "options.json", folder / "weights.hdf5", cuda_device=-1)
    names = sorted(proteins, key=lambda name: len(proteins[name]))
    with np.load(folder / "expected.npz") as expected:
        embedded = embedder.embed_sentences([list(proteins[name]) for name in names])
        for name, layers in zip(names, embedded, strict=True):
            assert_close(layers, expected[f"{name}_layers"])
            assert_close(layers.sum(axis=0), expected[f"{name}_residues"], factor=3)
            assert_close(layers.sum(axis=0).mean(axis=0), expected[f"{name}_protein"], factor=3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("all", {}),
        ("top", {"output_format": "top"}),
        ("average", {"output_format": "average"}),
        ("all_batch_size_2", {"batch_size": 2}),
        ("all_forget_sentences", {"forget_sentences": True}),
        ("all_use_sentence_keys", {"use_sentence_keys": True}),
    ],
)
def test_files_are_those_of_the_allennlp_command(
    fixtures: Path, allennlp_pair: Any, tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    folder = fixtures / "allennlp-cli"
    with (folder / "sentences.txt").open(encoding="utf-8") as lines:
        ElmoEmbedder(*allennlp_pair).embed_file(lines, str(tmp_path / "vectors.hdf5"), **options)
    with h5py.File(tmp_path / "vectors.hdf5") as ours, h5py.File(folder / f"{name}.hdf5") as theirs:
        assert set(ours) == set(theirs)
        for key in theirs:
            assert ours[key].dtype == theirs[key].dtype
            assert ours[key].shape == theirs[key].shape
            if key == "sentence_to_index":
                assert ours[key][0] == theirs[key][0]
            else:
                assert_close(ours[key][...], theirs[key][...])


def test_a_line_keeps_its_blanks_as_key_and_loses_those_around_it(tiny_pair: Any, tmp_path: Path) -> None:
    ElmoEmbedder(*tiny_pair).embed_file(StringIO("  one  two\tthree \nfour\n"), tmp_path / "vectors.hdf5")
    with h5py.File(tmp_path / "vectors.hdf5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"one  two\tthree": "0", "four": "1"}
        assert file["0"].shape == (3, 3, 32)


def test_of_equal_lines_the_last_has_the_number(tiny_pair: Any, tmp_path: Path) -> None:
    ElmoEmbedder(*tiny_pair).embed_file(StringIO("one\ntwo\none\n"), tmp_path / "vectors.hdf5")
    with h5py.File(tmp_path / "vectors.hdf5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"one": "2", "two": "1"}
        assert set(file) == {"0", "1", "2", "sentence_to_index"}


def test_arrays_have_layers_words_and_size(tiny_pair: Any) -> None:
    embedder = ElmoEmbedder(*tiny_pair)
    assert embedder.embed_sentence(SENTENCES[0]).shape == (3, 4, 32)
    assert [array.shape for array in embedder.embed_batch(SENTENCES)] == [(3, 4, 32), (3, 2, 32), (3, 3, 32)]
    embeddings, mask = embedder.batch_to_embeddings(SENTENCES)
    assert embeddings.shape == (3, 3, 4, 32)
    assert mask.dtype == torch.bool
    assert mask.sum(dim=1).tolist() == [4, 2, 3]
    assert not embeddings[1, :, 2:].any()


def test_the_state_is_carried_from_batch_to_batch(tiny_pair: Any) -> None:
    embedder = ElmoEmbedder(*tiny_pair)
    first, second = embedder.embed_sentences([SENTENCES[0]] * 2, batch_size=1)
    assert np.array_equal(first[0], second[0])
    assert np.abs(first - second).max() > 1e-3
    embedder.elmo_bilm.reset_states()
    assert np.array_equal(embedder.embed_sentence(SENTENCES[0]), first)


def test_sentences_are_embedded_as_they_are_asked_for(tiny_pair: Any) -> None:
    taken = []

    def endless() -> Any:
        while True:
            taken.append(1)
            yield SENTENCES[1]

    stream = ElmoEmbedder(*tiny_pair).embed_sentences(endless(), batch_size=3)
    next(stream)
    assert len(taken) == 3


def test_an_empty_sentence_has_no_vectors(tiny_pair: Any) -> None:
    embedder = ElmoEmbedder(*tiny_pair)
    assert embedder.embed_sentence([]).shape == (3, 0, 32)
    assert [array.shape for array in embedder.embed_batch([[], ["a"]])] == [(3, 0, 32), (3, 1, 32)]
    assert embedder.embed_batch([]) == []
    assert list(embedder.embed_sentences([])) == []


def test_a_sentence_without_words_is_forgotten(tiny_pair: Any) -> None:
    embedder, other = ElmoEmbedder(*tiny_pair), ElmoEmbedder(*tiny_pair)
    embedder.embed_sentence([])
    assert np.array_equal(embedder.embed_sentence(["a"]), other.embed_sentence(["a"]))


def test_a_string_is_not_taken_for_a_list_of_words(tiny_pair: Any) -> None:
    embedder = ElmoEmbedder(*tiny_pair)
    for embed in (embedder.embed_sentence, embedder.embed_batch, lambda s: list(embedder.embed_sentences([s]))):
        with pytest.raises(InputError, match="string 'I took a bow'"):
            embed("I took a bow")


@pytest.mark.parametrize(
    ("file", "options", "complaint"),
    [
        ("sentences.txt", {}, "takes an open file"),
        (BytesIO(b"one\ntwo\n"), {}, "open it as text"),
        (StringIO("one\n\ntwo\n \n"), {}, "counted from 0, are: 1, 3"),
        (StringIO("one\n"), {"output_format": "bottom"}, "one of all, top, average"),
        (StringIO("one\n"), {"batch_size": 0}, "at least 1"),
        (StringIO("one\ntwo\none\n"), {"use_sentence_keys": True}, "twice .* 'one'"),
        (StringIO("one\none/two\n"), {"use_sentence_keys": True}, "cannot be the name of a dataset"),
    ],
)
def test_what_cannot_be_embedded_leaves_no_file(
    tiny_pair: Any, tmp_path: Path, file: Any, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        ElmoEmbedder(*tiny_pair).embed_file(file, tmp_path / "vectors.hdf5", **options)
    assert list(tmp_path.iterdir()) == []


def assert_close(actual: Any, expected: Any, *, factor: float = 1) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=factor * TOLERANCE)
