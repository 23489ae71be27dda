"""The softmax of a model: its classes, and errors for models without one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmore import load
from elmore.engine import open_engine
from elmore.engine.weights import as_float
from elmore.errors import FormatError, InputError
from elmore.model import Model
from elmore.scoring.scorer import Softmax
from elmore.text.vocabulary import Vocabulary
from random_softmax import with_softmax


def softmax_of(model: Model) -> Softmax:
    return Softmax.of(model, open_engine(model.checkpoint, device="cpu"))


def changed(model: Model, **fields: Any) -> Model:
    return Model(replace(model.checkpoint, **fields))


def test_log_probabilities_equal_the_whole_softmax(toy: Model) -> None:
    assert toy.softmax is not None
    arrays = {name: as_float(array).astype(np.float64) for name, array in toy.softmax().items()}
    draw = np.random.default_rng(1)
    hidden = draw.normal(size=(20, toy.config.vector_dim)).astype(np.float32)
    classes = draw.integers(0, 15, size=20)
    scores = hidden @ arrays["weight"].T + arrays["bias"]
    expected = scores[np.arange(20), classes] - np.log(np.exp(scores).sum(axis=1))
    np.testing.assert_allclose(softmax_of(toy).log_probabilities(hidden, classes), expected, rtol=0, atol=2e-5)


def test_log_distribution_equals_log_probabilities_and_sums_to_one(toy: Model) -> None:
    softmax = softmax_of(toy)
    hidden = np.random.default_rng(2).normal(size=toy.config.vector_dim).astype(np.float32)
    every = np.arange(len(softmax.vocabulary))
    distribution = softmax.log_distribution(hidden)
    expected = softmax.log_probabilities(np.tile(hidden, (len(every), 1)), every)
    np.testing.assert_allclose(distribution, expected, rtol=0, atol=1e-5)
    assert np.exp(distribution.astype(np.float64)).sum() == pytest.approx(1, abs=1e-6)


def test_unknown_words_share_a_class_and_are_not_known(toy: Model) -> None:
    softmax = softmax_of(toy)
    assert [softmax.class_id(word) for word in ("the", "dog", "<UNK>")] == [3, 2, 2]
    assert [softmax.has_class(word) for word in ("the", "dog", "<UNK>")] == [True, False, False]


def test_model_without_softmax_raises_error_that_lists_models(fixtures: Path) -> None:
    with pytest.raises(InputError) as error:
        softmax_of(load(fixtures / "allennlp"))
    message = str(error.value)
    assert f"{fixtures / 'allennlp'} (hdf5) has no softmax" in message
    assert all(source in message for source in ("TensorFlow", "classifier.pkl", "elmore pretrain", "elmore-en"))


def test_softmax_without_vocabulary_requires_the_file(toy: Model) -> None:
    with pytest.raises(InputError, match="vocabulary of its classes is missing; give the file with --vocabulary"):
        softmax_of(changed(toy, vocabulary=None))


def test_softmax_rejects_a_vocabulary_of_another_size(toy: Model) -> None:
    assert toy.vocabulary is not None
    with pytest.raises(FormatError, match="the softmax has 15 classes and the vocabulary 14 words"):
        softmax_of(changed(toy, vocabulary=Vocabulary(toy.vocabulary.words[:-1])))


def test_softmax_rejects_a_vocabulary_without_boundaries(toy: Model) -> None:
    with pytest.raises(FormatError, match=r"the vocabulary lacks </S>"):
        softmax_of(with_softmax(toy, Vocabulary(["<S>", "<UNK>", "a"])))


def test_softmax_without_unk_names_an_unknown_word(toy: Model) -> None:
    softmax = softmax_of(with_softmax(toy, Vocabulary(["<S>", "</S>", "a"])))
    with pytest.raises(InputError, match="'dog' is not in the vocabulary"):
        softmax.class_id("dog")


def test_softmax_reads_the_classifier_of_elmoformanylangs(fixtures: Path, tmp_path: Path) -> None:
    source = fixtures / "elmoformanylangs" / "elmo_word_char"
    for file in source.iterdir():
        if file.name != "encoder_cuda_storage.pkl":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    config = load(source).config
    words, size = config.vocab_size, config.vector_dim
    stored = {"column_emb.weight": torch.randn(words, size), "column_bias.weight": torch.randn(words, 1)}
    torch.save(stored | {"oov_column": torch.randn(size, 1)}, tmp_path / "classifier.pkl")
    softmax = softmax_of(load(tmp_path))
    hidden = torch.randn(size)
    expected = (stored["column_emb.weight"] @ hidden + stored["column_bias.weight"][:, 0]).double().log_softmax(dim=0)
    np.testing.assert_allclose(softmax.log_distribution(hidden.numpy()), expected, rtol=0, atol=2e-5)
    assert softmax.class_id("never seen") == softmax.vocabulary.index["<oov>"]
