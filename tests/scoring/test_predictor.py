"""Log-probabilities equal to those of a plain reading, step by step, in NumPy and float64."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, repeat

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore.config import Direction
from elmore.errors import InputError, InputWarning
from elmore.formats import Card
from elmore.model import Model
from elmore.network.language_model import LanguageModel
from elmore.network.state import State
from elmore.pretraining.windows import WindowPlan, Windows
from elmore.scoring.predictor import Predictor
from elmore.text.spelling import Speller
from elmore.text.vocabulary import Vocabulary
from one_way import DIRECTIONS, one_way
from reference import Array, Network, RowState
from reference.strategies import KNOWN, batches, many_languages_models, models, patiently, seeds
from reference.twin import Model as ReferenceModel
from reference.twin import Twin

TEXT = [
    ["the", "cat", "sat", "on", "the", "mat", "."],
    ["bow"],
    [],
    ["a", "bow", "and", "arrow", ",", "and", "a", "dog", "."],
    ["the"] * 70,
]


class PlainReader:
    """The truth: one row, one direction, one sentence at a time; float64."""

    def __init__(self, network: Network, model: Model) -> None:
        assert model.softmax is not None
        assert model.vocabulary is not None
        self.network, self.vocabulary, self.unknown = network, model.vocabulary, model.config.unknown
        self.weight, self.bias = (model.softmax()[part].double().numpy() for part in ("weight", "bias"))

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
        return float(scores[number] - np.log(np.exp(scores).sum()))

    def rows(self, sentences: Sequence[Sequence[str]], rows: int) -> list[Array]:
        """As bilm-tf reads (section 9.2 of the format notes): at each step, row by row, who is done takes the next."""
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
    twin = Twin.of(drawn)
    config = twin.bilm.config
    speller = twin.speller
    if not speller.vocabulary:
        speller = Speller(config, vocabulary=Vocabulary(KNOWN))
    assert speller.vocabulary is not None
    random = np.random.default_rng(seed)
    tensors = {
        "weight": torch.from_numpy(random.normal(size=(len(speller.vocabulary), config.vector_dim))),
        "bias": torch.from_numpy(random.normal(size=len(speller.vocabulary))),
    }
    [start] = twin.random_rows(seed, 1)
    model = Model(
        network=twin.bilm,
        speller=speller,
        start=twin.state([start]),
        card=Card(),
        character_vocabulary=drawn.characters if hasattr(drawn, "characters") else None,
        softmax=lambda: tensors,
    )
    return model, PlainReader(twin.network, model), start


@patiently
@given(models, batches, seeds)
def test_from_the_fixed_state_scores_are_those_of_the_reference(
    drawn: ReferenceModel, texts: list[list[str]], seed: int
) -> None:
    model, reader, start = twins(drawn, seed)
    for words, (own_words, found) in zip(texts, Predictor(model).read_from_fixed_state(texts), strict=True):
        assert own_words == words
        assert_close(found, reader.sentence(words, start)[0])


@patiently
@given(models, batches, seeds, st.integers(1, 4))
def test_rows_that_take_a_sentence_at_a_time_are_those_of_bilm_tf(
    drawn: ReferenceModel, texts: list[list[str]], seed: int, rows: int
) -> None:
    model, reader, _ = twins(drawn, seed)
    found = list(Predictor(model).read_carrying_state(texts, rows=rows, passage=1))
    assert [words for words, _ in found] == texts
    for (_, own), expected in zip(found, reader.rows(texts, rows), strict=True):
        assert_close(own, expected)


@patiently
@given(models, batches, seeds)
def test_a_passage_is_read_backwards_from_its_end(drawn: ReferenceModel, texts: list[list[str]], seed: int) -> None:
    model, reader, _ = twins(drawn, seed)
    found = list(Predictor(model).read_carrying_state(texts, rows=2, passage=len(texts)))
    in_order, from_the_end = reader.rows(texts, 1), reader.rows(texts[::-1], 1)[::-1]
    for (words, own), before, after in zip(found, in_order, from_the_end, strict=True):
        assert_close(own, np.stack([before[0], *after[1:]]), reason=str(words))


@pytest.mark.parametrize("direction", DIRECTIONS)
@patiently
@given(many_languages_models(), batches, seeds, st.integers(1, 3), st.integers(1, 3))
def test_a_direction_alone_has_the_scores_it_has_beside_the_other(
    direction: Direction, drawn: ReferenceModel, texts: list[list[str]], seed: int, rows: int, passage: int
) -> None:
    both = twins(drawn, seed)[0]
    alone = one_way(both, direction)
    for way in (Predictor.read_from_fixed_state, partial(Predictor.read_carrying_state, rows=rows, passage=passage)):
        for (_, found), (_, expected) in zip(way(Predictor(alone), texts), way(Predictor(both), texts), strict=True):
            assert_close(found, expected[[DIRECTIONS.index(direction)]])


@pytest.mark.parametrize(("rows", "passage"), [(1, 1), (2, 1), (3, 2), (64, 32)])
def test_chunks_leave_no_trace(toy: Model, monkeypatch: pytest.MonkeyPatch, rows: int, passage: int) -> None:
    text = [TEXT[number % 5] for number in range(23)]
    expected = [found for _, found in Predictor(toy).read_carrying_state(text, rows=rows, passage=passage)]
    for steps in (1, 7, 10_000):
        monkeypatch.setattr("elmore.scoring.rows.CHUNK_STEPS", steps)
        again = [found for _, found in Predictor(toy).read_carrying_state(text, rows=rows, passage=passage)]
        for own, other in zip(expected, again, strict=True):
            assert_close(own, other, atol=2e-5)


def test_a_text_read_as_one_passage_has_the_loss_of_training(toy: Model) -> None:
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
    model.network.load_state_dict(toy.network.state_dict())
    model.softmax_weight.data, model.softmax_bias.data = toy.softmax()["weight"], toy.softmax()["bias"]
    window = windows[0]
    with torch.no_grad():
        losses, _ = model(
            toy.speller.spell([types[number] for number in window.types]),
            torch.from_numpy(window.inputs),
            torch.from_numpy(window.targets),
            State.zeros(toy.config),
        )
    found = Predictor(toy).read_carrying_state(text, rows=1, passage=len(text))
    own = -np.concatenate([scores for _, scores in found], axis=1).mean(axis=1)
    np.testing.assert_allclose(own, losses.numpy(), rtol=1e-5)


def test_a_sentence_has_the_same_scores_alone_in_any_order_and_among_others(toy: Model) -> None:
    predictor = Predictor(toy)
    alone = [next(predictor.read_from_fixed_state([words])).log_probabilities for words in TEXT]
    for order in (range(5), range(4, -1, -1), [3, 1, 4, 0, 2] * 50):
        for number, (words, found) in zip(order, predictor.read_from_fixed_state(TEXT[n] for n in order), strict=True):
            assert words == TEXT[number]
            assert_close(found, alone[number], atol=1e-5)


def test_carried_rows_start_from_zeros_whatever_the_fixed_state(toy: Model) -> None:
    started = replace(toy, start=State(toy.start.h + 0.5, toy.start.c + 0.5))
    cold, warm = (next(Predictor(model).read_from_fixed_state(TEXT)) for model in (toy, started))
    carried = next(Predictor(started).read_carrying_state(TEXT, rows=8, passage=1))
    assert_close(carried.log_probabilities, cold.log_probabilities, atol=1e-5)
    assert np.abs(warm.log_probabilities - cold.log_probabilities).max() > 1e-2


@pytest.mark.parametrize("way", ["fixed", "carry"])
def test_an_endless_stream_is_read_as_far_as_asked(toy: Model, way: str) -> None:
    predictor = Predictor(toy)
    endless: Iterator[list[str]] = repeat(["the", "cat"])
    read = (
        predictor.read_from_fixed_state(endless)
        if way == "fixed"
        else predictor.read_carrying_state(endless, rows=4, passage=3)
    )
    assert len(list(islice(read, 3000))) == 3000


def test_nothing_in_nothing_out(toy: Model) -> None:
    assert list(Predictor(toy).read_from_fixed_state([])) == []
    assert list(Predictor(toy).read_carrying_state([], rows=3, passage=2)) == []


@pytest.mark.parametrize("sentence", [["the", 3], b"the", None])
def test_what_is_no_sentence_is_refused(toy: Model, sentence: object) -> None:
    with pytest.raises(InputError, match="sentence 1"):
        list(Predictor(toy).words_of([["the"], sentence]))  # type: ignore[list-item]


def test_the_word_stands_for_itself_as_input_and_for_unk_as_target(toy: Model) -> None:
    scores = [
        found for _, found in Predictor(toy).read_from_fixed_state([["dog", "sat"], ["pig", "sat"], ["<UNK>", "sat"]])
    ]
    # As targets all three are <UNK>; as inputs they are spelt, so that what comes after them differs.
    assert_close(scores[0][0, 0], scores[1][0, 0], atol=1e-5)
    assert_close(scores[0][0, 0], scores[2][0, 0], atol=1e-5)
    assert abs(scores[0][0, 1] - scores[1][0, 1]) > 1e-3


def assert_close(own: Array, expected: Array, *, atol: float = 1e-9, reason: str = "") -> None:
    np.testing.assert_allclose(own, expected, rtol=0, atol=atol, err_msg=reason)


def test_what_is_advised_about_wrapped_lines_can_be_done(toy: Model) -> None:
    lines = ["so did all of their friends from there, who were on the way to the"] * 5
    with pytest.warns(
        InputWarning, match="look hard-wrapped.*; if that is wrong, write each paragraph in one line, wi"
    ):
        assert len(list(Predictor(toy).words_of("\n".join(lines)))) == 1
    assert len(list(Predictor(toy).words_of("\n\n".join(lines)))) == 5
