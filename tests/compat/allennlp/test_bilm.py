import copy
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from elmore.compat.allennlp import Elmo, _ElmoBiLm, _ElmoCharacterEncoder, batch_to_ids
from elmore.errors import ElmoreError, FormatError, InputError
from reference.published import read_published

SENTENCES = [["I", "took", "a", "bow"], ["Me", "too"], ["So", "did", "she"]]
TOLERANCE = 5e-6


def test_bilm_layers_equal_allennlp(mixes: dict[str, NDArray[Any]], allennlp_pair: Any) -> None:
    output = _ElmoBiLm(*allennlp_pair)(torch.from_numpy(mixes["char_ids"]))
    for number, layer in enumerate(output["activations"]):
        np.testing.assert_allclose(layer, mixes[f"bilm_layer{number}"], rtol=0, atol=TOLERANCE)
    assert output["mask"].dtype == torch.bool
    np.testing.assert_array_equal(output["mask"], mixes["bilm_mask"])


def test_bilm_over_ten_calls_equals_tensorflow(fixtures: Path, allennlp_pair: Any) -> None:
    sentences = json.loads((fixtures / "allennlp" / "sentences.json").read_text(encoding="utf-8"))
    bilm = _ElmoBiLm(*allennlp_pair)
    tops = [bilm(batch_to_ids([row[i].split() for row in sentences]))["activations"][-1] for i in range(10)]
    for row in range(3):
        with h5py.File(fixtures / "allennlp" / f"lm_embeddings_{row}.hdf5") as expected:
            for i in range(10):
                forward, backward = expected[str(i)]
                top = tops[i][row, 1 : 1 + len(forward)]
                np.testing.assert_allclose(top, np.concatenate([forward, backward], -1), rtol=0, atol=TOLERANCE)


def test_bilm_with_cached_words_equals_allennlp(
    fixtures: Path, mixes: dict[str, NDArray[Any]], allennlp_pair: Any
) -> None:
    words = json.loads((fixtures / "mixes" / "cached_words.json").read_text(encoding="utf-8"))
    bilm = _ElmoBiLm(*allennlp_pair, vocab_to_cache=words)
    output = bilm(torch.from_numpy(mixes["char_ids"]), torch.from_numpy(mixes["cached_word_ids"]))
    for number, layer in enumerate(output["activations"]):
        np.testing.assert_allclose(layer, mixes[f"cached_layer{number}"], rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(output["mask"], mixes["cached_mask"])


def test_bilm_ignores_character_ids_if_all_words_are_cached(tiny_pair: Any) -> None:
    bilm = _ElmoBiLm(*tiny_pair, vocab_to_cache=["@@PADDING@@", "Me", "too"])
    by_spelling = bilm(batch_to_ids([["Me", "too"]]))
    bilm.reset_states()
    by_number = bilm(batch_to_ids([["other", "words"]]), torch.tensor([[1, 2]]))
    for spelt, cached in zip(by_spelling["activations"], by_number["activations"], strict=True):
        torch.testing.assert_close(cached, spelt, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("word_ids", [[[1, 3]], [[-1, 2]]])
def test_bilm_uses_character_ids_without_complete_cache(tiny_pair: Any, word_ids: Any) -> None:
    bilm = _ElmoBiLm(*tiny_pair, vocab_to_cache=["@@PADDING@@", "Me", "too"])
    ids = batch_to_ids([["Wholly", "different"]])
    backed_off = bilm(ids, torch.tensor(word_ids))["activations"]
    bilm.reset_states()
    for layer, expected in zip(backed_off, bilm(ids)["activations"], strict=True):
        assert torch.equal(layer, expected)


def test_cached_embeddings_are_zero_only_for_padding(tiny_pair: Any) -> None:
    bilm = _ElmoBiLm(*tiny_pair)
    bilm.create_cached_cnn_embeddings(["pad", "a", "b"] + [f"word{i}" for i in range(300)])
    assert bilm._word_embedding is not None
    assert bilm._word_embedding.weight.shape == (303, 16)
    assert [bool(row.any()) for row in bilm._word_embedding.weight[:3]] == [False, True, True]
    assert not bilm._word_embedding.weight.requires_grad


def test_bilm_continues_each_row_where_it_ended(tiny_pair: Any) -> None:
    bilm = _ElmoBiLm(*tiny_pair)
    bilm(batch_to_ids(SENTENCES))
    carried = bilm(batch_to_ids(SENTENCES))["activations"]
    # Rows are independent: two calls with one row equal two calls with the batch that contains it.
    alone = _ElmoBiLm(*tiny_pair)
    alone(batch_to_ids(SENTENCES[1:2]))
    for layer, expected in zip(carried, alone(batch_to_ids(SENTENCES[1:2]))["activations"], strict=True):
        torch.testing.assert_close(layer[1, :4], expected[0], rtol=0, atol=1e-6)


def test_bilm_carries_state_until_reset(tiny_pair: Any) -> None:
    bilm, ids = _ElmoBiLm(*tiny_pair), batch_to_ids(SENTENCES)
    first, second = bilm(ids)["activations"], bilm(ids)["activations"]
    assert torch.equal(first[0], second[0])  # layer 0 does not depend on the state
    assert (first[1] - second[1]).abs().max() > 1e-3
    bilm._elmo_lstm.reset_states()
    assert torch.equal(bilm(ids)["activations"][2], first[2])


def test_bilm_with_fewer_rows_preserves_state_of_others(tiny_pair: Any) -> None:
    bilm, direct = _ElmoBiLm(*tiny_pair), _ElmoBiLm(*tiny_pair)
    for each in (bilm, direct):
        each(batch_to_ids(SENTENCES))
    bilm(batch_to_ids(SENTENCES[:1]))
    later, expected = (each(batch_to_ids(SENTENCES))["activations"][2] for each in (bilm, direct))
    torch.testing.assert_close(later[1:], expected[1:], rtol=0, atol=1e-6)
    assert (later[0] - expected[0]).abs().max() > 1e-3


def test_reset_states_with_mask_resets_only_those_rows(tiny_pair: Any) -> None:
    bilm, ids = _ElmoBiLm(*tiny_pair), batch_to_ids(SENTENCES)
    fresh, carried = bilm(ids)["activations"][2], bilm(ids)["activations"][2]
    bilm.reset_states()
    bilm(ids)
    bilm.reset_states(torch.tensor([True, False, True]))
    mixed = bilm(ids)["activations"][2]
    torch.testing.assert_close(mixed[[0, 2]], fresh[[0, 2]], rtol=0, atol=1e-6)
    torch.testing.assert_close(mixed[1], carried[1], rtol=0, atol=1e-6)
    with pytest.raises(InputError, match=r"the mask has shape \(1,\); 3 rows have a state"):
        bilm.reset_states(torch.tensor([True]))


def test_bilm_that_is_not_stateful_starts_from_zeros(tiny_pair: Any) -> None:
    bilm, ids = _ElmoBiLm(*tiny_pair), batch_to_ids(SENTENCES)
    bilm._elmo_lstm.stateful = False
    first = bilm(ids)["activations"][2]
    assert torch.equal(bilm(ids)["activations"][2], first)


def test_bilm_output_is_as_wide_as_input(tiny_pair: Any) -> None:
    bilm = _ElmoBiLm(*tiny_pair, vocab_to_cache=["@@PADDING@@", "Me"])
    ids = batch_to_ids(SENTENCES)[1:2]  # two words in a row of four
    for output in (bilm(ids), bilm(ids, torch.tensor([[1, 0, 0, 0]]))):
        assert [layer.shape for layer in output["activations"]] == [(1, 6, 32)] * 3
    assert output["mask"].tolist() == [[True, True, True, False, False, False]]
    assert not any(layer[0, 3:].any() for layer in output["activations"])


def test_bilm_can_be_trained_after_inference_mode(tiny_pair: Any) -> None:
    bilm, ids = _ElmoBiLm(*tiny_pair, requires_grad=True), batch_to_ids(SENTENCES)
    with torch.inference_mode():
        bilm(ids)
    bilm(ids)["activations"][2].sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in bilm.parameters())


def test_carried_state_follows_dtype_of_module(tiny_pair: Any) -> None:
    bilm, ids = _ElmoBiLm(*tiny_pair), batch_to_ids(SENTENCES)
    bilm(ids)
    in_single = bilm(ids)["activations"][2]
    bilm.reset_states()
    bilm(ids)
    in_double = bilm.double()(ids)["activations"][2]
    assert in_double.dtype == torch.float64
    torch.testing.assert_close(in_double.float(), in_single, rtol=0, atol=1e-5)


def test_bilm_rejects_an_empty_batch(tiny_pair: Any) -> None:
    with pytest.raises(InputError, match="contains no sentence"):
        _ElmoBiLm(*tiny_pair)(batch_to_ids([]))


def test_bilm_rejects_a_model_of_whole_words(fixtures: Path) -> None:
    folder = fixtures / "variants" / "word_input"
    with pytest.raises(ElmoreError, match=r"reads .*words"):
        _ElmoBiLm(folder / "options.json", folder / "weights.hdf5")


SENTENCES_AND_EMPTY = [["I", "took", "a", "bow"], ["Me", "too"], []]


def with_zeros(ids: torch.Tensor) -> torch.Tensor:
    """The ids with some characters removed: inside a word, at its end, and nearly all of them."""
    ids = ids.clone()
    ids[0, 1, 2] = 0
    ids[0, 3, 5:] = 0
    ids[1, 0, 1:] = 0
    return ids


def test_character_encoder_equals_tensorflow_on_a_vocabulary(fixtures: Path, allennlp_pair: Any) -> None:
    folder = fixtures / "allennlp"
    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").split()
    output = _ElmoCharacterEncoder(*allennlp_pair)(batch_to_ids([words]))
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        np.testing.assert_allclose(output["token_embedding"][0, 1:-1], file["embedding"][...], rtol=0, atol=TOLERANCE)
    assert output["mask"].all()


def test_character_encoder_adds_boundaries_to_each_sentence(tiny_pair: Any) -> None:
    encoder = _ElmoCharacterEncoder(*tiny_pair)
    output = encoder(batch_to_ids(SENTENCES_AND_EMPTY))
    assert output["token_embedding"].shape == (3, 6, encoder.get_output_dim()) == (3, 6, 16)
    assert output["mask"].dtype == torch.bool
    assert output["mask"].sum(dim=1).tolist() == [6, 4, 2]
    begin, end = encoder(batch_to_ids([["<S>", "</S>"]]))["token_embedding"][0, 1:3]
    for row, length in enumerate([4, 2, 0]):
        ends = output["token_embedding"][row, [0, length + 1]]
        torch.testing.assert_close(ends, torch.stack([begin, end]), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_character_encoder_reads_zeros_for_id_0_inside_word(tiny_pair: Any, requires_grad: bool) -> None:
    encoder = _ElmoCharacterEncoder(*tiny_pair, requires_grad=requires_grad)
    ids = with_zeros(batch_to_ids(SENTENCES_AND_EMPTY))
    ordinary = encoder(batch_to_ids(SENTENCES_AND_EMPTY))["token_embedding"]
    vectors = encoder(ids)["token_embedding"].detach()
    reference = read_published(*tiny_pair)
    # Padding is encoded too, as 50 ids of 0.
    expected = np.stack([[reference.character_vector(word) for word in row] for row in ids.tolist()])
    np.testing.assert_allclose(vectors[0, 1:-1], expected[0], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(vectors[1, 1:3], expected[1, :2], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(vectors[1, 4:], expected[1, 2:3].repeat(2, axis=0), rtol=0, atol=TOLERANCE)
    assert torch.equal(encoder(batch_to_ids(SENTENCES_AND_EMPTY))["token_embedding"], ordinary)


def test_bilm_reads_zeros_for_id_0_inside_word(tiny_pair: Any) -> None:
    ids = with_zeros(batch_to_ids(SENTENCES_AND_EMPTY))
    words = _ElmoCharacterEncoder(*tiny_pair)(ids)["token_embedding"]
    layers = _ElmoBiLm(*tiny_pair)(ids)["activations"]
    torch.testing.assert_close(layers[0][0], torch.cat([words[0]] * 2, dim=-1), rtol=0, atol=TOLERANCE)
    elmo = Elmo(*tiny_pair, 1, requires_grad=True)
    elmo(ids)["elmo_representations"][0].sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in elmo.parameters())


def test_bilm_has_its_word_encoder_under_allennlps_name(tiny_pair: Any) -> None:
    bilm, ids = _ElmoBiLm(*tiny_pair), batch_to_ids(SENTENCES_AND_EMPTY)
    names = set(bilm.state_dict())
    assert bilm._token_embedder.get_output_dim() == 16
    expected = _ElmoCharacterEncoder(*tiny_pair)(ids)["token_embedding"]
    assert torch.equal(bilm._token_embedder(ids)["token_embedding"], expected)
    assert set(bilm.state_dict()) == names


@pytest.mark.parametrize("requires_grad", [False, True])
def test_character_encoder_parameters_follow_requires_grad(tiny_pair: Any, requires_grad: bool) -> None:
    encoder = _ElmoCharacterEncoder(*tiny_pair, requires_grad=requires_grad)
    assert {p.requires_grad for p in encoder.parameters()} == {requires_grad}


def test_character_encoder_loads_state_dict_of_allennlp(fixtures: Path, allennlp_pair: Any) -> None:
    stored = torch.load(fixtures / "allennlp" / "simple_tagger_best.th", weights_only=True)
    prefix = "text_field_embedder.token_embedder_elmo._elmo._elmo_lstm._token_embedder."
    words = {name.replace(prefix, "0."): tensor for name, tensor in stored.items() if name.startswith(prefix)}
    # A copy: hooks must be copied with the module.
    model = copy.deepcopy(nn.Sequential(_ElmoCharacterEncoder(*allennlp_pair)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model.load_state_dict(words)
    ids = batch_to_ids(SENTENCES_AND_EMPTY)
    expected = _ElmoCharacterEncoder(*allennlp_pair)(ids)["token_embedding"]
    torch.testing.assert_close(model(ids)["token_embedding"], expected, rtol=0, atol=TOLERANCE)
    again = nn.Sequential(_ElmoCharacterEncoder(*allennlp_pair))
    again.load_state_dict(model.state_dict())
    del words["0.char_conv_1.bias"]
    with pytest.raises(FormatError, match=r"char_conv_1.bias is missing"):
        model.load_state_dict(words)


def test_character_encoder_rejects_wrong_ids_and_models(tiny_pair: Any, fixtures: Path) -> None:
    encoder = _ElmoCharacterEncoder(*tiny_pair)
    with pytest.raises(InputError, match="padding is before or between words"):
        encoder(batch_to_ids([["a", "b"]]) * torch.tensor([[[0], [1]]]))
    with pytest.raises(InputError, match=r"reads \(sentences, words, 50\)"):
        encoder(torch.ones(2, 3, 12, dtype=torch.int64))
    folder = fixtures / "variants" / "word_input"
    with pytest.raises(ElmoreError, match=r"reads .*words"):
        _ElmoCharacterEncoder(folder / "options.json", folder / "weights.hdf5")
