import copy
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from torch import nn

from elmore.compat.allennlp import Elmo, _ElmoBiLm, _ElmoCharacterEncoder, batch_to_ids
from elmore.errors import ElmoreError, FormatError, InputError
from reference.published import read_published

SENTENCES = [["I", "took", "a", "bow"], ["Me", "too"], []]
TOLERANCE = 5e-6


def with_zeros(ids: torch.Tensor) -> torch.Tensor:
    """The ids with some characters left out, in the middle of a word, behind it, and nearly all of it."""
    ids = ids.clone()
    ids[0, 1, 2] = 0
    ids[0, 3, 5:] = 0
    ids[1, 0, 1:] = 0
    return ids


def test_a_vocabulary_has_the_vectors_of_the_tensorflow_code(fixtures: Path, allennlp_pair: Any) -> None:
    folder = fixtures / "allennlp"
    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").split()
    output = _ElmoCharacterEncoder(*allennlp_pair)(batch_to_ids([words]))
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        np.testing.assert_allclose(output["token_embedding"][0, 1:-1], file["embedding"][...], rtol=0, atol=TOLERANCE)
    assert output["mask"].all()


def test_boundaries_stand_around_each_sentence(tiny_pair: Any) -> None:
    encoder = _ElmoCharacterEncoder(*tiny_pair)
    output = encoder(batch_to_ids(SENTENCES))
    assert output["token_embedding"].shape == (3, 6, encoder.get_output_dim()) == (3, 6, 16)
    assert output["mask"].dtype == torch.bool
    assert output["mask"].sum(dim=1).tolist() == [6, 4, 2]
    begin, end = encoder(batch_to_ids([["<S>", "</S>"]]))["token_embedding"][0, 1:3]
    for row, length in enumerate([4, 2, 0]):
        ends = output["token_embedding"][row, [0, length + 1]]
        torch.testing.assert_close(ends, torch.stack([begin, end]), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_an_id_of_0_inside_a_word_reads_a_vector_of_zeros(tiny_pair: Any, requires_grad: bool) -> None:
    encoder = _ElmoCharacterEncoder(*tiny_pair, requires_grad=requires_grad)
    ids = with_zeros(batch_to_ids(SENTENCES))
    ordinary = encoder(batch_to_ids(SENTENCES))["token_embedding"]
    vectors = encoder(ids)["token_embedding"].detach()
    reference = read_published(*tiny_pair)
    # Padding is read too, as 50 characters that are none.
    expected = np.stack([[reference.character_vector(word) for word in row] for row in ids.tolist()])
    np.testing.assert_allclose(vectors[0, 1:-1], expected[0], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(vectors[1, 1:3], expected[1, :2], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(vectors[1, 4:], expected[1, 2:3].repeat(2, axis=0), rtol=0, atol=TOLERANCE)
    assert torch.equal(encoder(batch_to_ids(SENTENCES))["token_embedding"], ordinary)


def test_a_bilm_and_an_elmo_read_zeros_as_well(tiny_pair: Any) -> None:
    ids = with_zeros(batch_to_ids(SENTENCES))
    words = _ElmoCharacterEncoder(*tiny_pair)(ids)["token_embedding"]
    layers = _ElmoBiLm(*tiny_pair)(ids)["activations"]
    torch.testing.assert_close(layers[0][0], torch.cat([words[0]] * 2, dim=-1), rtol=0, atol=TOLERANCE)
    elmo = Elmo(*tiny_pair, 1, requires_grad=True)
    elmo(ids)["elmo_representations"][0].sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in elmo.parameters())


def test_a_bilm_shows_its_word_encoder_under_the_old_name(tiny_pair: Any) -> None:
    bilm, ids = _ElmoBiLm(*tiny_pair), batch_to_ids(SENTENCES)
    names = set(bilm.state_dict())
    assert bilm._token_embedder.get_output_dim() == 16
    expected = _ElmoCharacterEncoder(*tiny_pair)(ids)["token_embedding"]
    assert torch.equal(bilm._token_embedder(ids)["token_embedding"], expected)
    assert set(bilm.state_dict()) == names


@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_is_frozen_has_no_gradient(tiny_pair: Any, requires_grad: bool) -> None:
    encoder = _ElmoCharacterEncoder(*tiny_pair, requires_grad=requires_grad)
    assert {p.requires_grad for p in encoder.parameters()} == {requires_grad}


def test_a_state_dict_of_allennlp_is_loaded(fixtures: Path, allennlp_pair: Any) -> None:
    stored = torch.load(fixtures / "allennlp" / "simple_tagger_best.th", weights_only=True)
    prefix = "text_field_embedder.token_embedder_elmo._elmo._elmo_lstm._token_embedder."
    words = {name.replace(prefix, "0."): tensor for name, tensor in stored.items() if name.startswith(prefix)}
    # A copy, because hooks have been known to stay with the original.
    model = copy.deepcopy(nn.Sequential(_ElmoCharacterEncoder(*allennlp_pair)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model.load_state_dict(words)
    ids = batch_to_ids(SENTENCES)
    expected = _ElmoCharacterEncoder(*allennlp_pair)(ids)["token_embedding"]
    torch.testing.assert_close(model(ids)["token_embedding"], expected, rtol=0, atol=TOLERANCE)
    again = nn.Sequential(_ElmoCharacterEncoder(*allennlp_pair))
    again.load_state_dict(model.state_dict())
    del words["0.char_conv_1.bias"]
    with pytest.raises(FormatError, match=r"char_conv_1.bias is missing"):
        model.load_state_dict(words)


def test_what_cannot_be_read_is_told(tiny_pair: Any, fixtures: Path) -> None:
    encoder = _ElmoCharacterEncoder(*tiny_pair)
    with pytest.raises(InputError, match="padding stands before or between words"):
        encoder(batch_to_ids([["a", "b"]]) * torch.tensor([[[0], [1]]]))
    with pytest.raises(InputError, match=r"reads \(sentences, words, 50\)"):
        encoder(torch.ones(2, 3, 12, dtype=torch.int64))
    folder = fixtures / "variants" / "word_input"
    with pytest.raises(ElmoreError, match=r"reads .*words"):
        _ElmoCharacterEncoder(folder / "options.json", folder / "weights.hdf5")
