"""What `experiments/overlap` counts is what two texts share, and nothing else."""

import importlib.util
import json
import lzma
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "experiments" / "overlap" / "measure.py"


@pytest.fixture(scope="module")
def overlap() -> ModuleType:
    found = importlib.util.spec_from_file_location("overlap_measure", PROGRAM)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


# Made up of words that none of the others has.
TOKENIZED = "The old boat -LRB- it does n't leak -RRB- lay by Mary 's red house for nearly twenty years ."  # 17 words
WRITTEN = "By then the old boat (it doesn’t leak) lay by Mary's red house for nearly twenty years. He sold it."
OTHER = "Nobody who came along this road on Sunday evenings ever wondered why there was no light at all."
SHORT = "Grey geese went over her head at noon ."  # 8 words
TINY = "Grey geese went over ."


def row(overlap: ModuleType, examples: list[list[str]], **sources: list[str]) -> dict:
    found = overlap.measure([overlap.DataSet("task", "name", "pairs", examples)], sources)
    return found["sets"][0]


def test_a_sentence_that_was_written_otherwise_is_found_whole(overlap: ModuleType) -> None:
    found = row(overlap, [[TOKENIZED], [OTHER]], one=["Nothing here.", WRITTEN], two=["Nor here."])
    assert found["long_enough"] == {
        "examples": 2,
        "with_a_gram_found": 1,
        "with_half_found": 1,
        "with_all_found": 1,
    }
    # 17 words have five runs of thirteen; OTHER, of 18, has six.
    assert found["distinct_grams"] == {"all": 11, "found": 5, "by_source": {"one": 5, "two": 0}}


def test_nothing_is_found_where_there_is_nothing(overlap: ModuleType) -> None:
    found = row(overlap, [[TOKENIZED, SHORT]], one=[OTHER, "", OTHER.upper()])
    assert found["long_enough"]["with_a_gram_found"] == found["distinct_grams"]["found"] == 0
    assert found["distinct_short_texts"] == {"looked_for": 1, "found_whole": 0, "too_short": 0}


@pytest.mark.parametrize(("shared", "grams"), [(12, 0), (13, 1), (15, 3)])
def test_thirteen_words_in_a_row_are_one_gram_and_twelve_are_none(overlap: ModuleType, shared: int, grams: int) -> None:
    start = " ".join(overlap.words(TOKENIZED)[:shared])
    found = row(overlap, [[TOKENIZED]], one=[f"{start} and so on"])
    assert found["distinct_grams"]["found"] == grams
    assert found["long_enough"]["with_a_gram_found"] == bool(grams)
    assert found["long_enough"]["with_half_found"] == (grams >= 3)


def test_a_gram_does_not_reach_over_the_end_of_a_line(overlap: ModuleType) -> None:
    ten, rest = " ".join(overlap.words(TOKENIZED)[:10]), " ".join(overlap.words(TOKENIZED)[10:])
    assert row(overlap, [[TOKENIZED]], one=[ten, rest])["distinct_grams"]["found"] == 0
    assert row(overlap, [[TOKENIZED]], one=[f"{ten} {rest}"])["distinct_grams"]["found"] == 5


def test_a_sentence_that_is_too_short_is_looked_for_as_it_is(overlap: ModuleType) -> None:
    found = row(overlap, [[SHORT], [TINY], [SHORT]], one=["At last grey geese went over her head at noon, and on."])
    assert (found["examples"], found["long_enough"]["examples"], found["distinct_grams"]["all"]) == (3, 0, 0)
    assert found["distinct_short_texts"] == {"looked_for": 1, "found_whole": 1, "too_short": 1}


def test_a_pair_counts_once_by_the_text_of_which_more_was_found(overlap: ModuleType) -> None:
    found = row(overlap, [[OTHER, TOKENIZED], [TOKENIZED, TOKENIZED]], one=[WRITTEN])
    assert found["long_enough"]["with_all_found"] == 2
    assert found["distinct_grams"] == {"all": 11, "found": 5, "by_source": {"one": 5}}


def test_words_with_the_hash_of_others_are_not_taken_for_them(overlap: ModuleType, monkeypatch) -> None:
    class Weak(overlap.Hashing):
        def __init__(self, n_words: int) -> None:
            super().__init__(n_words)
            self.values[0] = self.values[1]  # an unknown word looks like the first

    monkeypatch.setattr(overlap, "Hashing", Weak)
    start, *rest = overlap.words(TOKENIZED)[:13]
    assert row(overlap, [[TOKENIZED]], one=[" ".join(["xyz", *rest])])["distinct_grams"]["found"] == 0
    assert row(overlap, [[TOKENIZED]], one=[" ".join([start, *rest])])["distinct_grams"]["found"] == 1


def test_batches_of_lines_make_no_difference(overlap: ModuleType, monkeypatch) -> None:
    lines = [OTHER, WRITTEN, "", SHORT, "x"]
    whole = row(overlap, [[TOKENIZED], [SHORT]], one=lines)
    monkeypatch.setattr(overlap, "LINES_AT_ONCE", 1)
    assert row(overlap, [[TOKENIZED], [SHORT]], one=lines) == whole


def test_paragraphs_of_squad_go_by_their_title(overlap: ModuleType, tmp_path: Path) -> None:
    article = {"title": "Boats", "paragraphs": [{"context": WRITTEN, "qas": []}]}
    path = tmp_path / "squad.json.xz"
    path.write_bytes(lzma.compress(json.dumps({"data": [article]}).encode()))
    assert overlap.squad_articles(path) == {"Boats": [WRITTEN]}
