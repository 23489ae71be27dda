"""Pairs of words in context come with their labels and ratings, and the marks point at the words."""

import json
from statistics import mean

import pytest

from elmore.errors import InputError
from elmore.tasks.senses.wic_reader import RatedPair, WicPair, WordInContext, read_scws, read_wic

PAIR = {
    "id": "x.0",
    "lemma": "bow",
    "pos": "NOUN",
    "sentence1": "He took a bow.",
    "start1": 10,
    "end1": 13,
    "sentence2": "Bows and arrows",
    "start2": 0,
    "end2": 4,
    "label": False,
}


@pytest.fixture
def file(tmp_path):
    def write(content: str):
        path = tmp_path / "pairs.txt"
        path.write_text(content, encoding="utf-8")
        return path

    return write


def test_a_pair_has_two_uses_and_a_label(file):
    (pair,) = read_wic(file(f"\n{json.dumps(PAIR)}\n"))
    first, second = WordInContext("He took a bow.", 10, 13), WordInContext("Bows and arrows", 0, 4)
    assert pair == WicPair("bow", "NOUN", first, second, label=False, line=2)
    assert read_wic(file(json.dumps(PAIR | {"label": "T"})))[0].label is True


def test_labels_may_be_missing_only_if_told(file):
    path = file(json.dumps({name: value for name, value in PAIR.items() if name != "label"}))
    assert read_wic(path, labeled=False)[0].label is None
    with pytest.raises(InputError, match="line 1: the label must be true or false, and is missing"):
        read_wic(path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"label": 1}, "the label must be true or false, and is 1"),
        ({"label": ["T"]}, r"the label must be true or false, and is \['T'\]"),
        ({"lemma": None}, "lemma must be a string, not None"),
        ({"pos": ""}, "pos is empty"),
        ({"start1": "3"}, "start1 must be an integer, not '3'"),
        ({"start1": True}, "start1 must be an integer, not True"),
        ({"end1": 15}, r"start1 10 and end1 15 are not a word of sentence1 \(14 characters\)"),
        ({"start2": 4}, r"start2 4 and end2 4 are not a word of sentence2 \(15 characters\)"),
        ({"start1": -1}, r"start1 -1 and end1 13 are not a word of sentence1 \(14 characters\)"),
    ],
)
def test_a_pair_that_cannot_be_read_is_named(file, change, told):
    path = file(f"{json.dumps(PAIR)}\n{json.dumps(PAIR | change)}\n")
    with pytest.raises(InputError, match=rf"pairs\.txt, line 2: {told}"):
        read_wic(path, labeled=False)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "line 1: invalid JSON: Expecting property name enclosed in double quotes at column 2"),
        ("[]", r"line 1: expected a JSON object, such as \{…\}, not '\[\]'"),
        ("\n", r"pairs\.txt: contains no pairs"),
    ],
)
def test_lines_that_are_no_pairs_are_named(file, content, told):
    with pytest.raises(InputError, match=told):
        read_wic(file(content))


RATED = ["7", "bow", "n", "arrow", "n", "take a <b> bow </b> now", "<b> arrows </b> ,", "2.0", *["1.0", "3.0"] * 5]


def test_a_rated_pair_has_its_words_unmarked(file):
    (pair,) = read_scws(file("\t".join(RATED)))
    first, second = WordInContext("take a bow now", 7, 10), WordInContext("arrows ,", 0, 6)
    assert pair == RatedPair(("bow", "arrow"), ("n", "n"), first, second, 2.0, (1.0, 3.0) * 5, 1)


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        (5, "take a bow now", "column 6 must mark one word, as in: the <b> nut </b> of a guitar"),
        (5, "take a <b> </b> now", "column 6 must mark one word, as in: the <b> nut </b> of a guitar"),
        (6, "a <b> b </b> c <b> d </b>", "column 7 must mark one word, as in: the <b> nut </b> of a guitar"),
        (6, "a </b> b <b>", "column 7 must mark one word, as in: the <b> nut </b> of a guitar"),
        (7, "x", "a rating must be a number from 0 to 10, not 'x'"),
        (17, "11", "a rating must be a number from 0 to 10, not '11'"),
        (17, "nan", "a rating must be a number from 0 to 10, not 'nan'"),
        (17, "1\t2", "expected 18 tab-separated columns"),
    ],
)
def test_a_rated_pair_that_cannot_be_read_is_named(file, column, value, told):
    path = file("\t".join(RATED) + "\n" + "\t".join([*RATED[:column], value, *RATED[column + 1 :]]))
    with pytest.raises(InputError, match=rf"pairs\.txt, line 2: {told}"):
        read_scws(path)


def test_an_empty_file_of_ratings_is_an_error(file):
    with pytest.raises(InputError, match="contains no pairs"):
        read_scws(file(""))


# Pairs, from the README of the task data, where half of each split is true.
@pytest.mark.parametrize(("split", "pairs"), [("train", 8_000), ("dev", 1_000), ("test", 1_000)])
def test_words_in_context_are_read_whole(shared, split, pairs):
    found = read_wic(shared / "data" / "tasks" / "wic" / f"mclwic-en-{split}.jsonl.xz")
    assert (len(found), sum(pair.label for pair in found)) == (pairs, pairs // 2)
    # A use is one word with nothing around it.
    uses = [use for pair in found for use in (pair.first, pair.second)]
    assert all(use.text[use.start : use.end].strip() == use.text[use.start : use.end] for use in uses)


def test_contextual_similarities_are_read_whole(shared):
    found = read_scws(shared / "data" / "tasks" / "wic" / "scws-ratings.txt.xz")
    # The README: 2,003 pairs, and all means agree with their ratings.
    assert len(found) == 2_003
    assert all(len(pair.ratings) == 10 and mean(pair.ratings) == pytest.approx(pair.rating) for pair in found)
    for pair in found:
        for use in (pair.first, pair.second):
            assert "<b>" not in use.text
            assert "  " not in use.text[use.start - 2 : use.end + 2]
    assert found[0].first.text[found[0].first.start : found[0].first.end] == "Brazil"
