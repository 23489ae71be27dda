"""The tokenizer for text of models that were trained on Moses-style words. It has two versions.

Version 1 applies the Moses rules (see `moses_rules`) to the text. Version 2 prepares the text for them:

- combining marks and invisible characters are parts of words, never words (see `normalize`)
- a typographic apostrophe inside a word is an apostrophe: don’t gives the words of don't
- web and mail addresses, @names, #tags and emoticons are words
- Korean is split at spaces; Chinese and Japanese, except runs of katakana, into characters, in all languages;
  a zero-width space separates words of Thai, Lao, Khmer and Burmese
- the full stop at the end of a sentence is a word after a single letter or an address: "It was I." "See c.org."

A model's card states the version.
"""

import re
import warnings
from functools import cache, lru_cache
from typing import NamedTuple

from elmore.text.moses_rules import (
    END,
    LETTER,
    MORE,
    NOTHING,
    Apostrophe,
    CharacterClasses,
    MosesRules,
    Span,
    find_words,
)
from elmore.text.nonbreaking import english_prefixes, has_protected, nonbreaking_prefixes, protected_pattern
from elmore.text.normalize import INVISIBLE, normalize_with_offsets, visible_parts
from elmore.text.unicode_tables import HAN, HANGUL, HIRAGANA, KATAKANA


class Tokens(NamedTuple):
    """The words of a text, and the characters [start, end) of the text for each."""

    words: list[str]
    offsets: list[Span]


def tokenize_v1(text: str, *, language: str) -> Tokens:
    r"""Apply the Moses rules. A word is the text under its offset, without control characters.

    >>> tokenize_v1("I don\a't.", language="en")
    Tokens(words=['I', 'don', "'t", '.'], offsets=[(0, 1), (2, 5), (6, 8), (8, 9)])
    """
    rules = _rules(language, version=1)
    if not _CONTROL_CHARACTER.search(text):
        offsets = find_words(text, rules)
        return Tokens([text[start:end] for start, end in offsets], offsets)
    source, positions = _without_control_characters(text)
    spans = find_words(source, rules)
    offsets = [(positions[start], positions[end - 1] + 1) for start, end in spans]
    return Tokens([source[start:end] for start, end in spans], offsets)


def tokenize_v2(text: str, *, language: str) -> Tokens:
    """Apply the Moses rules to prepared text. A word is the visible text under its offset, with ' for ’ in words."""
    plain = _with_plain_characters(text)
    source, positions = normalize_with_offsets(plain)
    source = _with_protected_words(source)
    spans = find_words(source, _rules(language, version=2))
    _separate_final_stop(spans, source)
    if positions is None:
        return Tokens([plain[start:end] for start, end in spans], spans)
    offsets = [(positions[start][0], positions[end - 1][1]) for start, end in spans]
    return Tokens(visible_parts(plain, offsets), offsets)


_APOSTROPHES: dict[str, Apostrophe] = {"en": "starts a word", "fr": "ends a word", "it": "ends a word"}
# Scripts whose characters are letters in version 1, in these languages only.
_SCRIPTS = {
    "zh": (HAN,),
    "ja": (HIRAGANA, KATAKANA, HAN),
    "ko": (HANGUL,),
    "cjk": (HANGUL, HAN, HIRAGANA, KATAKANA),
}
# Letters and symbols of version 2, in all languages.
_KOREAN_LETTERS = "\u1100\u1200\u3131\u318f\ua960\ua97d\uac00\ud7fc"
_IDEOGRAPHS = "\u3001\u302a\u3030\u3097\u309d\u30a0\u3400\u4dc0\u4e00\ua000\uf900\ufb00\U00020000\U00040000"


@lru_cache(maxsize=64)
def _rules(language: str, *, version: int) -> MosesRules:
    if version == 2 and language in ("zh", "ja", "ko"):
        language = "en"
    prefixes = nonbreaking_prefixes(language)
    if prefixes is None:
        warnings.warn(
            f"the Moses tokenizer has no list of abbreviations for {language!r} and uses the English one; "
            "a full stop may be separated from an abbreviation, or stay at the end of a sentence's last word",
            stacklevel=2,
        )
        prefixes = english_prefixes()
    apostrophe = _APOSTROPHES.get(language, "is a word")
    return MosesRules(apostrophe, prefixes, _characters(language if language in _SCRIPTS else "", version=version))


@cache
def _characters(language: str, *, version: int) -> CharacterClasses:
    scripts = _SCRIPTS.get(language, ())
    if version == 1:
        return CharacterClasses(*scripts)
    return CharacterClasses(_KOREAN_LETTERS, *scripts, symbols=_IDEOGRAPHS)


# Moses ignores these.
_CONTROL_CHARACTER = re.compile(r"[\0-\x08\x0e-\x1b]")
_CONTROL_BETWEEN_SPACES = re.compile(r"(?<=\s)[\0-\x08\x0e-\x1b]+(?=\s)")
_BLANK = re.compile(r"[\s\0-\x1f]*")


def _without_control_characters(text: str) -> tuple[str, list[int]]:
    """The text without control characters, and the position of each character in the original."""
    start, end = _count_blanks(text), len(text) - _count_blanks(text[::-1])
    # Moses joins spaces before the removal of control characters, so two spaces remain here.
    two_spaces = {control.start() for control in _CONTROL_BETWEEN_SPACES.finditer(text, start, end)}
    positions = [
        position
        for position in range(start, end)
        if position in two_spaces or not _CONTROL_CHARACTER.match(text, position)
    ]
    return "".join(NOTHING if position in two_spaces else text[position] for position in positions), positions


def _count_blanks(text: str) -> int:
    blanks = _BLANK.match(text)
    assert blanks
    return blanks.end()


def _with_plain_characters(text: str) -> str:
    """The text, of the same length, with ' for ’ in words, and spaces for zero-width spaces between words."""
    if "\u2019" in text:
        text = _typographic_apostrophe().sub("'", text)
    return _zero_width_space().sub(" ", text) if "\u200b" in text else text


@cache
def _typographic_apostrophe() -> re.Pattern[str]:
    return re.compile(rf"(?<=[\w\u0300-\u036f{INVISIBLE}])\u2019(?=[^\W\d_])")


@cache
def _zero_width_space() -> re.Pattern[str]:
    without_spaces = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Burmese, Khmer
    return re.compile(f"(?<=[{without_spaces}])\u200b(?=[{without_spaces}])")


def _with_protected_words(text: str) -> str:
    """The text, of the same length, with letters in place of strings that must not be split."""
    return protected_pattern().sub(_placeholder, text) if has_protected(text) else text


def _placeholder(protected: re.Match[str]) -> str:
    # The rules see one letter. A full stop after it is separate: before a small letter, they would join the two.
    last = END if protected.string.startswith(".", protected.end()) else MORE
    return LETTER + MORE * (len(protected[0]) - 2) + last


# Not all small letters before a stop, because "cand.jur." is an abbreviation.
_FINAL_STOP = re.compile(
    r"(?:[^\W\d_]|\S*\w\.(?:com|org|net|edu|gov|mil|info|[a-z]{2}|html?|txt|pdf|csv|json|xml|jpg|png|exe|py))\."
)
_CLOSING = frozenset("\"'”’»)]}")


def _separate_final_stop(spans: list[Span], text: str) -> None:
    """Separate the last full stop from a single letter or an address, where Moses sees an abbreviation."""
    last = len(spans) - 1
    while last > 0 and text[slice(*spans[last])] in _CLOSING:
        last -= 1
    if last < 0:
        return
    start, end = spans[last]
    if end - start > 1 and text[end - 1] == "." and _FINAL_STOP.fullmatch(text, start, end):
        spans[last : last + 1] = (start, end - 1), (end - 1, end)
