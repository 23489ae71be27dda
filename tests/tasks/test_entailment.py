"""Entailment is learnt from a handful of pairs, and pairs are judged alike however they are given."""

import json
from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.core.events import Configured
from elmore.tasks.core.trained_model import load
from elmore.tasks.entailment import JudgedPair
from elmore.training.log import read_log
from small_tasks import PAIRS, train_small, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))["entailment"]


@pytest.fixture(scope="module")
def run(data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "entailment"
    train_small("entailment", folder, data)
    return folder


def test_the_handful_is_learnt_and_with_it_both_mixes(run):
    scores = [entry["heldout"] for entry in read_log(run / "log.jsonl") if "heldout" in entry]
    assert scores[0] < max(scores) == 100
    card = json.loads((run / "model" / "task.json").read_text())
    assert set(card["mixes"]) == {"input", "output"}


def test_pairs_without_consensus_are_counted_and_left_out(data, tmp_path):
    opened = train_small("entailment", tmp_path / "run", data, training__epochs=1)[0]
    assert isinstance(opened, Configured)
    assert (opened.train, opened.dev) == (4, 4)
    assert opened.notices[0] == "train: 1 pair left out whose label is -: the annotators did not agree on one"


def test_accuracy_comes_with_a_table_by_class(run, data):
    score = load(run, device="cpu").evaluate(data)
    assert (score.metric, score.value, score.parts["contradiction.recall"]) == ("accuracy", 100, 100)
    assert "neutral" in score.table


def test_a_pair_is_judged_alike_alone_in_a_batch_and_as_json(run):
    model = load(run, device="cpu")
    texts = [f"{premise}\t{hypothesis}" for premise, hypothesis, _ in PAIRS] * 8
    together = model.predict(texts)
    for text, judged in zip(texts, together, strict=True):
        premise, hypothesis = text.split("\t")
        alone, as_json = model.predict([text])[0], json.dumps({"premise": premise, "hypothesis": hypothesis})
        assert isinstance(judged, JudgedPair)
        assert (judged.premise, judged.hypothesis, judged.label) == (premise, hypothesis, alone.label)
        assert judged.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        assert model.predict([as_json])[0] == alone
    assert [judged.label for judged in together[:4]] == [label for *_, label in PAIRS[:4]]
    assert sum(together[0].probabilities.values()) == pytest.approx(1)
    assert str(together[1]).startswith("contradiction\t")
    assert str(together[1]).endswith("\tA man plays a guitar.\tNobody plays.")


@pytest.mark.parametrize("pair", [PAIRS[0][:2], {"premise": "A man plays.", "hypothesis": "Nobody plays."}])
def test_a_pair_that_is_no_string_is_refused_by_its_number(pair, run):
    told = f"^text 2: a text is to be a string, and this is a {type(pair).__name__}; .* comes as a string of JSON$"
    with pytest.raises(InputError, match=told):
        load(run, device="cpu").predict(["A man plays.\tNobody plays.", pair])


def test_the_sentences_are_told_apart_from_each_other(run):
    """One encoder reads both, yet which is the premise matters."""
    model = load(run, device="cpu")
    there, back = model.predict(["Two dogs sleep.\tThe dogs are old.", "The dogs are old.\tTwo dogs sleep."])
    assert there.probabilities != pytest.approx(back.probabilities, abs=1e-4)


def test_what_cannot_be_judged_is_named(run, tmp_path):
    model = load(run, device="cpu")
    with pytest.raises(InputError, match="text 2: there is 1 of two sentences in 'alone'"):
        model.predict(["a\tb", "alone"])
    unseen = tmp_path / "unseen.tsv"
    unseen.write_text("a\tb\tperhaps\n")
    with pytest.raises(InputError, match=r"unseen.tsv, line 1: the label 'perhaps' is not in the training data"):
        model.evaluate(unseen)
    only = tmp_path / "only.tsv"
    only.write_text("a\tb\t-\n")
    with pytest.raises(InputError, match=r"only.tsv: no examples to score"):
        model.evaluate(only)


def test_raw_and_tokenised_sentences_have_the_same_tokens():
    """SNLI's raw text, and the tokens of its parses with blanks between them."""
    from elmore.tasks.inputs.tokenizer import StyledTokenizer

    tokenizer = StyledTokenizer("nltk")
    raw, tokenised = 'The dog doesn\'t "bark".', "The dog does n't `` bark '' ."
    assert tokenizer.tokens(raw).tokens == tokenizer.tokens(tokenised).tokens == tokenised.split(" ")
