"""The senses of a lemma come in WordNet's order."""

import pytest

from elmore.errors import InputError
from elmore.tasks.senses.inventory import read_sense_index


@pytest.fixture
def file(tmp_path):
    def write(content: str):
        path = tmp_path / "index.sense"
        path.write_text(content, encoding="utf-8")
        return path

    return write


def test_senses_are_ordered_by_their_number_and_satellites_are_adjectives(file):
    path = file(
        "art%1:06:00:: 1 2 5\nart%1:09:00:: 2 1 9\nart%2:29:00:: 3 1 0\nfit%5:00:00:x:00 4 2 0\nfit%3:00:00:: 5 1 0\n"
    )
    assert read_sense_index(path) == {
        ("art", "NOUN"): ["art%1:09:00::", "art%1:06:00::"],
        ("art", "VERB"): ["art%2:29:00::"],
        ("fit", "ADJ"): ["fit%3:00:00::", "fit%5:00:00:x:00"],
    }


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("art%1:06:00:: 1 1 5\nart%1:06:00:: 1\n", "line 2: expected a sense key"),
        ("art%6:06:00:: 1 1 5\n", "line 1: expected a sense key"),
        ("art 1 1 5\n", "line 1: expected a sense key"),
        ("art%1:06:00:: 1 x 5\n", "line 1: the number of the sense is 'x'"),
        (
            "art%1:06:00:: 1 1 5\nart%1:07:00:: 1 1 5\n",
            "line 2: the number of the sense is '1'; expected a number from 1 that no other sense",
        ),
        ("", "contains no senses"),
    ],
)
def test_lines_of_another_kind_are_named(file, content, told):
    with pytest.raises(InputError, match=rf"index\.sense(, |: ){told}"):
        read_sense_index(file(content))


def test_wordnet_is_read_whole(shared):
    index = read_sense_index(shared / "data" / "tasks" / "wsd" / "wordnet30.index.sense.xz")
    # The strings and word-sense pairs of each part of speech that WordNet 3.0 gives in its manual, wnstats(7WN).
    strings = {"NOUN": 117_798, "VERB": 11_529, "ADJ": 21_479, "ADV": 4_481}
    senses = {"NOUN": 146_312, "VERB": 25_047, "ADJ": 30_002, "ADV": 5_580}
    assert {part: sum(pos == part for _, pos in index) for part in strings} == strings
    assert {part: sum(len(keys) for (_, pos), keys in index.items() if pos == part) for part in senses} == senses
