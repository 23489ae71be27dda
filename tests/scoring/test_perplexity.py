"""Perplexities equal to those of bilm-tf's test, and what counts in them."""

import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from heapq import heapreplace
from pathlib import Path

import numpy as np
import pytest

from elmore import load
from elmore.config import Direction
from elmore.engine.state import State
from elmore.errors import InputError, InputWarning
from elmore.model import Model
from elmore.scoring import LanguageModelScorer, perplexity
from elmore.text.vocabulary import Vocabulary
from fixture_variants import VARIANTS
from one_way import DIRECTIONS, one_way

TEXT = [
    ["the", "cat", "sat", "on", "the", "mat", "."],
    ["bow"],
    ["a", "bow", "and", "arrow", ",", "and", "a", "cat", "."],
]

much_unknown = pytest.mark.filterwarnings("ignore:.*of the text is <UNK>:elmore.errors.InputWarning")


class TestFixturesOfBilmTf:
    """bilm-tf's own test, full softmax, zero state at the start, then carried."""

    @pytest.fixture
    def text(self, fixtures: Path) -> list[list[str]]:
        return [line.split() for line in (fixtures / "bilm-tf" / "train" / "data.txt").read_text().splitlines()]

    @pytest.fixture
    def checkpoint(self, fixtures: Path) -> Model:
        return load(fixtures / "bilm-tf-checkpoint")

    @much_unknown
    def test_perplexity_of_one_row_equals_bilm_tf(self, fixtures: Path, checkpoint: Model, text) -> None:
        expected = json.loads((fixtures / "bilm-tf-checkpoint" / "expected_perplexity.json").read_text())
        found = perplexity(text, model=checkpoint, batch_size=1, passage=1)
        assert found.mean == pytest.approx(expected["batch_size_1"], rel=1e-6)
        assert found.tokens == sum(len(words) + 1 for words in text)

    def test_perplexity_of_two_rows_equals_bilm_tf(self, fixtures: Path, checkpoint: Model, text) -> None:
        expected = json.loads((fixtures / "bilm-tf-checkpoint" / "expected_perplexity.json").read_text())
        # bilm-tf stops when a row needs a sentence and none is left, and drops the rest of the other row.
        free, starts = [(0, 0), (0, 1)], []
        for words in text:
            time, row = free[0]
            starts.append(time)
            heapreplace(free, (time + len(words) + 1, row))
        end = free[0][0]
        found = LanguageModelScorer(checkpoint).score_carrying_state(text, rows=2, passage=1)
        counted = [scores[:, : max(end - start, 0)] for (_, scores), start in zip(found, starts, strict=True)]
        loss = -np.concatenate(counted, axis=1).mean()
        assert math.exp(loss) == pytest.approx(expected["batch_size_2"], rel=1e-6)

    @much_unknown
    @pytest.mark.parametrize("variant", VARIANTS)
    def test_perplexity_of_every_variant_equals_bilm_tf(self, fixtures: Path, text, variant: str) -> None:
        expected = np.load(fixtures / "variants" / variant / "expected.npz")
        arrays = {"weight": expected["softmax_W"], "bias": expected["softmax_b"]}
        model = load(fixtures / "variants" / variant, vocabulary=fixtures / "bilm-tf" / "train" / "vocab.txt")
        model = Model(replace(model.checkpoint, softmax=lambda: arrays))
        found = perplexity(text, model=model, batch_size=1, passage=1)
        assert found.mean == pytest.approx(float(expected["test_perplexity"]), rel=1e-5)
        assert (found.backward is None) == variant.startswith("unidirectional")


@pytest.mark.parametrize("state", ["carry", "fixed"])
def test_perplexity_is_the_exponential_of_mean_loss(toy: Model, state) -> None:
    scorer = LanguageModelScorer(toy)
    read = scorer.score(TEXT) if state == "fixed" else scorer.score_carrying_state(TEXT, rows=2, passage=2)
    scores = np.concatenate([scores for _, scores in read], axis=1).astype(np.float64)
    found = perplexity(TEXT, model=scorer, state=state, batch_size=2, passage=2)
    assert found[:3] == (20, 3, 0)
    assert [found.forward, found.backward] == pytest.approx(np.exp(-scores.mean(axis=1)).tolist())
    assert found.mean == pytest.approx(math.sqrt(found.forward * (found.backward or 0)))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "how", [{"state": "fixed"}, {"batch_size": 2, "passage": 2}, {"state": "fixed", "first_words": 2}], ids=str
)
def test_perplexity_of_one_direction_equals_that_of_both(toy: Model, direction: Direction, how) -> None:
    both, alone = (perplexity(TEXT, model=model, **how)._asdict() for model in (toy, one_way(toy, direction)))
    assert alone["mean"] == alone[direction] == pytest.approx(both[direction], rel=1e-6)
    assert [alone[name] for name in DIRECTIONS if name != direction] == [None]
    assert alone["tokens"] == both["tokens"]
    assert both["forward"] != pytest.approx(both["backward"], rel=1e-3)


@pytest.mark.filterwarnings("ignore:the input has no capital letter")
def test_perplexity_with_fixed_state_ignores_order_and_rows(toy: Model) -> None:
    found = perplexity(TEXT, model=toy, state="fixed")
    assert perplexity(TEXT[::-1] * 7, model=toy, state="fixed", batch_size=3).mean == pytest.approx(
        found.mean, rel=1e-6
    )
    # With a carried state the vectors depend on the neighbors.
    assert perplexity(TEXT, model=toy, batch_size=1).mean != pytest.approx(found.mean, rel=1e-4)


def test_perplexity_with_enough_rows_equals_fixed_state(toy: Model) -> None:
    alone = perplexity(TEXT, model=toy, batch_size=99, passage=1)
    assert alone.mean == pytest.approx(perplexity(TEXT, model=toy, state="fixed").mean, rel=1e-6)


def test_first_words_counts_first_predictions_of_each_direction(toy: Model) -> None:
    scores = [scores for _, scores in LanguageModelScorer(toy).score(TEXT)]
    expected = np.concatenate([found[:, :2] for found in scores], axis=1)
    found = perplexity(TEXT, model=toy, state="fixed", first_words=2)
    assert found.tokens == 6  # "bow" and its end count too
    assert found.forward == pytest.approx(np.exp(-expected[0].mean(dtype=np.float64)))
    assert found.backward == pytest.approx(np.exp(-expected[1].mean(dtype=np.float64)))
    assert perplexity(TEXT, model=toy, state="fixed", first_words=100) == perplexity(TEXT, model=toy, state="fixed")


def test_start_state_changes_first_words_most(toy: Model) -> None:
    other = toy.with_start(State(toy.start.h + 1, toy.start.c + 1), "a test")
    shifts = [
        abs(
            math.log(
                perplexity(TEXT, model=other, state="fixed", first_words=k).mean
                / perplexity(TEXT, model=toy, state="fixed").mean
            )
        )
        for k in (1, 100)
    ]
    assert shifts[0] > shifts[1] > 0


def test_unknown_share_counts_all_tokens(toy: Model) -> None:
    text = [["the", "cat", "sat", "on", "the", "Matterhorn", "."], ["<UNK>", "."]]
    assert perplexity(text, model=toy).unknown == pytest.approx(2 / 11)
    # Of the first two tokens: forwards "the cat", "<UNK> ."; backwards ". Matterhorn", ". <UNK>".
    with pytest.warns(InputWarning, match="38% of the text is <UNK>"):
        assert perplexity(text, model=toy, first_words=2).unknown == pytest.approx(3 / 8)


@much_unknown
@pytest.mark.parametrize(("direction", "share"), [("forward", 1 / 4), ("backward", 2 / 4)])
def test_unknown_share_of_one_direction_counts_its_predictions(toy: Model, direction: Direction, share: float) -> None:
    text = [["the", "cat", "sat", "on", "the", "Matterhorn", "."], ["<UNK>", "."]]
    assert perplexity(text, model=one_way(toy, direction), first_words=2).unknown == share


@pytest.mark.parametrize("sentences", [[[]], [["cat"]], [[], [], ["cat"]]])
def test_perplexity_of_shortest_sentences_counts_their_end(toy: Model, sentences: list[list[str]]) -> None:
    for state in ("carry", "fixed"):
        found = perplexity(sentences, model=toy, state=state)
        assert found.tokens == sum(len(words) + 1 for words in sentences)
        assert found.sentences == len(sentences)
        assert 1 < found.mean < math.inf


def test_perplexity_rejects_an_empty_text(toy: Model) -> None:
    with pytest.raises(InputError, match="no sentence to score"):
        perplexity([], model=toy)


def test_perplexity_is_inf_when_probability_underflows(toy: Model) -> None:
    assert toy.softmax is not None
    arrays = {name: np.array(array) for name, array in toy.softmax().items()}
    arrays["bias"][0] = 1e5
    found = perplexity([["the"]], model=Model(replace(toy.checkpoint, softmax=lambda: arrays)))
    assert found.mean == math.inf


def test_word_listed_twice_has_its_last_class(toy: Model) -> None:
    bias = np.array([0, 0, 0, -50, 50], dtype=np.float32)
    arrays = {"weight": np.zeros((5, toy.config.vector_dim), dtype=np.float32), "bias": bias}
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", "the"])
    model = Model(replace(toy.checkpoint, vocabulary=vocabulary, softmax=lambda: arrays))
    assert perplexity([["the"] * 9], model=model, first_words=9).mean == pytest.approx(1)


def test_perplexity_reports_progress_of_each_sentence(toy: Model) -> None:
    class Progress:
        told: list[tuple[int, int]] = []  # noqa: RUF012

        def advance(self, sentences: int, tokens: int) -> None:
            self.told.append((sentences, tokens))

    perplexity(TEXT, model=toy, progress=Progress())
    assert Progress.told == [(1, 7), (1, 1), (1, 9)]


@much_unknown
def test_perplexity_splits_texts_and_tokenizes_strings(toy: Model) -> None:
    expected = perplexity([["The", "cat", "sat", "."], ["A", "bow", "and", "arrow", "."]], model=toy)
    assert perplexity("The cat sat. A bow\n and arrow.", model=toy) != expected
    assert perplexity("The cat sat.\nA bow and arrow.", model=toy) == expected
    assert perplexity("The cat sat. A bow and arrow.", model=toy) == expected
    assert perplexity(["The cat sat.", ["A", "bow", "and", "arrow", "."]], model=toy) == expected


def test_perplexity_loads_a_named_model_or_the_default(toy: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("elmore.scoring.scorer.load", lambda name: asked.append(name) or toy)
    expected = perplexity(TEXT, model=toy)
    assert [perplexity(TEXT), perplexity(TEXT, model="small")] == [expected] * 2
    assert asked == [None, "small"]


def test_perplexity_warns_once_for_each_scorer(toy: Model) -> None:
    scorer, untokenised = LanguageModelScorer(toy), [["the", "cat,", "the", "mat,", "a", "bow", "and", "arrow", "."]]
    with pytest.warns(InputWarning, match="the input looks untokenized"):
        perplexity(untokenised, model=scorer)
    with warnings.catch_warnings(record=True) as told:
        perplexity(untokenised, model=scorer)
    assert not any("untokenized" in str(warning.message) for warning in told)


@much_unknown
def test_perplexity_converts_tokens_but_not_strings(toy: Model) -> None:
    given = [["the", "cat", "did", "n't", "sit", "."], "the cat sat , don't ``you'' know ."]
    expected = [["the", "cat", "didn", "'t", "sit", "."], LanguageModelScorer(toy).tokenizer.tokenize(given[1]).words]
    for style in ("penn", "nltk", "plain", "ud"):
        assert perplexity(given, model=toy, token_style=style) == perplexity(expected, model=toy)
    with pytest.raises(InputError, match="token_style is 'spacy'; it must be one of moses, penn, nltk, plain, ud"):
        perplexity(given, model=toy, token_style="spacy")  # type: ignore[arg-type]


def test_perplexity_accepts_a_generator(toy: Model) -> None:
    def sentences() -> Iterator[list[str]]:
        yield from TEXT

    assert perplexity(sentences(), model=toy) == perplexity(TEXT, model=toy)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": "warm"}, "state is 'warm'"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"passage": 1.5}, "passage is 1.5"),
        ({"first_words": -1}, "first_words is -1"),
    ],
)
def test_perplexity_names_wrong_options(toy: Model, options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        perplexity(TEXT, model=toy, **options)
