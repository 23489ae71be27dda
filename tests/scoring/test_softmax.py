"""The softmax over all classes, block by block, and what is said where there is none."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmore import load
from elmore.errors import FormatError, InputError
from elmore.model import Model
from elmore.scoring import softmax
from elmore.scoring.softmax import Softmax
from elmore.text.spelling import Speller
from elmore.text.vocabulary import Vocabulary


# Scores far apart, and so alike that every class has its share of the whole.
@pytest.mark.parametrize("spread", [9.0, 0.3])
@pytest.mark.parametrize(("positions", "scores"), [(1024, 2**21), (7, 1), (7, 30), (3, 10**9)])
def test_pieces_give_what_the_whole_gives(
    monkeypatch: pytest.MonkeyPatch, positions: int, scores: int, spread: float
) -> None:
    monkeypatch.setattr(softmax, "POSITIONS_AT_ONCE", positions)
    monkeypatch.setitem(softmax.LOGITS_AT_ONCE, "cpu", scores)
    torch.manual_seed(1)
    weight, bias, hidden = torch.randn(50, 4) * spread, torch.randn(50), torch.randn(20, 4)
    classes = torch.randint(50, (20,))
    own = Softmax(weight, bias, Vocabulary([]), "<UNK>").log_probabilities(hidden, classes)
    expected = (hidden @ weight.T + bias).double().log_softmax(dim=1).gather(1, classes[:, None])[:, 0]
    torch.testing.assert_close(own.double(), expected, rtol=0, atol=2e-5)


def test_one_position_has_the_same_probabilities_and_they_sum_to_one(toy: Model) -> None:
    whole = Softmax.of(toy)
    hidden = torch.randn(toy.config.vector_dim)
    every = torch.arange(len(whole.vocabulary))
    distribution = whole.log_distribution(hidden)
    torch.testing.assert_close(distribution, whole.log_probabilities(hidden.expand(len(every), -1), every))
    assert distribution.exp().sum().item() == pytest.approx(1, abs=1e-6)


def test_unknown_words_share_a_class_and_are_not_known(toy: Model) -> None:
    whole = Softmax.of(toy)
    assert [whole.class_of(word) for word in ("the", "dog", "<UNK>")] == [3, 2, 2]
    assert [whole.knows(word) for word in ("the", "dog", "<UNK>")] == [True, False, False]


def test_a_model_without_softmax_is_told_where_one_comes_from(fixtures: Path) -> None:
    with pytest.raises(InputError) as error:
        Softmax.of(load(fixtures / "allennlp"))
    message = str(error.value)
    assert f"{fixtures / 'allennlp'} (hdf5) has no softmax" in message
    assert all(source in message for source in ("TensorFlow", "classifier.pkl", "elmore pretrain"))


def test_a_softmax_without_vocabulary_asks_for_the_file(toy: Model) -> None:
    with pytest.raises(
        InputError, match="vocabulary that names its classes is missing; give the file with --vocabulary"
    ):
        Softmax.of(replace(toy, speller=Speller(toy.config)))


def test_a_vocabulary_of_another_size_is_refused(toy: Model) -> None:
    assert toy.vocabulary is not None
    short = Vocabulary(toy.vocabulary.words[:-1])
    with pytest.raises(FormatError, match="the softmax has 15 classes and the vocabulary 14 words"):
        Softmax.of(replace(toy, speller=Speller(toy.config, vocabulary=short)))


def test_a_vocabulary_without_boundaries_is_refused(toy: Model, give_softmax: Callable[..., Model]) -> None:
    with pytest.raises(FormatError, match=r"the vocabulary lacks </S>"):
        Softmax.of(give_softmax(toy, Vocabulary(["<S>", "<UNK>", "a"])))


def test_without_unk_an_unknown_word_is_named(toy: Model, give_softmax: Callable[..., Model]) -> None:
    whole = Softmax.of(give_softmax(toy, Vocabulary(["<S>", "</S>", "a"])))
    with pytest.raises(InputError, match="'dog' is not in the vocabulary"):
        whole.class_of("dog")


def test_the_classifier_of_elmoformanylangs_is_a_softmax(fixtures: Path, tmp_path: Path) -> None:
    source = fixtures / "elmoformanylangs" / "elmo_word_char"
    for file in source.iterdir():
        if file.name != "encoder_cuda_storage.pkl":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    config = load(source).config
    words, size = config.n_words, config.vector_dim
    stored = {"column_emb.weight": torch.randn(words, size), "column_bias.weight": torch.randn(words, 1)}
    torch.save(stored | {"oov_column": torch.randn(size, 1)}, tmp_path / "classifier.pkl")
    whole = Softmax.of(load(tmp_path))
    torch.testing.assert_close(whole.weight, stored["column_emb.weight"])
    torch.testing.assert_close(whole.bias, stored["column_bias.weight"][:, 0])
    assert whole.class_of("never seen") == whole.vocabulary.index["<oov>"]
