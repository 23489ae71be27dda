"""Recurrent encoders: a batch is read as each sentence alone, by the equations in plain NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from elmore.tasks.blocks.sequence_encoder import BiGru, BiLstm, packing_of
from ragged_batches import ragged_mask, random_tensor, some_lengths
from reference.strategies import patiently, seeds

ENCODERS = [BiLstm, BiGru]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm_step(x: np.ndarray, h: np.ndarray, c: np.ndarray, weights: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    w, u, a, b = weights
    i, f, g, o = np.split(w @ x + a + u @ h + b, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_step(x: np.ndarray, h: np.ndarray, c: np.ndarray, weights: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    w, u, a, b = weights
    (xr, xz, xn), (hr, hz, hn) = np.split(w @ x + a, 3), np.split(u @ h + b, 3)
    z = sigmoid(xz + hz)
    return (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h, c


def plain(encoder: BiLstm | BiGru, sentence: np.ndarray) -> np.ndarray:
    """One sentence (T, D) through all layers, token by token, from zeros."""
    step = lstm_step if isinstance(encoder, BiLstm) else gru_step
    for layer in encoder.layers:
        state = {name: one.detach().numpy() for name, one in layer.named_parameters()}
        directions = []
        for suffix, order in (("", 1), ("_reverse", -1)):
            weights = [state[f"{name}_l0{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            h = c = np.zeros(weights[1].shape[1])
            outputs = []
            for x in sentence[::order]:
                h, c = step(x, h, c, weights)
                outputs.append(h)
            directions.append(np.array(outputs).reshape(len(sentence), len(h))[::order])
        sentence = np.concatenate(directions, axis=1)
    return sentence


def random_encoder(kind: Any, seed: int, **options: Any) -> BiLstm | BiGru:
    torch.manual_seed(seed)
    encoder: BiLstm | BiGru = kind(3, 2, **options).double()
    for parameter in encoder.parameters():  # biases too, which begin at zero
        torch.nn.init.normal_(parameter)
    return encoder


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("layers", [1, 2])
@patiently
@given(seed=seeds, lengths=some_lengths)
def test_every_sentence_is_read_as_if_alone_and_padding_is_zero(
    kind: Any, layers: int, seed: int, lengths: list[int]
) -> None:
    encoder, mask = random_encoder(kind, seed, layers=layers), ragged_mask(lengths)
    x = random_tensor(seed, *mask.shape, 3)
    found = encoder(x.masked_fill(~mask[..., None], 99), lengths).detach()
    assert found.shape == (*mask.shape, encoder.output_dim)
    assert not found[~mask].any()
    for row, length in enumerate(lengths):
        expected = plain(encoder, x[row, :length].numpy())
        np.testing.assert_allclose(found[row, :length], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ENCODERS)
def test_more_padding_than_the_longest_sentence_needs_is_kept(kind: Any) -> None:
    encoder, x = random_encoder(kind, 0), random_tensor(0, 2, 9, 3)
    found = encoder(x, torch.tensor([4, 2]))
    assert found.shape == (2, 9, 4)
    assert torch.equal(found[:, :4], encoder(x[:, :4], [4, 2]))


@pytest.mark.parametrize("kind", ENCODERS)
def test_gradients_reach_all_tokens_and_no_padding(kind: Any) -> None:
    encoder, lengths = random_encoder(kind, 1, layers=2), [3, 0, 1]
    x, mask = random_tensor(1, 3, 3, 3).requires_grad_(), ragged_mask(lengths)
    encoder(x, lengths).square().sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad.any(dim=2), mask)
    assert all(one.grad is not None and one.grad.any() for one in encoder.parameters())


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_dropped_feature_is_dropped_for_the_whole_sentence_in_every_layer(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = random_encoder(kind, 2, layers=3, input_dropout=0.5)
    masks: list[Tensor] = []
    dropout = torch.nn.functional.dropout
    monkeypatch.setattr(torch.nn.functional, "dropout", lambda ones, p: masks.append(dropout(ones, p)) or masks[-1])
    x = random_tensor(2, 2, 4, 3)
    found = encoder(x, [4, 2]).detach()
    assert [tuple(mask.shape) for mask in masks] == [(2, 1, 3), (2, 1, 4), (2, 1, 4)]
    for row, length in enumerate((4, 2)):
        expected = x[row, :length].numpy()
        for layer, mask in zip(encoder.layers, masks, strict=True):
            one = random_encoder(kind, 0)
            one.layers = torch.nn.ModuleList([layer])
            expected = plain(one, expected * mask[row].numpy())
        np.testing.assert_allclose(found[row, :length], expected, rtol=0, atol=1e-12)
    encoder.eval()
    assert torch.equal(encoder(x, [4, 2]), encoder(x, [4, 2]))
    assert len(masks) == 3


def test_recurrent_weights_begin_orthogonal_and_the_forget_bias_at_one() -> None:
    torch.manual_seed(0)
    for encoder, gates in ((BiLstm(7, 5, layers=2), 4), (BiGru(7, 5, layers=2), 3)):
        seen = 0
        for name, parameter in encoder.named_parameters():
            for number, gate in enumerate(parameter.detach().chunk(gates)):
                if "weight_hh" in name:
                    torch.testing.assert_close(gate @ gate.t(), torch.eye(5), rtol=0, atol=1e-5)
                elif "weight_ih" in name:
                    # Glorot and Bengio: uniform within sqrt(6 / (rows + columns)).
                    bound = (6 / sum(gate.shape)) ** 0.5
                    assert 0.7 * bound < gate.abs().max() <= bound
                else:
                    forget = gates == 4 and number == 1 and "bias_ih" in name
                    assert gate.tolist() == [float(forget)] * 5
                seen += 1
        assert seen == 2 * 2 * 4 * gates  # layers, directions, parameters


@pytest.mark.parametrize("kind", ENCODERS)
def test_it_runs_under_autocast(kind: Any) -> None:
    encoder, x = random_encoder(kind, 3).float(), torch.randn(2, 4, 3)
    expected = encoder(x, [4, 2])
    with torch.autocast("cpu", torch.bfloat16):
        found = encoder(x, [4, 2])
    # bfloat16 has eight bits; states are within 1.
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.05)


@pytest.mark.parametrize("lengths", [[4], [4, 2, 1], [5, 2]])
def test_lengths_of_other_sentences_are_noticed(lengths: list[int]) -> None:
    with pytest.raises(AssertionError, match="lengths are of"):
        BiLstm(3, 2)(torch.zeros(2, 4, 3), lengths)


def test_what_was_packed_while_predicting_can_be_trained_on() -> None:
    encoder, x = BiLstm(3, 2), torch.randn(2, 4, 3)
    packing_of.cache_clear()
    with torch.inference_mode():
        expected = encoder(x, [4, 2]).clone()
    found = encoder(x.requires_grad_(), [4, 2])
    found.sum().backward()
    assert torch.equal(found, expected)
    assert packing_of.cache_info().hits == 1
