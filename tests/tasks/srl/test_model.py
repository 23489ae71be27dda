"""The highway LSTM: by its equations in plain NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from elmore.tasks.srl.highway_recurrence import reference_recurrence
from elmore.tasks.srl.model import AlternatingHighwayLstm
from ragged_batches import ragged_mask, random_tensor, some_lengths
from reference.strategies import patiently, seeds


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def plain(encoder: AlternatingHighwayLstm, sentence: np.ndarray) -> np.ndarray:
    """One sentence (T, D) through all layers, token by token, from zeros; every second layer from its end."""
    for number, layer in enumerate(encoder.layers):
        weight, recurrent, bias = (
            parameter.detach().numpy() for parameter in (layer.input_weight, layer.recurrent_weight, layer.bias)
        )
        size = recurrent.shape[1]
        h = c = np.zeros(size)
        outputs = []
        for x in sentence[::-1] if number % 2 else sentence:
            products = weight @ x
            o, t, i, f, g = np.split(products[: 5 * size] + recurrent @ h + bias, 5)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(t) * sigmoid(o) * np.tanh(c) + (1 - sigmoid(t)) * products[5 * size :]
            outputs.append(h)
        read = np.array(outputs).reshape(len(sentence), size)
        sentence = read[::-1] if number % 2 else read
    return sentence


def random_encoder(seed: int, **options: float) -> AlternatingHighwayLstm:
    torch.manual_seed(seed)
    encoder = AlternatingHighwayLstm(3, 2, **options).double()
    for parameter in encoder.parameters():  # biases too, which begin at zero
        torch.nn.init.normal_(parameter)
    return encoder


@pytest.mark.parametrize("layers", [1, 2, 3])
@patiently
@given(seed=seeds, lengths=some_lengths)
def test_every_sentence_is_read_as_if_alone_and_padding_is_zero(layers: int, seed: int, lengths: list[int]) -> None:
    encoder, mask = random_encoder(seed, layers=layers), ragged_mask(lengths)
    x = random_tensor(seed, *mask.shape, 3)
    found = encoder(x.masked_fill(~mask[..., None], 99), lengths).detach()
    assert found.shape == (*mask.shape, 2)
    assert not found[~mask].any()
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(found[row, :length], plain(encoder, x[row, :length].numpy()), rtol=0, atol=1e-12)


def test_gradients_reach_all_tokens_and_no_padding() -> None:
    encoder, lengths = random_encoder(1, layers=3), [3, 0, 1]
    x, mask = random_tensor(1, 3, 3, 3).requires_grad_(), ragged_mask(lengths)
    encoder(x, lengths).square().sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad.any(dim=2), mask)
    assert all(one.grad is not None and one.grad.any() for one in encoder.parameters())


def test_a_dropped_unit_is_dropped_for_the_whole_sentence_and_recurs_as_dropped(monkeypatch) -> None:
    encoder = random_encoder(2, layers=1, dropout=0.5)
    masks: list[Tensor] = []
    dropout = torch.nn.functional.dropout
    monkeypatch.setattr(torch.nn.functional, "dropout", lambda ones, p: masks.append(dropout(ones, p)) or masks[-1])
    torch.manual_seed(4)
    x = random_tensor(2, 1, 6, 3)
    found = encoder(x, [6])
    [kept] = masks
    assert kept.shape == (1, 2)
    assert not found[0, :, kept[0] == 0].any()
    layer = encoder.layers[0]
    products = x[0] @ layer.input_weight.t()
    expected = reference_recurrence(
        products[:, :10] + layer.bias, products[:, 10:], layer.recurrent_weight, kept, [1] * 6
    )
    torch.testing.assert_close(found[0], expected)
    encoder.eval()
    assert torch.equal(encoder(x, [6]), encoder(x, [6]))
    assert len(masks) == 1


def test_weights_begin_orthogonal_and_the_forget_bias_at_one() -> None:
    torch.manual_seed(0)
    for layer in AlternatingHighwayLstm(7, 5, layers=2).layers:
        for gate in layer.recurrent_weight.detach().split(5):
            torch.testing.assert_close(gate @ gate.t(), torch.eye(5), rtol=0, atol=1e-5)
        assert layer.bias.tolist() == [0.0] * 15 + [1.0] * 5 + [0.0] * 5


def test_it_runs_under_autocast_and_its_states_are_not_rounded() -> None:
    encoder, x = random_encoder(3, layers=2).float(), torch.randn(2, 4, 3)
    expected = encoder(x, [4, 2])
    with torch.autocast("cpu", torch.bfloat16):
        found = encoder(x, [4, 2])
    assert found.dtype == torch.float32
    # Products of inputs have the eight bits of bfloat16; carried inputs are of the order of 5 here.
    torch.testing.assert_close(found, expected, rtol=0, atol=0.1)


def test_sentences_turned_round_twice_are_as_before() -> None:
    from elmore.tasks.modules.rnn import Packing

    lengths = [2, 4, 0, 1]
    packing = Packing(lengths, width=4, device=torch.device("cpu"))
    numbers = torch.arange(16.0).reshape(4, 4, 1)
    packed = packing.pack(numbers)
    turned = packing.pad(packed._replace(data=packed.data[packing.reversed_rows()])).squeeze(2)
    for row, length in enumerate(lengths):
        assert turned[row, :length].tolist() == numbers[row, :length, 0].flip(0).tolist()
