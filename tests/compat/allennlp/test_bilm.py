import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from elmore.compat.allennlp import _ElmoBiLm, batch_to_ids
from elmore.errors import ElmoreError, InputError

SENTENCES = [["I", "took", "a", "bow"], ["Me", "too"], ["So", "did", "she"]]
TOLERANCE = 5e-6


def test_layers_are_those_of_allennlp(mixes: dict[str, NDArray[Any]], allennlp_pair: Any) -> None:
    output = _ElmoBiLm(*allennlp_pair)(torch.from_numpy(mixes["char_ids"]))
    for number, layer in enumerate(output["activations"]):
        np.testing.assert_allclose(layer, mixes[f"bilm_layer{number}"], rtol=0, atol=TOLERANCE)
    assert output["mask"].dtype == torch.bool
    np.testing.assert_array_equal(output["mask"], mixes["bilm_mask"])


def test_thirty_sentences_in_ten_calls_are_those_of_the_tensorflow_code(fixtures: Path, allennlp_pair: Any) -> None:
    sentences = json.loads((fixtures / "allennlp" / "sentences.json").read_text(encoding="utf-8"))
    bilm = _ElmoBiLm(*allennlp_pair)
    tops = [bilm(batch_to_ids([row[i].split() for row in sentences]))["activations"][-1] for i in range(10)]
    for row in range(3):
        with h5py.File(fixtures / "allennlp" / f"lm_embeddings_{row}.hdf5") as expected:
            for i in range(10):
                forward, backward = expected[str(i)]
                top = tops[i][row, 1 : 1 + len(forward)]
                np.testing.assert_allclose(top, np.concatenate([forward, backward], -1), rtol=0, atol=TOLERANCE)


def test_cached_words_are_those_of_allennlp(fixtures: Path, mixes: dict[str, NDArray[Any]], allennlp_pair: Any) -> None:
    words = json.loads((fixtures / "mixes" / "cached_words.json").read_text(encoding="utf-8"))
    bilm = _ElmoBiLm(*allennlp_pair, vocab_to_cache=words)
    output = bilm(torch.from_numpy(mixes["char_ids"]), torch.from_numpy(mixes["cached_word_ids"]))
    for number, layer in enumerate(output["activations"]):
        np.testing.assert_allclose(layer, mixes[f"cached_layer{number}"], rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(output["mask"], mixes["cached_mask"])


def test_word_ids_alone_decide_if_all_are_cached(tiny_pair: Any) -> None:
    bilm = _ElmoBiLm(*tiny_pair, vocab_to_cache=["@@PADDING@@", "Me", "too"])
    by_spelling = bilm(batch_to_ids([["Me", "too"]]))
    bilm.reset_states()
    by_number = bilm(batch_to_ids([["other", "words"]]), torch.tensor([[1, 2]]))
    for spelt, cached in zip(by_spelling["activations"], by_number["activations"], strict=True):
        torch.testing.assert_close(cached, spelt, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("word_ids", [[[1, 3]], [[-1, 2]]])
def test_a_word_id_without_a_word_sends_the_whole_batch_to_its_characters(tiny_pair: Any, word_ids: Any) -> None:
    bilm = _ElmoBiLm(*tiny_pair, vocab_to_cache=["@@PADDING@@", "Me", "too"])
    ids = batch_to_ids([["Wholly", "different"]])
    backed_off = bilm(ids, torch.tensor(word_ids))["activations"]
    bilm.reset_states()
    for layer, expected in zip(backed_off, bilm(ids)["activations"], strict=True):
        assert torch.equal(layer, expected)


def test_the_padding_word_of_a_cache_is_zero_and_the_others_are_not(tiny_pair: Any) -> None:
    bilm = _ElmoBiLm(*tiny_pair)
    bilm.create_cached_cnn_embeddings(["pad", "a", "b"] + [f"word{i}" for i in range(300)])
    assert bilm._word_embedding is not None
    assert bilm._word_embedding.weight.shape == (303, 16)
    assert [bool(row.any()) for row in bilm._word_embedding.weight[:3]] == [False, True, True]
    assert not bilm._word_embedding.weight.requires_grad


def test_each_row_goes_on_where_it_ended(tiny_pair: Any) -> None:
    bilm = _ElmoBiLm(*tiny_pair)
    bilm(batch_to_ids(SENTENCES))
    carried = bilm(batch_to_ids(SENTENCES))["activations"]
    # Rows do not meet: a row alone, twice, is the same as the row in its batch, twice.
    alone = _ElmoBiLm(*tiny_pair)
    alone(batch_to_ids(SENTENCES[1:2]))
    for layer, expected in zip(carried, alone(batch_to_ids(SENTENCES[1:2]))["activations"], strict=True):
        torch.testing.assert_close(layer[1, :4], expected[0], rtol=0, atol=1e-6)


def test_a_second_call_differs_from_the_first_until_reset(tiny_pair: Any) -> None:
    bilm, ids = _ElmoBiLm(*tiny_pair), batch_to_ids(SENTENCES)
    first, second = bilm(ids)["activations"], bilm(ids)["activations"]
    assert torch.equal(first[0], second[0])  # words without context have no state
    assert (first[1] - second[1]).abs().max() > 1e-3
    bilm._elmo_lstm.reset_states()
    assert torch.equal(bilm(ids)["activations"][2], first[2])


def test_a_smaller_batch_leaves_the_other_rows_waiting(tiny_pair: Any) -> None:
    bilm, direct = _ElmoBiLm(*tiny_pair), _ElmoBiLm(*tiny_pair)
    for each in (bilm, direct):
        each(batch_to_ids(SENTENCES))
    bilm(batch_to_ids(SENTENCES[:1]))
    later, expected = (each(batch_to_ids(SENTENCES))["activations"][2] for each in (bilm, direct))
    torch.testing.assert_close(later[1:], expected[1:], rtol=0, atol=1e-6)
    assert (later[0] - expected[0]).abs().max() > 1e-3


def test_reset_with_a_mask_forgets_those_rows(tiny_pair: Any) -> None:
    bilm, ids = _ElmoBiLm(*tiny_pair), batch_to_ids(SENTENCES)
    fresh, carried = bilm(ids)["activations"][2], bilm(ids)["activations"][2]
    bilm.reset_states()
    bilm(ids)
    bilm.reset_states(torch.tensor([True, False, True]))
    mixed = bilm(ids)["activations"][2]
    torch.testing.assert_close(mixed[[0, 2]], fresh[[0, 2]], rtol=0, atol=1e-6)
    torch.testing.assert_close(mixed[1], carried[1], rtol=0, atol=1e-6)
    with pytest.raises(InputError, match="3 rows are remembered"):
        bilm.reset_states(torch.tensor([True]))


def test_a_bilm_that_is_not_stateful_forgets_at_once(tiny_pair: Any) -> None:
    bilm, ids = _ElmoBiLm(*tiny_pair), batch_to_ids(SENTENCES)
    bilm._elmo_lstm.stateful = False
    first = bilm(ids)["activations"][2]
    assert torch.equal(bilm(ids)["activations"][2], first)


def test_output_is_as_wide_as_the_input(tiny_pair: Any) -> None:
    bilm = _ElmoBiLm(*tiny_pair, vocab_to_cache=["@@PADDING@@", "Me"])
    ids = batch_to_ids(SENTENCES)[1:2]  # two words in a row of four
    for output in (bilm(ids), bilm(ids, torch.tensor([[1, 0, 0, 0]]))):
        assert [layer.shape for layer in output["activations"]] == [(1, 6, 32)] * 3
    assert output["mask"].tolist() == [[True, True, True, False, False, False]]
    assert not any(layer[0, 3:].any() for layer in output["activations"])


def test_a_state_from_inference_mode_may_be_trained_on(tiny_pair: Any) -> None:
    bilm, ids = _ElmoBiLm(*tiny_pair, requires_grad=True), batch_to_ids(SENTENCES)
    with torch.inference_mode():
        bilm(ids)
    bilm(ids)["activations"][2].sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in bilm.parameters())


def test_the_state_follows_a_change_of_type(tiny_pair: Any) -> None:
    bilm, ids = _ElmoBiLm(*tiny_pair), batch_to_ids(SENTENCES)
    bilm(ids)
    in_single = bilm(ids)["activations"][2]
    bilm.reset_states()
    bilm(ids)
    in_double = bilm.double()(ids)["activations"][2]
    assert in_double.dtype == torch.float64
    torch.testing.assert_close(in_double.float(), in_single, rtol=0, atol=1e-5)


def test_an_empty_batch_is_told(tiny_pair: Any) -> None:
    with pytest.raises(InputError, match="no sentence"):
        _ElmoBiLm(*tiny_pair)(batch_to_ids([]))


def test_a_model_that_reads_words_is_refused(fixtures: Path) -> None:
    folder = fixtures / "variants" / "word_input"
    with pytest.raises(ElmoreError, match=r"reads .*words"):
        _ElmoBiLm(folder / "options.json", folder / "weights.hdf5")
