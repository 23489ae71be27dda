"""A tiny model with random weights, written by the project itself: for trying things out, for docs and tests.

Its vectors mean nothing, but they are real: characters, both directions, three layers, and the same numbers on every
machine.
"""

import numpy as np

from elmore.config import CharacterConfig, ModelConfig, tensor_shapes
from elmore.formats import Checkpoint, ModelCard, StoredArray
from elmore.text.style import TOKENIZER_VERSION, TokenizerConfig

NAME = "tiny-random"

CONFIG = ModelConfig(
    characters=CharacterConfig(embedding_dim=8, filters=((1, 8), (2, 16), (3, 24)), num_highways=1),
    vector_dim=16,
    cell_dim=48,
)


def tiny_checkpoint() -> Checkpoint:
    """The tiny model, made anew."""
    card = ModelCard(
        name=NAME,
        description="Random weights, never trained: its vectors mean nothing. For trying things out.",
        license="Apache-2.0",
        source="written by elmore itself",
        format="built in",
        text=TokenizerConfig(tokenizer_version=TOKENIZER_VERSION),
    )
    # Above 1, so that context visibly moves the vectors.
    return Checkpoint(config=CONFIG, tensors=random_tensors(CONFIG, seed=2018, gain=1.5), card=card)


def random_tensors(config: ModelConfig, *, seed: int, gain: float) -> dict[str, StoredArray]:
    """All tensors of a model of this shape; with a gain of about 1 a signal stays alive through a layer."""
    # RandomState, because its stream is frozen for good; newer generators may change between versions of NumPy.
    random = np.random.RandomState(seed)
    tensors: dict[str, StoredArray] = {}
    for name, shape in tensor_shapes(config).items():
        fan_in = np.prod(shape[1:-1]) if len(shape) > 2 else shape[-1]
        scale = 1.0 if name == "words.characters" else gain / np.sqrt(fan_in)
        tensors[name] = random.normal(scale=scale, size=shape).astype(np.float32)
    return tensors
