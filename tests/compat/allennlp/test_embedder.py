import copy
import json
import pickle
from collections.abc import Iterator
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from elmore.compat.allennlp import ElmoEmbedder, _ElmoBiLm, batch_to_ids
from elmore.errors import ElmoreError, InputError

SENTENCES = [["I", "took", "a", "bow"], ["Me", "too"], ["So", "did", "she"]]
TOLERANCE = 5e-6


def test_embed_sentences_equals_allennlp_on_proteins(fixtures: Path) -> None:
    folder = fixtures / "seqvec"
    records = (folder / "proteins.fasta").read_text(encoding="utf-8").split(">")[1:]
    proteins = {head.split("|")[1]: "".join(rest) for head, *rest in (record.splitlines() for record in records)}
    embedder = ElmoEmbedder(folder / "options.json", folder / "weights.hdf5", cuda_device=-1)
    names = sorted(proteins, key=lambda name: len(proteins[name]))
    with np.load(folder / "expected.npz") as expected:
        embedded = embedder.embed_sentences([list(proteins[name]) for name in names])
        for name, layers in zip(names, embedded, strict=True):
            assert layers.dtype == np.float32
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
def test_embed_file_equals_allennlp_command(
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


def test_embed_file_strips_lines_and_preserves_inner_spaces_in_keys(tiny_pair: Any, tmp_path: Path) -> None:
    ElmoEmbedder(*tiny_pair).embed_file(StringIO("  one  two\tthree \nfour\n"), tmp_path / "vectors.hdf5")
    with h5py.File(tmp_path / "vectors.hdf5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"one  two\tthree": "0", "four": "1"}
        assert file["0"].shape == (3, 3, 32)


def test_embed_file_maps_equal_lines_to_the_last_number(tiny_pair: Any, tmp_path: Path) -> None:
    ElmoEmbedder(*tiny_pair).embed_file(StringIO("one\ntwo\none\n"), tmp_path / "vectors.hdf5")
    with h5py.File(tmp_path / "vectors.hdf5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"one": "2", "two": "1"}
        assert set(file) == {"0", "1", "2", "sentence_to_index"}


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        ("sentences.txt", {}, "takes an open file"),
        (BytesIO(b"one\ntwo\n"), {}, "open it as text"),
        (StringIO("one\n\ntwo\n \n"), {}, "counted from 0: 1, 3"),
        (StringIO("one\n"), {"output_format": "bottom"}, "one of all, top, average"),
        (StringIO("one\n"), {"batch_size": 0}, "at least 1"),
        (StringIO("one\ntwo\none\n"), {"use_sentence_keys": True}, "occurs twice: 'one'"),
        (StringIO("one\none/two\n"), {"use_sentence_keys": True}, "cannot be the name of a dataset"),
    ],
)
def test_embed_file_with_wrong_input_leaves_no_file(
    tiny_pair: Any, tmp_path: Path, file: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ElmoEmbedder(*tiny_pair).embed_file(file, tmp_path / "vectors.hdf5", **options)
    assert list(tmp_path.iterdir()) == []


def test_embed_batch_returns_layers_words_dim(tiny_pair: Any) -> None:
    embedder = ElmoEmbedder(*tiny_pair)
    assert embedder.embed_sentence(SENTENCES[0]).shape == (3, 4, 32)
    assert [array.shape for array in embedder.embed_batch(SENTENCES)] == [(3, 4, 32), (3, 2, 32), (3, 3, 32)]


def test_embed_batch_returns_arrays_that_own_their_memory(tiny_pair: Any) -> None:
    for vectors in ElmoEmbedder(*tiny_pair).embed_batch([*SENTENCES, []]):
        assert vectors.base is None


def test_batch_to_embeddings_returns_padded_tensors_and_mask(tiny_pair: Any) -> None:
    embeddings, mask = ElmoEmbedder(*tiny_pair).batch_to_embeddings(SENTENCES)
    assert isinstance(embeddings, torch.Tensor)
    assert embeddings.shape == (3, 3, 4, 32)
    assert mask.dtype == torch.bool
    assert mask.sum(dim=1).tolist() == [4, 2, 3]
    assert not embeddings[1, :, 2:].any()
    for vectors, padded in zip(ElmoEmbedder(*tiny_pair).embed_batch(SENTENCES), embeddings, strict=True):
        np.testing.assert_array_equal(padded[:, : vectors.shape[1]].numpy(), vectors)


def test_batch_to_embeddings_rejects_an_empty_batch(tiny_pair: Any) -> None:
    with pytest.raises(InputError, match="contains no sentence"):
        ElmoEmbedder(*tiny_pair).batch_to_embeddings([])


def test_embed_sentences_carries_state_until_reset(tiny_pair: Any) -> None:
    embedder = ElmoEmbedder(*tiny_pair)
    first, second = embedder.embed_sentences([SENTENCES[0]] * 2, batch_size=1)
    assert np.array_equal(first[0], second[0])
    assert np.abs(first - second).max() > 1e-3
    embedder.elmo_bilm.reset_states()
    assert np.array_equal(embedder.embed_sentence(SENTENCES[0]), first)


def test_embed_batch_continues_each_row_where_it_ended(tiny_pair: Any) -> None:
    batch, alone = ElmoEmbedder(*tiny_pair), ElmoEmbedder(*tiny_pair)
    for sentences in (SENTENCES, SENTENCES[::-1]):
        # Lengths differ between the calls, so rows are sorted differently.
        row = batch.embed_batch(sentences)[0]
        assert_close(row, alone.embed_sentence(sentences[0]))


def test_embed_batch_with_fewer_rows_preserves_state_of_others(tiny_pair: Any) -> None:
    embedder, direct = ElmoEmbedder(*tiny_pair), ElmoEmbedder(*tiny_pair)
    for each in (embedder, direct):
        each.embed_batch(SENTENCES)
    embedder.embed_batch(SENTENCES[:1])
    later, expected = (each.embed_batch(SENTENCES) for each in (embedder, direct))
    for row in (1, 2):
        assert_close(later[row], expected[row])
    assert np.abs(later[0] - expected[0]).max() > 1e-3


@pytest.mark.parametrize("mask", [[True, False, True], np.array([1, 0, 1]), torch.tensor([True, False, True])])
def test_reset_states_with_mask_resets_only_those_rows(tiny_pair: Any, mask: Any) -> None:
    embedder = ElmoEmbedder(*tiny_pair)
    fresh, carried = embedder.embed_batch(SENTENCES), embedder.embed_batch(SENTENCES)
    embedder.elmo_bilm.reset_states()
    embedder.embed_batch(SENTENCES)
    embedder.elmo_bilm.reset_states(mask)
    mixed = embedder.embed_batch(SENTENCES)
    assert_close(mixed[0], fresh[0])
    assert_close(mixed[1], carried[1])
    assert_close(mixed[2], fresh[2])


def test_reset_states_rejects_a_mask_of_another_size(tiny_pair: Any) -> None:
    embedder = ElmoEmbedder(*tiny_pair)
    embedder.embed_batch(SENTENCES)
    with pytest.raises(InputError, match=r"the mask has shape \(1,\); 3 rows have a state"):
        embedder.elmo_bilm.reset_states([True])


def test_elmo_bilm_has_the_carried_state_under_allennlps_name(tiny_pair: Any) -> None:
    embedder = ElmoEmbedder(*tiny_pair)
    first = embedder.embed_sentence(SENTENCES[0])
    embedder.elmo_bilm._elmo_lstm.reset_states()
    assert np.array_equal(embedder.embed_sentence(SENTENCES[0]), first)
    embedder.elmo_bilm.reset_states()
    embedder.elmo_bilm._elmo_lstm.stateful = False
    for _ in range(2):
        assert np.array_equal(embedder.embed_sentence(SENTENCES[0]), first)


def test_elmo_bilm_has_the_methods_of_a_module_for_inference(tiny_pair: Any) -> None:
    bilm = ElmoEmbedder(*tiny_pair).elmo_bilm
    assert bilm.eval() is bilm.train() is bilm.cpu() is bilm.to("cpu") is bilm
    assert (bilm.num_layers, bilm.get_output_dim(), bilm.device) == (3, 32, "cpu")
    with pytest.raises(AttributeError, match=r"no 'parameters'; the torch module is .*_ElmoBiLm"):
        bilm.parameters()


@pytest.mark.skipif(torch.cuda.is_available(), reason="tests the error where there is no GPU")
def test_elmo_bilm_stays_usable_after_a_failed_move(tiny_pair: Any) -> None:
    embedder, other = ElmoEmbedder(*tiny_pair), ElmoEmbedder(*tiny_pair)
    embedder.embed_batch(SENTENCES)
    other.embed_batch(SENTENCES)
    for move in (embedder.elmo_bilm.cuda, lambda: embedder.elmo_bilm.cuda(1), lambda: embedder.elmo_bilm.to("tpu")):
        with pytest.raises(ElmoreError, match="device"):
            move()
    assert embedder.elmo_bilm.device == "cpu"
    for ours, expected in zip(embedder.embed_batch(SENTENCES), other.embed_batch(SENTENCES), strict=True):
        assert np.array_equal(ours, expected)


@pytest.mark.skipif(torch.cuda.is_available(), reason="tests the error where there is no GPU")
def test_embedder_rejects_a_gpu_that_is_missing(tiny_pair: Any) -> None:
    with pytest.raises(ElmoreError, match="cuda:3"):
        ElmoEmbedder(*tiny_pair, cuda_device=3)


def test_elmo_bilm_call_equals_the_torch_module(tiny_pair: Any) -> None:
    ours, module = ElmoEmbedder(*tiny_pair).elmo_bilm, _ElmoBiLm(*tiny_pair)
    ids = torch.nn.functional.pad(batch_to_ids([*SENTENCES, []]), (0, 0, 0, 3))  # wider than the longest sentence
    for _ in range(2):  # the second call continues with the state of the first
        found, expected = ours(ids), module(ids)
        assert torch.equal(found["mask"], expected["mask"])
        for one, other in zip(found["activations"], expected["activations"], strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE)


def test_elmo_bilm_call_shares_the_state_of_embed_batch(tiny_pair: Any) -> None:
    embedder, other = ElmoEmbedder(*tiny_pair), ElmoEmbedder(*tiny_pair)
    embedder.elmo_bilm(batch_to_ids(SENTENCES))
    other.embed_batch(SENTENCES)
    for ours, expected in zip(embedder.embed_batch(SENTENCES), other.embed_batch(SENTENCES), strict=True):
        assert_close(ours, expected)


def test_elmo_bilm_call_rejects_an_id_of_0_inside_a_word(tiny_pair: Any) -> None:
    ids = batch_to_ids(SENTENCES)
    ids[0, 1, 2] = 0
    with pytest.raises(InputError, match="_ElmoBiLm"):
        ElmoEmbedder(*tiny_pair).elmo_bilm(ids)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda embedder: pickle.loads(pickle.dumps(embedder))])
def test_copied_embedder_continues_with_its_own_state(tiny_pair: Any, copied: Any) -> None:
    embedder = ElmoEmbedder(*tiny_pair)
    embedder.embed_batch(SENTENCES)
    other = copied(embedder)
    expected = embedder.embed_batch(SENTENCES)
    for ours, theirs in zip(other.embed_batch(SENTENCES), expected, strict=True):
        assert np.array_equal(ours, theirs)


def test_embed_sentences_reads_one_batch_at_a_time(tiny_pair: Any) -> None:
    taken = []

    def endless() -> Iterator[list[str]]:
        while True:
            taken.append(1)
            yield SENTENCES[1]

    stream = ElmoEmbedder(*tiny_pair).embed_sentences(endless(), batch_size=3)
    next(stream)
    assert len(taken) == 3


def test_embed_sentence_without_words_has_no_vectors(tiny_pair: Any) -> None:
    embedder = ElmoEmbedder(*tiny_pair)
    assert embedder.embed_sentence([]).shape == (3, 0, 32)
    assert [array.shape for array in embedder.embed_batch([[], ["a"]])] == [(3, 0, 32), (3, 1, 32)]
    assert embedder.embed_batch([]) == []
    assert list(embedder.embed_sentences([])) == []


def test_embed_sentence_without_words_does_not_change_the_state(tiny_pair: Any) -> None:
    embedder, other = ElmoEmbedder(*tiny_pair), ElmoEmbedder(*tiny_pair)
    embedder.embed_sentence([])
    assert np.array_equal(embedder.embed_sentence(["a"]), other.embed_sentence(["a"]))


def test_embed_rejects_a_string_in_place_of_a_list(tiny_pair: Any) -> None:
    embedder = ElmoEmbedder(*tiny_pair)
    for embed in (embedder.embed_sentence, embedder.embed_batch, lambda s: list(embedder.embed_sentences([s]))):
        with pytest.raises(InputError, match="string 'I took a bow'"):
            embed("I took a bow")


@pytest.mark.parametrize("files", [(None, None), (None, "weights.hdf5"), ("options.json", None)])
def test_embedder_rejects_missing_files_instead_of_loading_another_model(files: Any) -> None:
    with pytest.raises(InputError, match="give both options_file and weight_file"):
        ElmoEmbedder(*files)


def test_embedder_rejects_a_model_of_whole_words(fixtures: Path) -> None:
    folder = fixtures / "variants" / "word_input"
    with pytest.raises(ElmoreError, match=r"reads .*words"):
        ElmoEmbedder(folder / "options.json", folder / "weights.hdf5")


def assert_close(actual: Any, expected: Any, *, factor: float = 1) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=factor * TOLERANCE)
