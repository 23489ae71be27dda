"""A tiny model with random weights, written by the project itself: for trying things out, for docs and tests.

Its vectors mean nothing, but they are real: characters, both directions, three layers, and the same numbers on every
machine.
"""

import numpy as np
import torch

from elmore.config import CharacterConfig, ModelConfig, tensor_shapes
from elmore.formats import Card, Checkpoint

NAME = "tiny-random"

CONFIG = ModelConfig(
    characters=CharacterConfig(embedding_dim=8, filters=((1, 8), (2, 16), (3, 24)), n_highways=1),
    vector_dim=16,
    cell_dim=48,
)


def tiny_checkpoint() -> Checkpoint:
    """The tiny model, made anew."""
    # RandomState, because its stream is frozen for good; newer generators may change between versions of NumPy.
    random = np.random.RandomState(2018)
    tensors = {}
    for name, shape in tensor_shapes(CONFIG).items():
        # Roughly what keeps a signal alive through a layer, so that context visibly moves the vectors.
        spread = (
            1.0 if name == "words.characters" else 1.5 / np.sqrt(np.prod(shape[1:-1]) if len(shape) > 2 else shape[-1])
        )
        tensors[name] = torch.from_numpy(random.normal(scale=spread, size=shape).astype(np.float32))
    card = Card(
        name=NAME,
        description="Random weights, never trained: its vectors mean nothing. For trying things out.",
        licence="Apache-2.0",
        source="written by elmore itself",
        format="built in",
    )
    return Checkpoint(config=CONFIG, tensors=tensors, card=card)
