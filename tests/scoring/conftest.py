"""Models with a softmax, for the tests of scoring."""

import pytest

from elmore.model import Model
from elmore.text.vocabulary import Vocabulary
from random_softmax import with_softmax

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "a", "mat", ".", ",", "bow", "and", "arrow", '"']


@pytest.fixture(scope="session")
def toy(tiny_model: Model) -> Model:
    """The tiny random model with a softmax of fifteen words."""
    return with_softmax(tiny_model, Vocabulary(WORDS))
