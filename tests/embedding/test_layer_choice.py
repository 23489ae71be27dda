"""What is taken of a batch's layers is as exact as the layers are."""

import numpy as np
import torch

from elmore import Embedder, load
from elmore.embedding.layer_choice import LayerChoice

SENTENCES = [["I", "took", "a", "bow"], ["Me", "too"]]


def test_rounded_layers_are_averaged_in_float32() -> None:
    model = Embedder(load("tiny-random"), compute="bfloat16")
    layers = model.layers(model.batch(SENTENCES))
    assert layers.layer(1).dtype == torch.bfloat16
    every, average = (LayerChoice.parse(name, num_layers=3).take(layers) for name in ("all", "average"))
    for apart, mean in zip(every, average, strict=True):
        np.testing.assert_allclose(mean, apart.astype(np.float64).mean(axis=0), rtol=1e-6, atol=1e-7)
        # More than bfloat16 could hold.
        assert not np.array_equal(mean, torch.from_numpy(mean).bfloat16().float().numpy())
