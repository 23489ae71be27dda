"""The built-in model `tiny-random`: a tiny biLM with random weights, for trying things out, for documents and tests.

It has characters, both directions and three layers, and the same weights on every machine. Its vectors mean nothing.
"""

import numpy as np

from elmore.config import CharacterConfig, ModelConfig, tensor_shapes
from elmore.defaults import TINY_MODEL
from elmore.formats import Checkpoint, ModelCard, StoredArray
from elmore.text.style import TOKENIZER_VERSION, TokenizerConfig

CONFIG = ModelConfig(
    characters=CharacterConfig(embedding_dim=8, filters=((1, 8), (2, 16), (3, 24)), num_highways=1),
    vector_dim=16,
    cell_dim=48,
)


def tiny_checkpoint() -> Checkpoint:
    """Build the model."""
    card = ModelCard(
        name=TINY_MODEL,
        description="Random weights, never trained: its vectors mean nothing. For trying things out.",
        license="Apache-2.0",
        source="written by elmore itself",
        format="built in",
        text=TokenizerConfig(tokenizer_version=TOKENIZER_VERSION),
    )
    # The gain is above 1, so that the context changes the vectors visibly.
    return Checkpoint(config=CONFIG, tensors=random_tensors(CONFIG, seed=2018, gain=1.5), card=card)


def random_tensors(config: ModelConfig, *, seed: int, gain: float) -> dict[str, StoredArray]:
    """Draw all tensors of a model. With a gain of about 1, the layers have outputs of about the same size."""
    # RandomState, because its numbers never change; those of newer generators may change between versions of NumPy.
    random = np.random.RandomState(seed)
    tensors: dict[str, StoredArray] = {}
    for name, shape in tensor_shapes(config).items():
        fan_in = np.prod(shape[1:-1]) if len(shape) > 2 else shape[-1]
        scale = 1.0 if name == "words.characters" else gain / np.sqrt(fan_in)
        tensors[name] = random.normal(scale=scale, size=shape).astype(np.float32)
    return tensors
