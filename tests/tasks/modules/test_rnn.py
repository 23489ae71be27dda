"""Recurrent encoders: a batch is read as each sentence alone, by the equations in plain NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from elmore.errors import InputError
from elmore.tasks.modules import rnn
from elmore.tasks.modules.gru_recurrence import PackedSteps, fused_recurrence
from elmore.tasks.modules.rnn import BiGru, BiLstm, VariationalDropout, packing_of
from ragged_batches import ragged_mask, random_tensor, some_lengths
from reference.strategies import patiently, seeds
from triton_here import DEVICE, needs_triton

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
    with pytest.raises(AssertionError, match="lengths has a"):
        BiLstm(3, 2)(torch.zeros(2, 4, 3), lengths)


def test_what_was_packed_while_predicting_can_be_trained_on() -> None:
    check_training_after_prediction(BiLstm(3, 2), torch.randn(2, 4, 3))


def check_training_after_prediction(encoder: BiLstm | BiGru, x: Tensor) -> None:
    packing_of.cache_clear()
    with torch.inference_mode():
        expected = encoder(x, [4, 2]).clone()
    found = encoder(x.requires_grad_(), [4, 2])
    found.sum().backward()
    assert torch.equal(found, expected)
    assert packing_of.cache_info().hits == 1


def states_and_gradients(encoder: BiGru, x: Tensor, lengths: list[int]) -> list[Tensor]:
    leaf = x.clone().requires_grad_()
    states = encoder(leaf, lengths)
    slopes = random_tensor(7, *states.shape).to(states)
    return [states.detach(), *torch.autograd.grad(states, [leaf, *encoder.parameters()], slopes)]


@needs_triton
@pytest.mark.parametrize("lengths", [[3, 0, 5, 1], [4, 4], [0, 1], [2]])
def test_the_fused_kernel_reads_as_torch_does(lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(8)
    encoder = BiGru(7, 18, layers=2)
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    mask = ragged_mask(lengths, places=6)
    x = random_tensor(8, *mask.shape, 7).float()
    # On the CPU: a GPU's own GRU may round to TF32.
    expected = states_and_gradients(encoder, x, lengths)
    calls = count_fused_calls(monkeypatch)
    monkeypatch.setattr(rnn, "fused_recurrence_runs_on", lambda *_: True)
    found = [one.cpu() for one in states_and_gradients(encoder.to(DEVICE), x.to(DEVICE), lengths)]
    assert calls == [18, 18]
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5)
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))
    assert not found[0][~mask].any()
    assert torch.equal(found[1].any(dim=2), mask)


def count_fused_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the number of units whenever the fused kernel runs."""
    calls: list[int] = []

    def recorded(products: Tensor, recurrent: Tensor, bias: Tensor, steps: PackedSteps) -> Tensor:
        calls.append(recurrent.shape[2])
        return fused_recurrence(products, recurrent, bias, steps)

    monkeypatch.setattr(rnn, "fused_recurrence", recorded)
    return calls


@needs_triton
def test_what_the_fused_kernel_knows_from_predicting_can_be_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rnn, "fused_recurrence_runs_on", lambda *_: True)
    check_training_after_prediction(BiGru(3, 2).to(DEVICE), torch.randn(2, 4, 3, device=DEVICE))


@pytest.mark.skipif(DEVICE != "cuda", reason="a GPU is needed")
@needs_triton
def test_on_a_gpu_few_units_are_read_by_the_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_fused_calls(monkeypatch)
    x = torch.randn(2, 4, 3, device=DEVICE)
    for encoder in (BiGru(3, 129), BiLstm(3, 5), BiGru(3, 5).double()):
        encoder.to(DEVICE)(x.to(next(encoder.parameters()).dtype), [4, 2])
    assert not calls
    encoder = BiGru(3, 5).to(DEVICE)
    expected = encoder(x, [4, 2])
    with torch.autocast("cuda", torch.bfloat16):
        found = encoder(x, [4, 2])
    assert calls == [5, 5]
    assert found.dtype == torch.float32
    # bfloat16 has eight bits; states are within 1.
    torch.testing.assert_close(found, expected, rtol=0, atol=0.05)


def test_a_feature_is_dropped_at_all_tokens_of_a_sentence_or_at_none() -> None:
    torch.manual_seed(0)
    dropped = VariationalDropout(0.25)(torch.ones(3, 4, 200))
    assert torch.equal(dropped, dropped[:, :1].expand(3, 4, 200))
    # The remaining features are scaled by 1 / (1 - 0.25).
    assert dropped.unique().tolist() == [0, pytest.approx(4 / 3)]
    assert not torch.equal(dropped[0], dropped[1])  # each sentence has another mask
    # 600 draws: five standard deviations of the remaining share are 0.09.
    assert (dropped[:, 0] > 0).double().mean().item() == pytest.approx(0.75, abs=0.09)


def test_draws_follow_from_torchs_generator_alone() -> None:
    dropout, x = VariationalDropout(0.5), torch.randn(2, 3, 50)
    torch.manual_seed(7)
    first = dropout(x)
    torch.randn(3)
    assert not torch.equal(dropout(x), first)
    torch.manual_seed(7)
    assert torch.equal(dropout(x), first)


def test_nothing_is_dropped_or_drawn_outside_of_training() -> None:
    x, state = torch.randn(2, 3, 5), torch.get_rng_state()
    assert VariationalDropout(0.5).eval()(x) is x
    assert VariationalDropout(0.0)(x) is x
    assert torch.equal(torch.get_rng_state(), state)
    assert not VariationalDropout(1.0)(x).any()


@pytest.mark.parametrize("shape", [(0, 3, 5), (2, 0, 5), (1, 1, 5)])
def test_a_batch_may_be_empty(shape: tuple[int, ...]) -> None:
    assert VariationalDropout(0.5)(torch.ones(shape)).shape == shape


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(probability: float) -> None:
    with pytest.raises(InputError, match="must be from 0 to 1"):
        VariationalDropout(probability)
