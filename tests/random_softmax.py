"""Models with a softmax of random numbers."""

from dataclasses import replace

import numpy as np

from elmore.model import Model
from elmore.text.vocabulary import Vocabulary


def with_softmax(model: Model, vocabulary: Vocabulary, *, seed: int = 1) -> Model:
    """The model with this vocabulary, and random numbers as its softmax."""
    draw = np.random.default_rng(seed)
    arrays = {
        "weight": draw.normal(size=(len(vocabulary), model.config.vector_dim)).astype(np.float32),
        "bias": draw.normal(size=len(vocabulary)).astype(np.float32),
    }
    return Model(replace(model.checkpoint, vocabulary=vocabulary, softmax=lambda: arrays))
