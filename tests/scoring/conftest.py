"""Models with a softmax, for the tests of scoring."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from elmore.model import Model, model_of
from elmore.text.spelling import Speller
from elmore.text.vocabulary import Vocabulary
from elmore.tiny_random import tiny_checkpoint

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "a", "mat", ".", ",", "bow", "and", "arrow", '"']


def with_softmax(model: Model, vocabulary: Vocabulary, *, seed: int = 1) -> Model:
    """The model with random numbers for a softmax."""
    random = torch.Generator().manual_seed(seed)
    shape = (len(vocabulary), model.config.vector_dim)
    tensors = {"weight": torch.randn(shape, generator=random), "bias": torch.randn(len(vocabulary), generator=random)}
    speller = Speller(model.config, vocabulary=vocabulary, character_vocabulary=model.character_vocabulary)
    return replace(model, speller=speller, softmax=lambda: tensors)


@pytest.fixture(scope="session")
def toy() -> Model:
    """The tiny random model, which predicts fifteen words."""
    return with_softmax(model_of(tiny_checkpoint()), Vocabulary(WORDS))


@pytest.fixture(scope="session")
def give_softmax() -> Callable[..., Model]:
    return with_softmax
