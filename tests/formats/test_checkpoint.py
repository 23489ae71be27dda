from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from elmore.config import ModelConfig
from elmore.errors import FormatError
from elmore.formats import Checkpoint, Int8Array
from elmore.formats.arrays import quantize
from elmore.sources.tiny_random import random_tensors, tiny_checkpoint
from elmore.text.vocabulary import Vocabulary

WORDS = ModelConfig(
    characters=None, vocab_size=3, word_embedding_dim=4, vector_dim=4, cell_dim=6, token_projection=False
)


def test_check_accepts_float32_and_int8() -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.check()
    small = replace(checkpoint, tensors=quantize(checkpoint.tensors))
    small.check()
    assert any(isinstance(array, Int8Array) for array in small.tensors.values())
    assert all(array.dtype == np.float32 for array in small.float_arrays().values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lstm.0.bias": torch.zeros(2, 192)}, r"lstm\.0\.bias is a Tensor; a NumPy array is required"),
        ({"lstm.0.bias": np.zeros((2, 192))}, r"lstm\.0\.bias has the type float64; float32 is required"),
        (
            {"lstm.0.bias": np.zeros((2, 191), np.float32)},
            r"lstm\.0\.bias has shape \(2, 191\); the config",
        ),
        ({"extra": np.zeros(1, np.float32)}, r"the configuration has no arrays extra"),
    ],
)
def test_check_names_a_tensor_that_does_not_fit(change: dict[str, Any], message: str) -> None:
    checkpoint = tiny_checkpoint()
    with pytest.raises(FormatError, match=message):
        replace(checkpoint, tensors={**checkpoint.tensors, **change}).check()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (None, "its vocabulary is missing"),
        (["<S>", "</S>", "a", "b"], "the vocabulary has 4 words and the word table 3 rows"),
        (["<S>", "a"], "the vocabulary lacks </S>"),
    ],
)
def test_check_names_a_vocabulary_that_does_not_fit(words: list[str] | None, message: str) -> None:
    tensors = random_tensors(WORDS, seed=1, gain=1.0)
    vocabulary = None if words is None else Vocabulary(words)
    with pytest.raises(FormatError, match=message):
        Checkpoint(config=WORDS, tensors=tensors, vocabulary=vocabulary).check()
    Checkpoint(config=WORDS, tensors=tensors, vocabulary=Vocabulary(["<S>", "</S>"])).check()
