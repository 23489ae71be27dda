"""Layers can be named in all the ways that Python and NumPy have for numbers, and are averaged exactly."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from elmore import Embedder, load
from elmore.embedding.layer_choice import LayerChoice
from elmore.errors import InputError


@pytest.mark.parametrize("layers", ["top", 2, -1, np.int64(2), np.int8(-1), np.array(2), torch.tensor(2)])
def test_one_layer_has_many_names(layers) -> None:
    choice = LayerChoice.parse(layers, num_layers=3)
    assert choice == LayerChoice((2,), merged=True)
    assert choice.name == 2


@pytest.mark.parametrize(
    "layers",
    [[0, 2], (0, -1), range(0, 3, 2), slice(None, None, 2), np.array([0, 2]), [np.int32(0), 2], torch.tensor([0, 2])],
)
def test_several_layers_have_many_names(layers) -> None:
    choice = LayerChoice.parse(layers, num_layers=3)
    assert choice == LayerChoice((0, 2), merged=False)
    assert choice.name == [0, 2]


def test_all_and_average_are_all_layers_apart_and_together() -> None:
    assert LayerChoice.parse("all", num_layers=3).name == [0, 1, 2]
    assert LayerChoice.parse(slice(None), num_layers=3) == LayerChoice.parse("all", num_layers=3)
    assert LayerChoice.parse("average", num_layers=3).name == "average"


@pytest.mark.parametrize(
    "layers",
    [
        3,
        -4,
        "2",
        "",
        [],
        [0, 3],
        True,
        [True, False],
        np.array([True, False, True]),
        1.0,
        [0.0],
        None,
        slice(5, 9),
        [[0]],
    ],
)
def test_anything_else_is_refused(layers) -> None:
    with pytest.raises(InputError, match=r"layers is .*; this model has layers 0 to 2"):
        LayerChoice.parse(layers, num_layers=3)


def test_rounded_layers_are_averaged_in_float32() -> None:
    model = load("tiny-random")
    # As bfloat16 is computed where there are no native kernels.
    model = Embedder(replace(model, network=model.network.bfloat16(), start=model.start.to(torch.bfloat16)))
    layers = model.layers(model.batch([["I", "took", "a", "bow"], ["Me", "too"]]))
    assert layers.layer(1).dtype == torch.bfloat16
    every, (mean,) = (
        LayerChoice.parse(name, num_layers=3).take(layers, dtype=torch.float32, device="cpu")
        for name in ("all", "average")
    )
    np.testing.assert_allclose(mean, every.double().mean(dim=0), rtol=1e-6, atol=1e-7)
    # More than bfloat16 could hold.
    assert not torch.equal(mean, mean.bfloat16().float())
