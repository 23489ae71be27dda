"""Whether two uses have the same sense is learnt by a threshold of their cosine, and by a classifier of pairs."""

import json
from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.core.events import Fitted, TaskFinished
from elmore.tasks.core.trained_model import load
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.senses.wic import best_threshold, token_use
from elmore.tasks.senses.wic_reader import WordInContext
from small_senses import train_small

METHODS = ("threshold", "classifier")
GREETING = ["The actors took a [bow].", "He made a deep [bow] to the queen.", "Take a [bow], please."]
WEAPON = ["She drew the [bow] and shot an arrow.", "A hunter with his [bow] came.", "Her [bow] is of yew."]


def unmarked(text: str) -> tuple[str, int, int]:
    start = text.index("[")
    return text.replace("[", "").replace("]", ""), start, text.index("]") - 1


def wic_line(first: str, second: str, label: bool | None) -> str:
    record: dict = {"id": "x", "lemma": "bow", "pos": "NOUN"}
    for side, text in (("1", first), ("2", second)):
        record |= dict(zip((f"sentence{side}", f"start{side}", f"end{side}"), unmarked(text), strict=True))
    return json.dumps(record if label is None else {**record, "label": label})


def scws_line(first: str, second: str, rating: float) -> str:
    texts = [text.replace("[", "<b> ").replace("]", " </b>") for text in (first, second)]
    return "\t".join(["1", "bow", "n", "bow", "n", *texts, *[str(rating)] * 11])


PAIRS = [
    (GREETING[0], GREETING[1], True),
    (GREETING[0], WEAPON[0], False),
    (GREETING[2], WEAPON[2], False),
    (WEAPON[0], WEAPON[1], True),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "pairs.jsonl"
    path.write_text("".join(f"{wic_line(*pair)}\n" for pair in PAIRS))
    return path


@pytest.fixture(scope="module")
def rated(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("rated") / "ratings.txt"
    path.write_text(
        "".join(f"{scws_line(a, b, rating)}\n" for (a, b, _), rating in zip(PAIRS, (9, 2, 1, 7), strict=True))
    )
    return path


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for method in METHODS:
        train_small("wic", folder / method, data, task__method=method, task__hidden=[16], task__dropout=0.1)
    return {method: folder / method for method in METHODS}


def test_a_classifier_learns_a_handful(data, runs):
    assert load(runs["classifier"], device="cpu").evaluate(data).value == 100


def test_a_threshold_lies_half_way_between_the_pairs_that_it_tells_apart():
    # By hand: from 0.55 on, four of five are right; every other place has fewer.
    assert best_threshold([0.2, 0.5, 0.6, 0.7, 0.9], [False, False, True, False, True]) == pytest.approx(0.55)
    # All the same, or none: below all of them, or above.
    assert best_threshold([0.3, 0.4], [True, True]) == pytest.approx(-0.7)
    assert best_threshold([0.3, 0.4], [False, False]) == pytest.approx(1.4)
    # Of equal ones no threshold parts two: both are taken for the same, which is as good as neither.
    assert best_threshold([0.3, 0.3], [True, False]) == pytest.approx(-0.7)


# Vectors whose cosines are known: of "one" with the others 1, 0.8, 0.6 and 0.
VECTORS = "one 1 0\nlike 4 0\nnear 4 3\nless 3 4\nfar 0 2\nodd 0.1 0.7\neven 0.1 0.2\n"


def train_by_hand(folder: Path, pairs: list[tuple[str, bool]], **more) -> list:
    (folder / "vectors.txt").write_text(VECTORS)
    data = folder / "pairs.jsonl"
    data.write_text("".join(f"{wic_line('[one]', second, label)}\n" for second, label in pairs))
    vectors = str(folder / "vectors.txt")
    return train_small("wic", folder / "run", data, elmo__where="none", words__vectors=vectors, **more)


def test_pairs_are_the_same_from_the_threshold_of_the_dev_set_on(tmp_path):
    train_by_hand(tmp_path, [("[like]", True), ("[near]", True), ("[less]", False), ("[far]", False)])
    model = load(tmp_path / "run", device="cpu")
    assert model.assembled.model.threshold.item() == pytest.approx(0.7)
    results = model.predict([f"[one]\t[{word}]" for word in ("like", "near", "less", "far")])
    assert [one.similarity for one in results] == pytest.approx([1, 0.8, 0.6, 0])
    assert [one.is_same for one in results] == [True, True, False, False]
    # The same word is as near as can be, whatever its numbers are: no rounding parts equal pairs.
    assert {one.similarity for one in model.predict([f"[{word}]\t[{word}]" for word in ("one", "odd", "even")])} == {1}
    # Two tokens: the mean of (1, 0) and (0, 2), of which the cosine with (1, 0) is 0.5 / sqrt(0.25 + 1).
    [several] = model.predict(["[one]\t[one far]"])
    assert several.similarity == pytest.approx(0.4472, abs=1e-4)


def test_a_threshold_is_chosen_by_the_dev_set_alone(data, tmp_path, monkeypatch):
    from elmore.tasks.inputs.layer_cache import LayerReader

    read: list[list[str]] = []
    original = LayerReader.layers
    monkeypatch.setattr(
        LayerReader, "layers", lambda self, sentences: read.extend(map(list, sentences)) or original(self, sentences)
    )
    dev = tmp_path / "dev.jsonl"
    dev.write_text(wic_line(GREETING[0], GREETING[1], True) + "\n")
    train_small("wic", tmp_path / "run", data, dev=dev)
    assert len(read) == 2


def test_the_best_layer_of_the_dev_set_is_taken(data, tmp_path):
    [_, fitted, finished] = train_small("wic", tmp_path / "run", data)
    assert isinstance(fitted, Fitted)
    assert isinstance(finished, TaskFinished)
    scores = {name: score.value for name, score in fitted.fit.scores.items()}
    assert list(scores) == ["layer 0", "layer 1", "layer 2"]
    # In the context-free layer all are the same vector, so all pairs are said to be alike.
    assert scores["layer 0"] == 50
    assert scores[fitted.fit.chosen] == max(scores.values()) > 50
    weights = [float(f"layer {number}" == fitted.fit.chosen) for number in range(3)]
    assert finished.mixes["input"].weights == tuple(weights)
    assert load(tmp_path / "run", device="cpu").evaluate(data).value == finished.score.value


def test_pairs_with_ratings_are_scored_by_rank_correlation(rated, tmp_path):
    train_by_hand(tmp_path, [("[like]", True), ("[far]", False)])
    rated = tmp_path / "ratings.txt"
    pairs = [("[like]", 9.0), ("[near]", 3.0), ("[less]", 4.0), ("[far]", 1.0)]
    rated.write_text("".join(f"{scws_line('[one]', second, rating)}\n" for second, rating in pairs))
    score = load(tmp_path / "run", device="cpu").evaluate(rated)
    # By hand: ranks 4 2 3 1 of the ratings, 4 3 2 1 of the cosines; 1 - 6 * 2 / (4 * 15).
    assert (score.metric, score.value) == ("Spearman", pytest.approx(80))


@pytest.mark.parametrize("method", METHODS)
def test_a_classifier_and_a_threshold_answer_marked_texts_and_json_alike(method, runs):
    model = load(runs[method], device="cpu")
    first, second = GREETING[0], WEAPON[1]
    by_marks, by_json = model.predict([f"{first}\t{second}", wic_line(first, second, None)])
    assert by_marks == by_json
    assert by_marks.first.text == "The actors took a bow."
    assert (by_marks.first.start, by_marks.first.end, by_marks.first.word) == (18, 21, "bow")
    label = "same" if by_marks.is_same else "different"
    assert str(by_marks) == f"{label}\t{by_marks.similarity:.3f}\t{first}\t{second}"


@pytest.mark.parametrize("method", METHODS)
def test_predictions_are_the_same_alone_and_in_a_batch(method, runs):
    model = load(runs[method], device="cpu")
    texts = [f"{first}\t{second}" for first in GREETING for second in WEAPON]
    together, alone = model.predict(texts), [model.predict([text])[0] for text in texts]
    assert [one.is_same for one in together] == [one.is_same for one in alone]
    assert [one.similarity for one in together] == pytest.approx([one.similarity for one in alone], abs=1e-6)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("The [bow].", "text 1: there must be two texts"),
        (
            "The [bow].\tNo marks",
            "text 1: 'No marks' must have exactly one word in brackets; expected two texts separated by a",
        ),
        (
            "The [bow].\tA [bow] and a [bow]",
            r"'A \[bow\] and a \[bow\]' must have exactly one word in brackets",
        ),
        ("The [bow].\tA [ ]", r"'A \[ \]' must have exactly one word in brackets"),
        ('{"sentence1": "A bow"}', "text 1: lemma is missing"),
        (
            wic_line("A [bow]", "A [bow]", None).replace('"end1": 5', '"end1": 9'),
            r"text 1: start1 2 and end1 9 are not a word of sentence1 \(5 characters\)",
        ),
    ],
)
def test_a_pair_that_cannot_be_read_is_answered_with_what_is_expected(text, complaint, runs):
    with pytest.raises(InputError, match=complaint):
        load(runs["threshold"], device="cpu").predict([text])


def test_characters_that_hold_no_word_are_named():
    with pytest.raises(InputError, match=r"line 3: the characters 1 to 2 of 'a b' contain no word"):
        token_use(WordInContext("a b", 1, 2), StyledTokenizer("moses"), "x, line 3")


def test_ratings_are_no_labels(data, rated, runs, tmp_path):
    with pytest.raises(
        InputError, match=r"ratings\.txt: has ratings, which can only be used for evaluation; training needs labels"
    ):
        train_small("wic", tmp_path / "1", rated)
    with pytest.raises(InputError, match="has no label"):
        train_small("wic", tmp_path / "2", data, dev=rated)
    with pytest.raises(InputError, match="some of these pairs have labels and others ratings"):
        load(runs["threshold"], device="cpu").evaluate([data, rated])
