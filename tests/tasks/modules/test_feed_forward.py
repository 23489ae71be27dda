"""Feed-forward and maxout networks, against plain NumPy."""

from typing import Any

import numpy as np
import pytest
import torch

from elmore.errors import InputError
from elmore.tasks.modules.feed_forward import FeedForward, Maxout
from ragged_batches import random_tensor


def random_network(network: Any) -> Any:
    for parameter in network.double().parameters():
        torch.nn.init.normal_(parameter)
    return network.eval()


def layers_of(network: FeedForward | Maxout) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in network.layers]


@pytest.mark.parametrize("output_dim", [None, 2])
@pytest.mark.parametrize("dims", [(), (5,), (6, 3)])
def test_a_feed_forward_network_is_relu_upon_relu(dims: tuple[int, ...], output_dim: int | None) -> None:
    torch.manual_seed(0)
    network = random_network(FeedForward(4, dims, dropout=0.5, output_dim=output_dim))
    x = random_tensor(0, 3, 7, 4)
    expected = x.numpy()
    for weight, bias in layers_of(network):
        expected = np.maximum(expected @ weight.T + bias, 0)
    if output_dim:
        expected = expected @ network.output.weight.detach().numpy().T + network.output.bias.detach().numpy()
        assert (expected < 0).any()  # no ReLU behind the last
    np.testing.assert_allclose(network(x).detach(), expected, rtol=0, atol=1e-10)
    assert expected.shape[-1] == network.output_dim


def test_maxout_takes_the_largest_piece_of_each_feature() -> None:
    torch.manual_seed(1)
    network = random_network(Maxout(4, (5, 3), pieces=2, dropout=(0.5, 0.1)))
    x = random_tensor(1, 6, 4)
    expected = x.numpy()
    for weight, bias in layers_of(network):
        pieces = expected @ weight.T + bias
        expected = np.stack([np.maximum(pieces[:, i], pieces[:, i + 1]) for i in range(0, pieces.shape[1], 2)], axis=1)
    np.testing.assert_allclose(network(x).detach(), expected, rtol=0, atol=1e-10)
    assert expected.shape == (6, network.output_dim)


@pytest.mark.parametrize("kind", [FeedForward, Maxout])
def test_dropout_is_behind_each_layer_and_in_training_alone(kind: Any) -> None:
    torch.manual_seed(2)
    assert [one.p for one in kind(4, (5, 3), dropout=0.2).dropouts] == [0.2, 0.2]
    network = kind(4, (50, 40), dropout=(0.0, 0.5))
    x = torch.randn(30, 4)
    whole = network.eval()(x)
    # A ReLU may give zero by itself.
    dropped = (network.train()(x) == 0)[whole != 0]
    assert dropped.double().mean().item() == pytest.approx(0.5, abs=0.1)
    torch.manual_seed(3)
    first = network(x)
    torch.manual_seed(3)
    assert torch.equal(network(x), first)


@pytest.mark.parametrize("kind", [FeedForward, Maxout])
def test_another_number_of_dropouts_is_refused(kind: Any) -> None:
    with pytest.raises(InputError, match="3 dropout probabilities were passed for 2 layers"):
        kind(4, (5, 3), dropout=(0.1, 0.2, 0.3))
