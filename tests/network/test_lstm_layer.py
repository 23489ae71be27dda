"""The prepared form of a layer's weights: made once, and never out of date."""

import copy
import gc
import pickle
import weakref

import pytest
import torch

from elmore.config import SMALL, ModelConfig
from elmore.kernels.recurrence import LstmWeights, Recurrence
from elmore.kernels.selection import kernels_named
from elmore.network import weight_versions
from elmore.network.bilm import LstmLayer
from fresh_network import fresh_network

CONFIG = ModelConfig(characters=SMALL.characters, vector_dim=4, cell_dim=6)


class Counting:
    """A recurrence that counts how often it is asked to prepare weights."""

    def __init__(self) -> None:
        self.prepared = 0
        self.recurrence = Recurrence(self.prepare, kernels_named("torch").recurrence.run)

    def prepare(self, weights: LstmWeights, dtype: torch.dtype) -> LstmWeights:
        self.prepared += 1
        return kernels_named("torch").recurrence.prepare(weights, dtype)


@pytest.fixture
def layer() -> LstmLayer:
    return fresh_network(CONFIG).lstm[0].requires_grad_(False)


def bias_of(layer: LstmLayer, counting: Counting, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return layer.prepared(counting.recurrence, dtype).bias


def test_weights_are_prepared_once_and_the_forget_bias_is_in_them(layer):
    counting = Counting()
    first = bias_of(layer, counting)
    assert bias_of(layer, counting) is first
    assert counting.prepared == 1
    assert first.view(2, 4, 6)[:, 2].eq(1).all()
    with torch.inference_mode():
        assert bias_of(layer, counting) is first


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: layer.bias.add_(1),
        lambda layer: layer.load_state_dict({name: tensor + 1 for name, tensor in layer.state_dict().items()}),
        lambda layer: layer.load_state_dict(
            {name: tensor + 1 for name, tensor in layer.state_dict().items()}, assign=True
        ),
        lambda layer: setattr(layer, "bias", torch.nn.Parameter(layer.bias + 1)),
        lambda layer: torch.optim.SGD([_with_gradient(layer.bias)], lr=1.0).step(),
        # As optimizers of old write, past every counter.
        lambda layer: (layer.bias.data.add_(1), layer.eval()),
    ],
    ids=["in place", "loaded", "assigned", "replaced", "trained", "trained by way of .data"],
)
def test_weights_that_have_changed_are_prepared_again(layer, change):
    counting = Counting()
    before = bias_of(layer, counting).clone()
    change(layer)
    assert torch.equal(bias_of(layer.requires_grad_(False), counting), before + 1)
    assert counting.prepared == 2


def _with_gradient(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    parameter.requires_grad_().grad = -torch.ones_like(parameter)
    return parameter


def test_weights_that_were_rounded_and_widened_again_are_prepared_again(layer, monkeypatch):
    # As if the new numbers had come to lie where the old ones were.
    monkeypatch.setattr(weight_versions, "weight_versions", lambda parameters: ())
    counting = Counting()
    layer.bias.fill_(1 / 3)
    exact = bias_of(layer, counting).clone()
    rounded = bias_of(layer.bfloat16().float(), counting)
    assert torch.equal(rounded[:, 0], torch.tensor([1 / 3]).bfloat16().float().expand(2))
    assert not torch.equal(rounded, exact)


def test_a_layer_is_freed_when_its_last_user_lets_go_of_it():
    layer = fresh_network(CONFIG).lstm[0].requires_grad_(False)
    bias_of(layer, Counting())
    gone = weakref.ref(layer)
    gc.disable()  # not by looking for cycles, which happens when it happens
    try:
        del layer
        assert gone() is None
    finally:
        gc.enable()


def test_each_kind_of_number_and_each_kernel_has_its_own_form(layer):
    counting, other = Counting(), Counting()
    assert layer.prepared(counting.recurrence, torch.bfloat16).input.dtype == torch.bfloat16
    assert layer.prepared(counting.recurrence, torch.float32).input.dtype == torch.float32
    layer.prepared(other.recurrence, torch.float32)
    assert (counting.prepared, other.prepared) == (2, 1)


def test_where_gradients_are_wanted_they_lead_through_the_preparation(layer):
    counting = Counting()
    layer.requires_grad_()
    for _ in range(2):
        prepared = layer.prepared(counting.recurrence, torch.float32)
        (gradient,) = torch.autograd.grad(prepared.bias.sum(), layer.bias)
        assert gradient.eq(1).all()
    assert counting.prepared == 2


def test_what_was_prepared_in_inference_mode_serves_a_pass_with_gradients(layer):
    recurrence = kernels_named("cpu").recurrence
    state = torch.zeros(2, 1, 4), torch.zeros(2, 1, 6)
    with torch.inference_mode():
        layer(torch.ones(2, 3, 1, 4), [3], state, recurrence=recurrence)
    x = torch.ones(2, 3, 1, 4, requires_grad=True)
    layer(x, [3], state, recurrence=recurrence)[0].sum().backward()
    assert x.grad.any()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_a_copy_prepares_for_itself(layer, copied):
    counting = Counting()
    bias_of(layer, counting)
    twin = copied(layer)
    twin.bias.add_(1)
    assert torch.equal(bias_of(twin, counting), bias_of(layer, counting) + 1)


class Uncopied:
    """A prepared form that cannot leave its process."""

    def __reduce_ex__(self, _protocol: int) -> str:
        raise AssertionError("the prepared form is copied along")


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
def test_the_prepared_form_is_not_copied_along(layer, copied):
    run = kernels_named("torch").recurrence.run
    assert isinstance(layer.prepared(Recurrence(lambda *_: Uncopied(), run), torch.float32), Uncopied)
    copied(layer)
