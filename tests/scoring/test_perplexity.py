"""Perplexities equal to those of bilm-tf's test, and what counts in them."""

import json
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heapreplace
from pathlib import Path

import numpy as np
import pytest
import torch

from elmore import load
from elmore.config import Direction
from elmore.errors import InputError, InputWarning
from elmore.model import Model
from elmore.network.state import State
from elmore.scoring import Predictor, perplexity
from elmore.text.vocabulary import Vocabulary
from fixture_variants import VARIANTS
from one_way import DIRECTIONS, one_way

TEXT = [
    ["the", "cat", "sat", "on", "the", "mat", "."],
    ["bow"],
    ["a", "bow", "and", "arrow", ",", "and", "a", "cat", "."],
]

much_unknown = pytest.mark.filterwarnings("ignore:.*of the text is <UNK>:elmore.errors.InputWarning")


class TestFiguresOfTheOriginalProgram:
    """bilm-tf's own test, full softmax, zero state at the start, then carried."""

    @pytest.fixture
    def text(self, fixtures: Path) -> list[list[str]]:
        return [line.split() for line in (fixtures / "bilm-tf" / "train" / "data.txt").read_text().splitlines()]

    @pytest.fixture
    def checkpoint(self, fixtures: Path) -> Model:
        return load(fixtures / "bilm-tf-checkpoint")

    @much_unknown
    def test_one_row_has_the_perplexity_of_batch_size_1(self, fixtures: Path, checkpoint: Model, text) -> None:
        expected = json.loads((fixtures / "bilm-tf-checkpoint" / "expected_perplexity.json").read_text())
        found = perplexity(text, model=checkpoint, batch_size=1, passage=1)
        assert found.mean == pytest.approx(expected["batch_size_1"], rel=1e-6)
        assert found.tokens == sum(len(words) + 1 for words in text)

    def test_two_rows_have_the_perplexity_of_batch_size_2(self, fixtures: Path, checkpoint: Model, text) -> None:
        expected = json.loads((fixtures / "bilm-tf-checkpoint" / "expected_perplexity.json").read_text())
        # bilm-tf stops when a row wants a sentence and there is none, and drops what the other row had still to read.
        free, starts = [(0, 0), (0, 1)], []
        for words in text:
            time, row = free[0]
            starts.append(time)
            heapreplace(free, (time + len(words) + 1, row))
        end = free[0][0]
        found = Predictor(checkpoint).read_carrying_state(text, rows=2, passage=1)
        counted = [scores[:, : max(end - start, 0)] for (_, scores), start in zip(found, starts, strict=True)]
        loss = -np.concatenate(counted, axis=1).mean()
        assert math.exp(loss) == pytest.approx(expected["batch_size_2"], rel=1e-6)

    @much_unknown
    @pytest.mark.parametrize("variant", VARIANTS)
    def test_every_variant_has_its_perplexity(self, fixtures: Path, text, variant: str) -> None:
        expected = np.load(fixtures / "variants" / variant / "expected.npz")
        softmax = {part: torch.from_numpy(expected[f"softmax_{part[0]}"]) for part in ("b", "W")}
        model = load(fixtures / "variants" / variant, vocabulary=fixtures / "bilm-tf" / "train" / "vocab.txt")
        model = replace(model, softmax=lambda: {"weight": softmax["W"], "bias": softmax["b"]})
        found = perplexity(text, model=model, batch_size=1, passage=1)
        assert found.mean == pytest.approx(float(expected["test_perplexity"]), rel=1e-5)
        assert (found.backward is None) == variant.startswith("unidirectional")


@pytest.mark.parametrize("state", ["carry", "fixed"])
def test_perplexity_is_the_exponential_of_the_mean_loss(toy: Model, state) -> None:
    predictor = Predictor(toy)
    read = (
        predictor.read_from_fixed_state(TEXT)
        if state == "fixed"
        else predictor.read_carrying_state(TEXT, rows=2, passage=2)
    )
    scores = np.concatenate([scores for _, scores in read], axis=1).astype(np.float64)
    found = perplexity(TEXT, model=predictor, state=state, batch_size=2, passage=2)
    assert found[:3] == (20, 3, 0)
    assert [found.forward, found.backward] == pytest.approx(np.exp(-scores.mean(axis=1)).tolist())
    assert found.mean == pytest.approx(math.sqrt(found.forward * (found.backward or 0)))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "how", [{"state": "fixed"}, {"batch_size": 2, "passage": 2}, {"state": "fixed", "first_words": 2}], ids=str
)
def test_a_direction_alone_has_the_perplexity_it_has_beside_the_other(toy: Model, direction: Direction, how) -> None:
    both, alone = (perplexity(TEXT, model=model, **how)._asdict() for model in (toy, one_way(toy, direction)))
    assert alone["mean"] == alone[direction] == pytest.approx(both[direction], rel=1e-6)
    assert [alone[name] for name in DIRECTIONS if name != direction] == [None]
    assert alone["tokens"] == both["tokens"]
    assert both["forward"] != pytest.approx(both["backward"], rel=1e-3)


@pytest.mark.filterwarnings("ignore:the input has no capital letter")
def test_from_the_fixed_state_neither_order_nor_rows_matter(toy: Model) -> None:
    found = perplexity(TEXT, model=toy, state="fixed")
    assert perplexity(TEXT[::-1] * 7, model=toy, state="fixed", batch_size=3).mean == pytest.approx(
        found.mean, rel=1e-6
    )
    # Carried, the neighbours do matter.
    assert perplexity(TEXT, model=toy, batch_size=1).mean != pytest.approx(found.mean, rel=1e-4)


def test_as_many_rows_as_sentences_carry_nothing(toy: Model) -> None:
    alone = perplexity(TEXT, model=toy, batch_size=99, passage=1)
    assert alone.mean == pytest.approx(perplexity(TEXT, model=toy, state="fixed").mean, rel=1e-6)


def test_the_first_words_are_those_each_direction_predicts_first(toy: Model) -> None:
    scores = [scores for _, scores in Predictor(toy).read_from_fixed_state(TEXT)]
    expected = np.concatenate([found[:, :2] for found in scores], axis=1)
    found = perplexity(TEXT, model=toy, state="fixed", first_words=2)
    assert found.tokens == 6  # "bow" and its end count too
    assert found.forward == pytest.approx(np.exp(-expected[0].mean(dtype=np.float64)))
    assert found.backward == pytest.approx(np.exp(-expected[1].mean(dtype=np.float64)))
    assert perplexity(TEXT, model=toy, state="fixed", first_words=100) == perplexity(TEXT, model=toy, state="fixed")


def test_the_start_state_shows_in_the_first_words(toy: Model) -> None:
    other = replace(toy, start=State(toy.start.h + 1, toy.start.c + 1))
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


def test_the_share_of_unknown_words_counts_all_tokens(toy: Model) -> None:
    text = [["the", "cat", "sat", "on", "the", "Matterhorn", "."], ["<UNK>", "."]]
    assert perplexity(text, model=toy).unknown == pytest.approx(2 / 11)
    # Of the first two tokens: forwards "the cat", "<UNK> ."; backwards ". Matterhorn", ". <UNK>".
    with pytest.warns(InputWarning, match="38% of the text is <UNK>"):
        assert perplexity(text, model=toy, first_words=2).unknown == pytest.approx(3 / 8)


@much_unknown
@pytest.mark.parametrize(("direction", "share"), [("forward", 1 / 4), ("backward", 2 / 4)])
def test_one_direction_counts_the_unknown_words_that_it_predicts(
    toy: Model, direction: Direction, share: float
) -> None:
    text = [["the", "cat", "sat", "on", "the", "Matterhorn", "."], ["<UNK>", "."]]
    assert perplexity(text, model=one_way(toy, direction), first_words=2).unknown == share


@pytest.mark.parametrize("sentences", [[[]], [["cat"]], [[], [], ["cat"]]])
def test_the_shortest_sentences_have_an_end_to_predict(toy: Model, sentences: list[list[str]]) -> None:
    for state in ("carry", "fixed"):
        found = perplexity(sentences, model=toy, state=state)
        assert found.tokens == sum(len(words) + 1 for words in sentences)
        assert found.sentences == len(sentences)
        assert 1 < found.mean < math.inf


def test_an_empty_text_is_an_error(toy: Model) -> None:
    with pytest.raises(InputError, match="no sentence to score"):
        perplexity([], model=toy)


def test_hopeless_predictions_are_infinite_and_no_crash(toy: Model, give_softmax: Callable[..., Model]) -> None:
    assert toy.softmax is not None
    weight, bias = toy.softmax()["weight"], toy.softmax()["bias"].clone()
    bias[0] = 1e5
    found = perplexity([["the"]], model=replace(toy, softmax=lambda: {"weight": weight, "bias": bias}))
    assert found.mean == math.inf


def test_a_word_that_stands_twice_in_the_vocabulary_is_its_last_line(
    toy: Model, give_softmax: Callable[..., Model]
) -> None:
    model = give_softmax(toy, Vocabulary(["<S>", "</S>", "<UNK>", "the", "the"]))
    assert model.softmax is not None
    tensors = dict(model.softmax())
    tensors["bias"] = torch.tensor([0.0, 0, 0, -50, 50])
    tensors["weight"] = torch.zeros_like(tensors["weight"])
    found = perplexity([["the"] * 9], model=replace(model, softmax=lambda: tensors), first_words=9)
    assert found.mean == pytest.approx(1)


def test_progress_is_told_of_every_sentence(toy: Model) -> None:
    class Progress:
        told: list[tuple[int, int]] = []  # noqa: RUF012

        def advance(self, sentences: int, tokens: int) -> None:
            self.told.append((sentences, tokens))

    perplexity(TEXT, model=toy, progress=Progress())
    assert Progress.told == [(1, 7), (1, 1), (1, 9)]


@much_unknown
def test_a_text_is_split_strings_are_tokenised_and_lists_are_taken_as_they_are(toy: Model) -> None:
    expected = perplexity([["The", "cat", "sat", "."], ["A", "bow", "and", "arrow", "."]], model=toy)
    assert perplexity("The cat sat. A bow\n and arrow.", model=toy) != expected
    assert perplexity("The cat sat.\nA bow and arrow.", model=toy) == expected
    assert perplexity("The cat sat. A bow and arrow.", model=toy) == expected
    assert perplexity(["The cat sat.", ["A", "bow", "and", "arrow", "."]], model=toy) == expected


def test_a_model_may_be_named_and_is_elmore_en_if_not(toy: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("elmore.scoring.predictor.load", lambda name, device: asked.append((name, str(device))) or toy)
    expected = perplexity(TEXT, model=toy)
    assert [perplexity(TEXT), perplexity(TEXT, model="small")] == [expected] * 2
    assert [name for name, _ in asked] == [None, "small"]


def test_what_looks_wrong_with_the_text_is_told_once_for_a_predictor(toy: Model) -> None:
    predictor, untokenised = Predictor(toy), [["the", "cat,", "the", "mat,", "a", "bow", "and", "arrow", "."]]
    with pytest.warns(InputWarning, match="the input looks untokenised"):
        perplexity(untokenised, model=predictor)
    with warnings.catch_warnings(record=True) as told:
        perplexity(untokenised, model=predictor)
    assert not any("untokenised" in str(warning.message) for warning in told)


@much_unknown
def test_penn_style_lists_are_converted_and_strings_are_not(toy: Model) -> None:
    given = [["the", "cat", "did", "n't", "sit", "."], "the cat sat , don't ``you'' know ."]
    expected = [["the", "cat", "didn", "'t", "sit", "."], Predictor(toy).tokenizer.tokenize(given[1]).words]
    for style in ("penn", "nltk", "plain", "ud"):
        assert perplexity(given, model=toy, token_style=style) == perplexity(expected, model=toy)
    with pytest.raises(InputError, match="token_style is 'spacy'; it must be one of moses, penn, nltk, plain, ud"):
        perplexity(given, model=toy, token_style="spacy")  # type: ignore[arg-type]


def test_a_generator_of_sentences_will_do(toy: Model) -> None:
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
def test_wrong_options_are_named(toy: Model, options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        perplexity(TEXT, model=toy, **options)
