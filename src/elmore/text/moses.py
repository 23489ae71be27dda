"""The rules of the Moses toolkit (library: sacremoses), and for every word its place in the text.

Version 1 is sacremoses as it is. Version 2 lets it cut a text that was made ready for it:

- characters as the eye reads them (`normalizing`), so that no mark or invisible character becomes a word
- the typographic apostrophe inside a word is an apostrophe: don’t is cut as don't is, and gives the same words
- web and mail addresses, @names, #tags and emoticons stay whole
- Korean is cut at blanks, Chinese and Japanese (but for runs of katakana) into characters, whatever the language;
  a zero-width space parts the words of Thai, Lao, Khmer and Burmese
- the stop that ends a sentence is a word after a single letter or an address, as in "It was I." or "See c.org."

A model's card says which version its text was cut by.
"""

import re
import warnings
from functools import cache
from typing import Any, NamedTuple

from elmore.text.normalizing import INVISIBLE, NormalizedText, normalize, visible
from elmore.text.protected import PROTECTED, holds_protected


class Tokens(NamedTuple):
    """The words of a text, and for each the characters [start, end) of the text it was made from."""

    words: list[str]
    offsets: list[tuple[int, int]]


def tokenize_v1(text: str, *, language: str) -> Tokens:
    """What sacremoses gives; the characters under an offset are the word, but for control characters."""
    source = _without_dot_markers(text)
    tokens = _cut(source, language)
    if source is not text:
        return Tokens([_CONTROL.sub("", text[start:end]) for start, end in tokens.offsets], tokens.offsets)
    return tokens


def tokenize_v2(text: str, *, language: str) -> Tokens:
    """Better words: the visible characters under an offset, with ' for ’ between letters, are the word."""
    plain = _with_plain_characters(text)
    source = _with_protected_spans(normalize(plain))
    cuttable = _without_dot_markers(_with_cuttable_scripts(source.text))
    # Of these it would learn which characters are letters, for half a minute, and none of them is left in the text.
    tokens = _with_final_stop_apart(_cut(cuttable, "en" if language in ("zh", "ja", "ko") else language))
    if cuttable is plain:
        return tokens
    offsets = tokens.offsets
    if source.spans is not None:
        offsets = [(source.spans[start][0], source.spans[end - 1][1]) for start, end in offsets]
    return Tokens([visible(plain[start:end]) for start, end in offsets], offsets)


# Moses writes runs of dots as such words for a while, and would turn one that stands in the text into dots.
_DOT_MARKER = re.compile("(?:DOT)+MULTI")
_CONTROL = re.compile(r"[\0-\x1f]")
_SKIPPED = re.compile(r"[\s\0-\x1f]*")


def _without_dot_markers(text: str) -> str:
    return _DOT_MARKER.sub(lambda found: found[0][:-1] + "J", text) if "DOTMULTI" in text else text


def _cut(source: str, language: str) -> Tokens:
    """The words of sacremoses, found again in the text one after another."""
    words: list[str] = _moses(language).tokenize(source, escape=False)
    offsets = []
    end = 0
    for word in words:
        start = _SKIPPED.match(source, end).end()  # type: ignore[union-attr]  # it matches anywhere
        if source.startswith(word, start):
            end = start + len(word)
        else:
            # A control character was dropped inside the word.
            end = start
            for character in word:
                end = source.index(character, end) + 1
        offsets.append((start, end))
    return Tokens(words, offsets)


@cache
def _moses(language: str) -> Any:
    # Imported here: its tables of characters take most of a second.
    from sacremoses import MosesTokenizer
    from sacremoses.corpus import NonbreakingPrefixes

    if language not in NonbreakingPrefixes().available_langs:
        warnings.warn(
            f"the Moses tokeniser has no list of abbreviations for {language!r} and takes the English one; "
            "a full stop may be cut off, or left, in the wrong place",
            stacklevel=2,
        )
    moses = MosesTokenizer(language)
    # Its own two questions build a set of all letters each time they are asked, which is slow.
    alphabet, lowercase = frozenset(moses.IsAlpha), frozenset(moses.IsLower)
    moses.isanyalpha = lambda text: not alphabet.isdisjoint(text)
    moses.islower = lowercase.issuperset
    return moses


# A letter with neither capital nor small form, so that Moses takes a word of it for no abbreviation and no beginning.
_LETTER = "\u01bb"
_SYMBOL = "\u2610"  # each is a word to Moses

_APOSTROPHE = re.compile(rf"(?<=[\w\u0300-\u036f{INVISIBLE}])\u2019(?=[^\W\d_])")
_WITHOUT_BLANKS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Burmese, Khmer
_ZERO_WIDTH_BLANK = re.compile(f"(?<=[{_WITHOUT_BLANKS}])\u200b(?=[{_WITHOUT_BLANKS}])")


def _with_plain_characters(text: str) -> str:
    """The text, of the same length, with ' and blanks where other characters do their work."""
    if "\u2019" in text:
        text = _APOSTROPHE.sub("'", text)
    return _ZERO_WIDTH_BLANK.sub(" ", text) if "\u200b" in text else text


def _with_protected_spans(source: NormalizedText) -> NormalizedText:
    """The text with one letter for everything that is to stay whole."""
    if not holds_protected(source.text):
        return source
    spans = source.spans or [(place, place + 1) for place in range(len(source.text))]
    pieces: list[str] = []
    places: list[tuple[int, int]] = []
    end = 0
    for found in PROTECTED.finditer(source.text):
        start = found.start()
        pieces += source.text[end:start], _LETTER
        places += *spans[end:start], (spans[start][0], spans[found.end() - 1][1])
        end = found.end()
        if source.text.startswith(".", end):
            # Else, before a small letter, the stop would be taken for that of an abbreviation.
            pieces.append(" ")
            places.append((spans[end][0], spans[end][0]))
    return NormalizedText("".join([*pieces, source.text[end:]]), [*places, *spans[end:]])


_HANGUL = re.compile("[\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb]")
# Their marks and brackets, too: for Chinese, sacremoses takes them for letters.
_IDEOGRAPHIC = re.compile(
    "[\u3001-\u3029\u3030-\u3096\u309d-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def _with_cuttable_scripts(text: str) -> str:
    """The text, of the same length, with characters that Moses treats as they ought to be."""
    if text.isascii():
        return text
    return _IDEOGRAPHIC.sub(_SYMBOL, _HANGUL.sub(_LETTER, text))


# Not any small letters behind a stop: "cand.jur." is an abbreviation.
_FINAL_STOP = re.compile(
    r"(?:[^\W\d_]|\S*\w\.(?:com|org|net|edu|gov|mil|info|[a-z]{2}|html?|txt|pdf|csv|json|xml|jpg|png|exe|py))\."
)
_CLOSING = frozenset("\"'”’»)]}")


def _with_final_stop_apart(tokens: Tokens) -> Tokens:
    """Part the stop that ends the sentence from a single letter or an address, which Moses takes for abbreviations."""
    words, offsets = tokens
    last = len(words) - 1
    while last > 0 and words[last] in _CLOSING:
        last -= 1
    if last < 0 or not _FINAL_STOP.fullmatch(words[last]):
        return tokens
    start, end = offsets[last]
    words[last : last + 1] = words[last][:-1], "."
    offsets[last : last + 1] = (start, end - 1), (end - 1, end)
    return tokens
