import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore.compat.allennlp import ScalarMix
from elmore.errors import InputError
from reference.mixing import masked_batch_norm, mix


def test_a_new_mix_is_a_plain_average() -> None:
    layers = list(torch.randn(3, 2, 5, 4))
    torch.testing.assert_close(ScalarMix(3)(layers), sum(layers) / 3)


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=3), st.floats(-3, 3))
def test_a_mix_is_what_the_equation_says(scalars: list[float], gamma: float) -> None:
    layers = torch.linspace(-1, 2, 3 * 4 * 8).reshape(3, 4, 8)
    scalar_mix = ScalarMix(3, initial_scalar_parameters=scalars)
    scalar_mix.gamma.data.fill_(gamma)
    expected = mix([layer.double().numpy() for layer in layers], scalars, gamma)
    np.testing.assert_allclose(scalar_mix(list(layers)).detach().numpy(), expected, rtol=0, atol=5e-6)


def test_normalisation_counts_real_positions_only() -> None:
    layers = torch.randn(2, 3, 5, 4)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]).bool()
    mixed = ScalarMix(2, do_layer_norm=True)(list(layers), mask)
    normalised = [
        masked_batch_norm([x[m].double().numpy() for x, m in zip(layer, mask, strict=True)]) for layer in layers
    ]
    for row, (first, second) in enumerate(zip(*normalised, strict=True)):
        np.testing.assert_allclose(mixed[row][mask[row]].detach().numpy(), (first + second) / 2, rtol=0, atol=5e-6)


def test_normalisation_takes_any_shape_with_its_mask() -> None:
    layers, mask = torch.randn(2, 6, 5, 4), torch.rand(6, 5) > 0.3
    scalar_mix = ScalarMix(2, do_layer_norm=True)
    flat = scalar_mix(list(layers), mask)
    deep = scalar_mix(list(layers.unflatten(1, (2, 3))), mask.unflatten(0, (2, 3)))
    torch.testing.assert_close(deep.flatten(0, 1), flat)


def test_scalars_are_read_as_a_list_and_stored_as_one_parameter() -> None:
    scalar_mix = ScalarMix(3, initial_scalar_parameters=[0.1, 0.2, 0.3])
    assert [scalar.shape for scalar in scalar_mix.scalar_parameters] == [(1,)] * 3
    assert torch.cat(list(scalar_mix.scalar_parameters)).tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert [name for name, _ in scalar_mix.named_parameters()] == ["scalar_parameters", "gamma"]
    scalar_mix.scalar_parameters[1].data.fill_(7)
    assert scalar_mix.scalar_parameters[1].item() == 7


def test_what_is_not_trainable_has_no_gradient() -> None:
    assert not any(p.requires_grad for p in ScalarMix(3, trainable=False).parameters())
    trained = ScalarMix(3)
    trained(list(torch.randn(3, 2, 4))).sum().backward()
    assert trained.scalar_parameters.grad is not None
    assert trained.gamma.grad is not None


def test_a_state_dict_with_a_list_of_scalars_is_loaded() -> None:
    old = {f"scalar_parameters.{k}": torch.tensor([float(k)]) for k in range(3)} | {"gamma": torch.tensor([2.0])}
    # A copy, because hooks have been known to stay with the original.
    scalar_mix = copy.deepcopy(ScalarMix(3))
    scalar_mix.load_state_dict(old)
    assert scalar_mix.scalar_parameters.flatten().tolist() == [0, 1, 2]
    assert scalar_mix.gamma.item() == 2
    assert "scalar_parameters.0" in old
    again = ScalarMix(3)
    again.load_state_dict(scalar_mix.state_dict())
    assert torch.equal(again.scalar_parameters, scalar_mix.scalar_parameters)


def test_a_state_dict_of_another_mix_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"scalar_parameters"):
        ScalarMix(3).load_state_dict({"scalar_parameters.0": torch.zeros(1), "gamma": torch.ones(1)})


def test_wrong_numbers_of_layers_are_told() -> None:
    with pytest.raises(InputError, match="3 layers was given 2"):
        ScalarMix(3, initial_scalar_parameters=[1.0, 2.0])
    with pytest.raises(InputError, match="weighs 3 layers and was given 2"):
        ScalarMix(3)(list(torch.zeros(2, 4, 4)))
    with pytest.raises(InputError, match="needs the mask"):
        ScalarMix(2, do_layer_norm=True)(list(torch.zeros(2, 4, 4)))
