"""Normalization gives one composed character for each visible one, with its offset."""

from itertools import pairwise
from unicodedata import normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elmore.text.normalize import normalize_with_offsets, to_visible_nfc, visible_parts

PIECES = ["e\u0301", "x\u0323\u0301", "\u0301", "\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\ufe0f"]
PIECES += ["می", "ف", "हिन्दी", "👍🏽", "👨", "🇩", "❤", "\u1112", "\u1161", "\u11ab", "한", "\u212b", "\u0958", "\u037e"]
PIECES += ["a", " ", "\u3000", "\x85", "\0", "\x7f", "\x1c", "\ud800", "\u0344", "\U000e0101", "-"]
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))


@given(text=texts)
def test_normalize_with_offsets_covers_all_visible_characters(text):
    normal, spans = normalize_with_offsets(text)
    spans = [(index, index + 1) for index in range(len(text))] if spans is None else spans
    assert len(normal) == len(spans)
    before = 0
    for start, end in spans:
        assert before <= start < end <= len(text)
        # A mark after a space, or at the start of the text, has no base.
        assert not normalize_with_offsets(text[before:start]).text
        before = end
    assert not normalize_with_offsets(text[before:]).text


@given(text=texts)
def test_normalize_with_offsets_gives_base_characters(text):
    normal, spans = normalize_with_offsets(text)
    for character, (start, end) in zip(normal, spans or [], strict=spans is not None):
        assert to_visible_nfc(text[start:end])[0] == character


@given(text=texts)
@example(text="\u0600\u200c\u212a")  # the kelvin sign, which is composed to a K
@example(text="\u035e\u200c\u036f\u0653\u200c\u3099")  # marks that are reordered without the joiner between them
def test_to_visible_nfc_is_composed_and_idempotent(text):
    visible = to_visible_nfc(text)
    assert normalize("NFC", visible) == visible
    assert to_visible_nfc(visible) == visible


@given(text=texts, cuts=st.lists(st.integers(0, 12), max_size=4))
def test_visible_parts_equals_to_visible_nfc_of_each_part(text, cuts):
    borders = sorted(cuts)
    spans = list(pairwise(borders))
    assert visible_parts(text, spans) == [to_visible_nfc(text[start:end]) for start, end in spans]


@pytest.mark.parametrize(
    ("text", "visible"),
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
def test_to_visible_nfc_removes_invisible_and_composes(text, visible):
    assert to_visible_nfc(text) == visible


def test_to_visible_nfc_leaves_joiners_of_scripts_that_need_them():
    for text in ("می\u200cخواهم", "👨\u200d👩\u200d👧", "ක්\u200dෂ"):
        assert to_visible_nfc(text) == text
    assert to_visible_nfc("a\u200db\u200cc می\u200c") == "abc می"


@pytest.mark.parametrize(
    "whole", ["👨\u200d👩\u200d👧", "🇩🇪", "👍🏽", "1\ufe0f\u20e3", "x\u0323\u0301", "\u1112\u1161\u11ab", "ม่"]
)
def test_normalize_with_offsets_joins_grapheme_clusters(whole):
    assert normalize_with_offsets(f"({whole})").spans == [(0, 1), (1, 1 + len(whole)), (1 + len(whole), 2 + len(whole))]


def test_normalize_with_offsets_separates_two_flags():
    assert normalize_with_offsets("🇩🇪🇫🇷").spans == [(0, 2), (2, 4)]
