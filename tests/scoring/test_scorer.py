"""Scores equal those of a plain implementation that reads step by step in float64; classes and errors of a softmax."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore import Embedder, load, perplexity, substitutes, surprisal
from elmore.config import Direction
from elmore.engine import open_engine
from elmore.engine.state import State
from elmore.engine.weights import as_float
from elmore.errors import FormatError, InputError, InputWarning
from elmore.model import Model
from elmore.nn.bilm import BiLM, StateTensors
from elmore.nn.language_model import LanguageModel
from elmore.nn.word_encoder import WordIdTensors
from elmore.pretraining.windows import WindowPlan, Windows
from elmore.scoring.scorer import LanguageModelScorer, Softmax
from elmore.text.vocabulary import Vocabulary
from one_way import DIRECTIONS, one_way
from random_softmax import with_softmax
from reference import Array, Network, RowState
from reference.as_checkpoint import as_checkpoint
from reference.many_languages import ManyLanguagesModel
from reference.published import PublishedModel
from reference.strategies import KNOWN, batches, many_languages_models, models, patiently, seeds

ReferenceModel = PublishedModel | ManyLanguagesModel

TEXT = [
    ["the", "cat", "sat", "on", "the", "mat", "."],
    ["bow"],
    [],
    ["a", "bow", "and", "arrow", ",", "and", "a", "dog", "."],
    ["the"] * 70,
]


class PlainReader:
    """The specification: one row, one direction, one sentence at a time; float64."""

    def __init__(self, network: Network, model: Model) -> None:
        assert model.softmax is not None
        assert model.vocabulary is not None
        self.network, self.vocabulary, self.unknown = network, model.vocabulary, model.config.unk_token
        arrays = model.softmax()
        self.weight, self.bias = (np.asarray(arrays[part], dtype=np.float64) for part in ("weight", "bias"))

    def sentence(self, words: Sequence[str], state: RowState) -> tuple[Array, RowState]:
        """(G, n + 1), and the state after it."""
        forwards = [self.network.begin, *words, self.network.end]
        found, after = [], []
        for reading, cells, carried in zip([forwards, forwards[::-1]], self.network.directions, state, strict=False):
            vectors = [self.network.token_vector(word) for word in reading[:-1]]
            layers, ends = self.network._climb(cells, vectors, carried)
            pairs = zip(layers[-1], reading[1:], strict=True)
            found.append([self.log_probability(hidden, target) for hidden, target in pairs])
            after.append(ends)
        return np.array(found), after

    def log_probability(self, hidden: Array, target: str) -> float:
        scores = self.weight @ hidden + self.bias
        known = target in self.vocabulary
        number = max(n for n, word in enumerate(self.vocabulary.words) if word == (target if known else self.unknown))
        return float(scores[number] - scores.max() - np.log(np.exp(scores - scores.max()).sum()))

    def rows(self, sentences: Sequence[Sequence[str]], rows: int) -> list[Array]:
        """As bilm-tf reads (section 9.2 of the format notes): each finished row takes the next sentence."""
        waiting, left = list(sentences), [0] * rows
        states = [self.network.zero_state() for _ in range(rows)]
        found = []
        while waiting:
            for row in range(rows):
                if left[row] == 0 and waiting:
                    words = waiting.pop(0)
                    scores, states[row] = self.sentence(words, states[row])
                    found.append(scores)
                    left[row] = len(words) + 1
            left = [max(steps - 1, 0) for steps in left]
        return found


def twins(drawn: ReferenceModel, seed: int) -> tuple[Model, PlainReader, RowState]:
    """A model that starts from a random state, the reader it is compared with, and that state."""
    plain = Model(as_checkpoint(drawn))
    model = with_softmax(plain, plain.vocabulary or Vocabulary(KNOWN), seed=seed)
    draw = np.random.default_rng(seed)
    zeros = State.zeros(model.config)
    start = State(*(draw.normal(0, 0.5, part.shape).astype(np.float32) for part in (zeros.h, zeros.c)))
    row = [
        [(h[0].astype(np.float64), c[0].astype(np.float64)) for h, c in zip(start.h[:, g], start.c[:, g], strict=True)]
        for g in range(model.config.num_directions)
    ]
    model = model.with_start(start, "random numbers")
    return model, PlainReader(drawn.network(), model), row


@patiently
@given(models, batches, seeds)
def test_score_equals_reference(drawn: ReferenceModel, texts: list[list[str]], seed: int) -> None:
    model, reader, start = twins(drawn, seed)
    for words, (own_words, found) in zip(texts, LanguageModelScorer(model).score(texts), strict=True):
        assert own_words == words
        assert_close(found, reader.sentence(words, start)[0])


@patiently
@given(models, batches, seeds, st.integers(1, 4))
def test_score_carrying_state_of_single_sentences_equals_bilm_tf(
    drawn: ReferenceModel, texts: list[list[str]], seed: int, rows: int
) -> None:
    model, reader, _ = twins(drawn, seed)
    found = list(LanguageModelScorer(model).score_carrying_state(texts, rows=rows, passage=1))
    assert [words for words, _ in found] == texts
    for (_, own), expected in zip(found, reader.rows(texts, rows), strict=True):
        assert_close(own, expected)


@patiently
@given(models, batches, seeds)
def test_score_carrying_state_reads_passages_backward_from_their_end(
    drawn: ReferenceModel, texts: list[list[str]], seed: int
) -> None:
    model, reader, _ = twins(drawn, seed)
    found = list(LanguageModelScorer(model).score_carrying_state(texts, rows=2, passage=len(texts)))
    in_order, from_the_end = reader.rows(texts, 1), reader.rows(texts[::-1], 1)[::-1]
    for (words, own), before, after in zip(found, in_order, from_the_end, strict=True):
        assert_close(own, np.stack([before[0], *after[1:]]), reason=str(words))


@pytest.mark.parametrize("direction", DIRECTIONS)
@patiently
@given(many_languages_models(), batches, seeds, st.integers(1, 3), st.integers(1, 3))
def test_scores_of_one_direction_equal_those_of_both(
    direction: Direction, drawn: ReferenceModel, texts: list[list[str]], seed: int, rows: int, passage: int
) -> None:
    both = twins(drawn, seed)[0]
    alone = one_way(both, direction)
    for read in (
        LanguageModelScorer.score,
        partial(LanguageModelScorer.score_carrying_state, rows=rows, passage=passage),
    ):
        for (_, found), (_, expected) in zip(
            read(LanguageModelScorer(alone), texts), read(LanguageModelScorer(both), texts), strict=True
        ):
            assert_close(found, expected[[DIRECTIONS.index(direction)]])


@pytest.mark.parametrize(("rows", "passage"), [(1, 1), (2, 1), (3, 2), (64, 32)])
def test_scores_do_not_depend_on_the_size_of_chunks(
    toy: Model, monkeypatch: pytest.MonkeyPatch, rows: int, passage: int
) -> None:
    text = [TEXT[number % 5] for number in range(23)]
    expected = [found for _, found in LanguageModelScorer(toy).score_carrying_state(text, rows=rows, passage=passage)]
    for steps in (1, 7, 10_000):
        monkeypatch.setattr("elmore.scoring.rows.CHUNK_STEPS", steps)
        again = [found for _, found in LanguageModelScorer(toy).score_carrying_state(text, rows=rows, passage=passage)]
        for own, other in zip(expected, again, strict=True):
            assert_close(own, other)


def test_scores_of_one_passage_equal_the_training_loss(toy: Model) -> None:
    assert toy.softmax is not None
    assert toy.vocabulary is not None
    text = [words for words in TEXT if words]
    types = ["<S>", "</S>", *sorted({word for words in text for word in words})]
    stream = [0]
    for words in text:
        stream += [*map(types.index, words), 0]
    classes = [toy.vocabulary.word_id(word, unknown="<UNK>") for word in types]
    steps = len(stream) - 1
    windows = Windows(np.array(stream, np.uint32), np.array(classes, np.uint32), WindowPlan(batch_size=1, length=steps))
    model = LanguageModel(toy.config, classes=len(toy.vocabulary))
    model.network.load_state_dict(BiLM.from_checkpoint(toy.checkpoint).state_dict())
    softmax = toy.softmax()
    model.softmax_weight.data, model.softmax_bias.data = (
        torch.from_numpy(np.asarray(softmax[part])) for part in ("weight", "bias")
    )
    window = windows[0]
    with torch.no_grad():
        losses, _ = model(
            WordIdTensors.of(toy.word_indexer.index([types[number] for number in window.types])),
            torch.from_numpy(window.inputs),
            torch.from_numpy(window.targets),
            StateTensors.zeros(toy.config),
        )
    found = LanguageModelScorer(toy).score_carrying_state(text, rows=1, passage=len(text))
    own = -np.concatenate([scores for _, scores in found], axis=1).mean(axis=1)
    np.testing.assert_allclose(own, losses.numpy(), rtol=1e-5)


def test_sentence_has_the_same_scores_in_any_order_and_batch(toy: Model) -> None:
    scorer = LanguageModelScorer(toy)
    alone = [next(scorer.score([words])).log_probabilities for words in TEXT]
    for order in (range(5), range(4, -1, -1), [3, 1, 4, 0, 2] * 50):
        for number, (words, found) in zip(order, scorer.score(TEXT[n] for n in order), strict=True):
            assert words == TEXT[number]
            assert_close(found, alone[number])


def test_carried_rows_start_from_zeros_for_any_start_state(toy: Model) -> None:
    started = toy.with_start(State(toy.start.h + 0.5, toy.start.c + 0.5), "a test")
    cold, warm = (next(LanguageModelScorer(model).score(TEXT)) for model in (toy, started))
    carried = next(LanguageModelScorer(started).score_carrying_state(TEXT, rows=8, passage=1))
    assert_close(carried.log_probabilities, cold.log_probabilities)
    assert np.abs(warm.log_probabilities - cold.log_probabilities).max() > 1e-2


@pytest.mark.parametrize("state", ["fixed", "carry"])
def test_scorer_reads_an_endless_stream_on_demand(toy: Model, state: str) -> None:
    scorer = LanguageModelScorer(toy)
    endless: Iterator[list[str]] = repeat(["the", "cat"])
    read = scorer.score(endless) if state == "fixed" else scorer.score_carrying_state(endless, rows=4, passage=3)
    assert len(list(islice(read, 3000))) == 3000


def test_scorer_without_sentences_returns_nothing(toy: Model) -> None:
    assert list(LanguageModelScorer(toy).score([])) == []
    assert list(LanguageModelScorer(toy).score_carrying_state([], rows=3, passage=2)) == []


@pytest.mark.parametrize("sentence", [["the", 3], b"the", None])
def test_tokenize_sentences_names_a_wrong_sentence(toy: Model, sentence: Any) -> None:
    with pytest.raises(InputError, match="sentence 1"):
        list(LanguageModelScorer(toy).tokenize_sentences([["the"], sentence]))


@pytest.mark.parametrize(
    ("sentences", "message"), [(Path("text.txt"), "'text.txt' is a path"), (5, "5 is no text"), (None, "None is no")]
)
def test_scoring_rejects_what_is_no_text(toy: Model, sentences: Any, message: str) -> None:
    for score in (perplexity, surprisal):
        with pytest.raises(InputError, match=message):
            score(sentences, model=toy)


@pytest.mark.parametrize("wrong", [5, ["elmore-en"]])
def test_scoring_rejects_what_is_no_model(wrong: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: perplexity("A cat.", model=wrong),
        lambda: surprisal("A cat.", model=wrong),
        lambda: substitutes("A [cat].", model=wrong),
    ]
    for call in calls:
        with pytest.raises(InputError, match="give a name, a path, a Model or a LanguageModelScorer"):
            call()


def test_scoring_rejects_an_embedder_as_model(tiny: Embedder) -> None:
    with pytest.raises(InputError, match="give a name, a path, a Model or a LanguageModelScorer"):
        perplexity("A cat.", model=tiny)  # type: ignore[arg-type]


@pytest.mark.parametrize(("option", "value"), [("device", "cpu"), ("device", "auto"), ("compute", "float32")])
def test_scoring_accepts_the_engine_options_of_a_scorer(toy: Model, option: str, value: Any) -> None:
    scorer = LanguageModelScorer(toy)
    assert perplexity(TEXT, model=scorer, **{option: value}) == perplexity(TEXT, model=toy)


def test_scoring_rejects_other_engine_options_than_the_scorers(toy: Model) -> None:
    scorer = LanguageModelScorer(toy)
    with pytest.raises(InputError, match="compute is 'bfloat16', and this model was opened with 'float32'"):
        perplexity(TEXT, model=scorer, compute="bfloat16")
    with pytest.raises(InputError, match="device"):
        substitutes("the [cat]", model=scorer, device="tpu")


def test_word_is_read_by_its_characters_and_predicted_as_unknown(toy: Model) -> None:
    scores = [found for _, found in LanguageModelScorer(toy).score([["dog", "sat"], ["pig", "sat"], ["<UNK>", "sat"]])]
    # As targets all three are <UNK>. As inputs they have their characters, so the scores of the next word differ.
    assert_close(scores[0][0, 0], scores[1][0, 0])
    assert_close(scores[0][0, 0], scores[2][0, 0])
    assert abs(scores[0][0, 1] - scores[1][0, 1]) > 1e-3


def test_tokenize_sentences_gives_useful_advice_about_wrapped_lines(toy: Model) -> None:
    lines = ["so did all of their friends from there, who were on the way to the"] * 5
    with pytest.warns(
        InputWarning, match="look hard-wrapped.*; if this is wrong, write each paragraph on one line, wi"
    ):
        assert len(list(LanguageModelScorer(toy).tokenize_sentences("\n".join(lines)))) == 1
    assert len(list(LanguageModelScorer(toy).tokenize_sentences("\n\n".join(lines)))) == 5


def test_scorer_frees_the_weights_of_the_network(toy: Model) -> None:
    assert LanguageModelScorer(toy).model.checkpoint.tensors == {}


def test_threads_share_a_scorer_with_identical_bits(toy: Model) -> None:
    scorer = LanguageModelScorer(toy)
    texts = [[["the", "cat", f"word{number}", "sat"], ["a", "bow"] * (number % 5)] for number in range(12)]

    def score(number: int) -> list[Any]:
        text = texts[number % len(texts)]
        fixed = [found for _, found in scorer.score(text)]
        carried = [found for _, found in scorer.score_carrying_state(text, rows=2, passage=1)]
        best = substitutes("the [cat] sat", model=scorer).both or []
        return [*fixed, *carried, np.array([probability for _, probability in best])]

    expected = [score(number) for number in range(len(texts))]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # many switches between threads
    try:
        with ThreadPoolExecutor(6) as pool:
            for number, found in enumerate(pool.map(score, range(48), timeout=120)):
                for one, other in zip(found, expected[number % len(texts)], strict=True):
                    assert np.array_equal(one, other)
    finally:
        sys.setswitchinterval(interval)


def test_threads_continue_when_one_scores_wrong_input(toy: Model) -> None:
    scorer = LanguageModelScorer(toy)

    def score(number: int) -> str:
        try:
            return f"{perplexity(TEXT if number % 3 else [['the', 3]], model=scorer).mean:.6f}"
        except InputError:
            return "error"

    expected = score(1)
    assert math.isfinite(float(expected))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(score, range(24), timeout=120))
    assert found == ["error" if number % 3 == 0 else expected for number in range(24)]


def assert_close(own: Array, expected: Array, *, reason: str = "") -> None:
    """float32 against float64."""
    np.testing.assert_allclose(own, expected, rtol=1e-5, atol=2e-5, err_msg=reason)


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
