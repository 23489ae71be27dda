"""Word senses are scored by set and part of speech; the first sense of WordNet scores what was published."""

import pytest

from elmore.errors import InputError
from elmore.tasks.senses.sense_index import read_sense_index
from elmore.tasks.senses.wsd_f1 import wsd_scores
from elmore.tasks.senses.wsd_reader import WsdInstance, read_wsd


def instance(name: str, pos: str, *keys: str) -> WsdInstance:
    return WsdInstance(name, "x", pos, 0, 1, keys)


GOLD = {
    "one": [instance("t0", "NOUN", "a", "b"), instance("t1", "NOUN", "c"), instance("t2", "VERB", "d")],
    "two": [instance("t0", "ADV", "e")],
}


def test_any_gold_key_counts_and_an_unanswered_instance_lowers_recall_alone():
    score = wsd_scores(GOLD, {"one": {"t0": "b", "t1": "x"}, "two": {"t0": "e"}})
    # By hand: 3 answers, 2 right, 4 instances.
    assert score.parts["precision"] == pytest.approx(100 * 2 / 3)
    assert score.parts["recall"] == 50
    assert score.value == score.parts["f1"] == pytest.approx(100 * 4 / 7)
    assert (score.parts["one.gold"], score.parts["one.found"], score.parts["one.correct"]) == (3, 2, 1)
    assert (score.parts["NOUN.recall"], score.parts["one.NOUN.f1"], score.parts["two.ADV.f1"]) == (50, 50, 100)
    assert score.parts["VERB.found"] == 0
    assert score.table.split("\n") == [
        "F1     all   NOUN   VERB    ADV  instances  answered",
        "one   40.0   50.0    0.0      -          3         2",
        "two  100.0      -      -  100.0          1         1",
        "all   57.1   50.0    0.0  100.0          4         3",
    ]


def test_the_same_id_in_another_set_is_another_instance():
    assert wsd_scores(GOLD, {"two": {"t0": "a"}}).parts["correct"] == 0


def test_answers_that_nobody_asked_for_are_refused():
    with pytest.raises(InputError, match="one: there are answers for instances that it does not have: t9"):
        wsd_scores(GOLD, {"one": {"t9": "a"}})
    with pytest.raises(InputError, match="there are answers for three, and gold keys only for one, two"):
        wsd_scores(GOLD, {"three": {}})


def test_the_first_sense_scores_what_was_published(shared):
    folder = shared / "data" / "tasks" / "wsd"
    senses = read_sense_index(folder / "wordnet30.index.sense.xz")
    names = ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015")
    gold = {
        name: [one for sentence in read_wsd(folder / f"{name}.data.xml.xz") for one in sentence.instances]
        for name in names
    }
    first = {name: {one.id: senses[one.lemma, one.pos][0] for one in asked} for name, asked in gold.items()}
    score = wsd_scores(gold, first)
    # Raganato, Camacho-Collados and Navigli (2017), table 2, "WordNet 1st sense"; the README of the data repeats them.
    assert [round(score.parts[f"{name}.f1"], 1) for name in names] == [66.8, 66.2, 55.2, 63.0, 67.8]
    assert (round(score.value, 1), score.parts["gold"]) == (65.2, 7_253)
    del gold["semeval2007"], first["semeval2007"]
    # The four sets of Peters et al. (2018), table 5, "WordNet 1st Sense Baseline".
    assert round(wsd_scores(gold, first).value, 1) == 65.9
