"""One character for each that is seen, composed, and every one knows its place."""

from unicodedata import normalize as unicode_normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elmore.text.normalizing import normalize, visible

PIECES = ["e\u0301", "x\u0323\u0301", "\u0301", "\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\ufe0f"]
PIECES += ["می", "ف", "हिन्दी", "👍🏽", "👨", "🇩", "❤", "\u1112", "\u1161", "\u11ab", "한", "\u212b", "\u0958", "\u037e"]
PIECES += ["a", " ", "\u3000", "\x85", "\0", "\x7f", "\x1c", "\ud800", "\u0344", "\U000e0101", "-"]
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))


@given(text=texts)
def test_spans_rise_and_between_them_lies_only_what_is_not_seen(text):
    normal, spans = normalize(text)
    spans = [(place, place + 1) for place in range(len(text))] if spans is None else spans
    assert len(normal) == len(spans)
    before = 0
    for start, end in spans:
        assert before <= start < end <= len(text)
        # A mark that follows a blank, or opens the text, has nothing to stand on.
        assert not normalize(text[before:start]).text
        before = end
    assert not normalize(text[before:]).text


@given(text=texts)
def test_every_character_is_the_first_of_what_is_seen_in_its_place(text):
    normal, spans = normalize(text)
    for character, (start, end) in zip(normal, spans or [], strict=spans is not None):
        assert visible(text[start:end])[0] == character


@given(text=texts)
@example(text="\u0600\u200c\u212a")  # the sign of the kelvin, which is composed to a K
@example(text="\u035e\u200c\u036f\u0653\u200c\u3099")  # marks that change places once no joiner stands between them
def test_what_is_visible_is_composed_and_stays_as_it_is(text):
    seen = visible(text)
    assert unicode_normalize("NFC", seen) == seen
    assert visible(seen) == seen


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("cafe\u0301", "café"),
        ("co\u00adoperate", "cooperate"),
        ("a\u200bb\u2060c\ufeffd\u200ee", "abcde"),
        ("❤\ufe0f", "❤"),
        ("e\u00ad\u0301", "é"),
        ("a\0b\x7f", "ab"),
        ("\u1112\u1161\u11ab", "한"),
        ("\u212b\u037e", "Å;"),
    ],
)
def test_what_is_not_seen_is_left_out_and_the_rest_composed(text, seen):
    assert visible(text) == seen


def test_joiners_stay_where_a_script_needs_them_and_nowhere_else():
    for kept in ("می\u200cخواهم", "👨\u200d👩\u200d👧", "ක්\u200dෂ"):
        assert visible(kept) == kept
    assert visible("a\u200db\u200cc می\u200c") == "abc می"


@pytest.mark.parametrize(
    "whole", ["👨\u200d👩\u200d👧", "🇩🇪", "👍🏽", "1\ufe0f\u20e3", "x\u0323\u0301", "\u1112\u1161\u11ab", "ม่"]
)
def test_what_is_seen_as_one_is_one(whole):
    assert normalize(f"({whole})").spans == [(0, 1), (1, 1 + len(whole)), (1 + len(whole), 2 + len(whole))]


def test_two_flags_are_two():
    assert normalize("🇩🇪🇫🇷").spans == [(0, 2), (2, 4)]
