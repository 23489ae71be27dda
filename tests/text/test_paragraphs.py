"""Hard-wrapped text is known by its lines, put together, and said."""

import textwrap
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError, InputWarning
from elmore.text.paragraphs import is_hard_wrapped, join_wrapped_lines, read_paragraphs, resolve_paragraphs
from elmore.text.splitting import split_text
from elmore.text.style import TokenizerConfig

# From Moby-Dick, which is free.
PROSE = (
    "Call me Ishmael. Some years ago—never mind how long precisely—having little or no money in my purse, and nothing "
    "particular to interest me on shore, I thought I would sail about a little and see the watery part of the world. "
    "It is a way I have of driving off the spleen and regulating the circulation. Whenever I find myself growing grim "
    "about the mouth; whenever it is a damp, drizzly November in my soul; whenever I find myself involuntarily pausing "
    "before coffin warehouses, and bringing up the rear of every funeral I meet; and especially whenever my hypos get "
    "such an upper hand of me, that it requires a strong moral principle to prevent me from deliberately stepping into "
    "the street, and methodically knocking people’s hats off—then, I account it high time to get to sea."
)
SENTENCES = ["It was a bright cold day in April.", "The clocks were striking thirteen, and nobody there looked up."]
TITLES = ["A Treatise of Human Nature, Being an Attempt", "The Origin of Species by Means of Natural Selection"]


@pytest.mark.parametrize("width", [55, 65, 72, 79])
def test_wrapped_prose_is_known_at_every_usual_width(width):
    lines = textwrap.wrap(PROSE, width)
    assert is_hard_wrapped(lines)
    assert is_hard_wrapped(["CHAPTER 1.", "", *lines, "", *lines])
    assert is_hard_wrapped([f"    {line}" for line in lines])


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["One line."] * 3,
        [PROSE] * 10,
        SENTENCES * 20,
        # Full lines, as long as each other: only that each is finished, or begins anew, tells.
        ["it was a bright cold day in april, and the clocks struck ."] * 20,
        TITLES * 20,
        ["The Origin of Species by Means of Natural Selection"] * 20,
        ["word", "another", "third"] * 20,
        ["Roses are red,", "violets are blue,", "sugar is sweet,", "and so are you."] * 10,
        textwrap.wrap(PROSE, 20) * 3,
        ["我们去北京。", "今天天气很好"] * 20,
    ],
)
def test_what_is_not_wrapped_is_not_taken_for_it(lines):
    assert not is_hard_wrapped(lines)


def resolved(lines, paragraphs=None):
    return resolve_paragraphs(enumerate(lines, start=1), paragraphs=paragraphs, name="a.txt")


def test_what_was_found_out_is_said_with_the_way_to_settle_it():
    with pytest.warns(InputWarning, match=r"a\.txt: its lines look hard-wrapped.*--paragraphs"):
        assert resolved(textwrap.wrap(PROSE, 70))[0] == "blank-line"
    # A warning would be an error here.
    assert resolved(textwrap.wrap(PROSE, 70), "line")[0] == "line"
    assert resolved(textwrap.wrap(PROSE, 70), "blank-line")[0] == "blank-line"
    assert resolved([PROSE, PROSE])[0] == "line"
    with pytest.raises(InputError, match="paragraphs is 'page'; it must be 'line' or 'blank-line'"):
        resolved([], "page")


def test_no_line_is_lost_in_finding_out():
    lines = [*textwrap.wrap(PROSE, 70), ""] * 40
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [line for _, line in resolved(lines)[1]] == lines


CONTENTS = [f"CHAPTER {number}. Of Whales and Ships" for number in range(1, 301)]


def test_a_book_is_known_behind_a_long_table_of_contents():
    book = [*CONTENTS, "", *[*textwrap.wrap(PROSE, 70), ""] * 60]
    with pytest.warns(InputWarning, match="its lines look hard-wrapped, so a blank line ends each paragraph"):
        assert resolved(book)[0] == "blank-line"


def test_wrapped_lines_that_come_late_are_remarked_upon_once():
    lines = [*CONTENTS * 4, *[*textwrap.wrap(PROSE, 70), ""] * 60]
    how, read = resolved(lines)
    assert how == "line"
    with pytest.warns(InputWarning, match=r"a\.txt: from line 1201 on its lines look hard-wrapped.*--par") as remarks:
        assert [line for _, line in read] == lines
    assert len(remarks) == 1
    with pytest.warns(InputWarning, match="the text: from line 1201 on"):
        split_text("\n".join(lines), style=TokenizerConfig())


def test_a_few_lines_are_enough_if_all_of_them_go_on():
    lines = textwrap.wrap(PROSE, 72)[:4]
    assert all(line[0].islower() for line in lines[1:])
    assert is_hard_wrapped(lines)
    assert not is_hard_wrapped(lines[:3])
    assert not is_hard_wrapped([*lines[:3], lines[3].capitalize()])
    assert not is_hard_wrapped([*lines[:2], "so short a line", lines[3]])


def test_a_line_wider_than_a_page_keeps_nobody_waiting():
    taken = []
    lines = ((number, taken.append(number) or PROSE) for number in range(1, 99))
    resolve_paragraphs(lines, paragraphs=None, name="-")
    assert taken == [1]


@given(lines=st.lists(st.sampled_from(["", " ", "one", "two words", "  three"]), max_size=12))
def test_joined_lines_hold_every_word_in_its_line(lines):
    paragraphs = list(join_wrapped_lines(enumerate(lines, start=1)))
    assert " ".join(paragraph.text for paragraph in paragraphs).split() == " ".join(lines).split()
    assert sum(not paragraph.text for paragraph in paragraphs) == sum(not line.strip() for line in lines)
    for paragraph in paragraphs:
        for place in range(len(paragraph.text)):
            if paragraph.text[place] != " ":
                assert paragraph.text[place] in lines[paragraph.line_at(place) - 1]


def test_a_line_is_a_paragraph_if_it_says_so():
    found = list(read_paragraphs(iter([(1, "a"), (2, ""), (3, " b")]), paragraphs="line", name="x"))
    assert found == [("a", [(0, 1)]), ("", [(0, 2)]), (" b", [(0, 3)])]
