"""The Moses tokenizer of Elmore as it was until November 2026, with sacremoses: reference of the tests and benchmarks.

sacremoses returns words without offsets. They are found by a search for each word in the text.
"""

import re
from functools import cache

from sacremoses import MosesTokenizer

from elmore.text.moses import Tokens
from elmore.text.nonbreaking import has_protected, protected_pattern
from elmore.text.normalize import INVISIBLE, normalize_with_offsets, to_visible_nfc


def tokenize_v1(text: str, *, language: str) -> Tokens:
    source = _without_dot_markers(text)
    words, offsets = _tokenize(source, language)
    if source is not text:
        words = [_CONTROL.sub("", text[start:end]) for start, end in offsets]
    return Tokens(words, offsets)


def tokenize_v2(text: str, *, language: str) -> Tokens:
    plain = _with_plain_characters(text)
    source, spans = _with_protected_words(*normalize_with_offsets(plain))
    prepared = _without_dot_markers(_IDEOGRAPH.sub(SYMBOL, _KOREAN.sub(LETTER, source)))
    words, offsets = _tokenize(prepared, "en" if language in ("zh", "ja", "ko") else language)
    _separate_final_stop(words, offsets)
    if spans is not None:
        offsets = [(spans[start][0], spans[end - 1][1]) for start, end in offsets]
    if prepared is not plain:
        words = [to_visible_nfc(plain[start:end]) for start, end in offsets]
    return Tokens(words, offsets)


# sacremoses replaces a run of dots by such a marker for a while. It would turn a marker in the text into dots.
_DOT_MARKER = re.compile("(?:DOT)+MULTI")
_CONTROL = re.compile(r"[\0-\x1f]")
_SKIPPED = re.compile(r"[\s\0-\x1f]*")


def _without_dot_markers(text: str) -> str:
    return _DOT_MARKER.sub(lambda marker: marker[0][:-1] + "J", text) if "DOTMULTI" in text else text


def _tokenize(text: str, language: str) -> Tokens:
    words: list[str] = moses(language).tokenize(text, escape=False)
    offsets = []
    end = 0
    for word in words:
        skipped = _SKIPPED.match(text, end)
        assert skipped is not None  # the pattern matches an empty string
        start = skipped.end()
        if text.startswith(word, start):
            end = start + len(word)
        else:  # sacremoses removed a control character inside the word
            end = start
            for character in word:
                end = text.index(character, end) + 1
        offsets.append((start, end))
    return Tokens(words, offsets)


@cache
def moses(language: str) -> MosesTokenizer:
    tokenizer = MosesTokenizer(language)
    # The methods of sacremoses build a set of all letters in each call, which is slow.
    letters, lowercase = frozenset(tokenizer.IsAlpha), frozenset(tokenizer.IsLower)
    tokenizer.isanyalpha = lambda text: not letters.isdisjoint(text)
    tokenizer.islower = lowercase.issuperset
    return tokenizer


LETTER = "\u01bb"  # without lower case, and in no list of abbreviations
SYMBOL = "\u2610"
_APOSTROPHE = re.compile(rf"(?<=[\w\u0300-\u036f{INVISIBLE}])\u2019(?=[^\W\d_])")
_WITHOUT_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_ZERO_WIDTH_SPACE = re.compile(f"(?<=[{_WITHOUT_SPACES}])\u200b(?=[{_WITHOUT_SPACES}])")
_KOREAN = re.compile("[\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb]")
_IDEOGRAPH = re.compile(
    "[\u3001-\u3029\u3030-\u3096\u309d-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def _with_plain_characters(text: str) -> str:
    if "\u2019" in text:
        text = _APOSTROPHE.sub("'", text)
    return _ZERO_WIDTH_SPACE.sub(" ", text) if "\u200b" in text else text


def _with_protected_words(text: str, spans: list[tuple[int, int]] | None) -> tuple[str, list[tuple[int, int]] | None]:
    """One letter in the place of each protected word, with a space before a full stop after it."""
    if not has_protected(text):
        return text, spans
    spans = spans or [(index, index + 1) for index in range(len(text))]
    pieces: list[str] = []
    places: list[tuple[int, int]] = []
    end = 0
    for found in protected_pattern().finditer(text):
        start = found.start()
        pieces += text[end:start], LETTER
        places += *spans[end:start], (spans[start][0], spans[found.end() - 1][1])
        end = found.end()
        if text.startswith(".", end):
            pieces.append(" ")
            places.append((spans[end][0], spans[end][0]))
    return "".join([*pieces, text[end:]]), [*places, *spans[end:]]


_FINAL_STOP = re.compile(
    r"(?:[^\W\d_]|\S*\w\.(?:com|org|net|edu|gov|mil|info|[a-z]{2}|html?|txt|pdf|csv|json|xml|jpg|png|exe|py))\."
)
_CLOSING = frozenset("\"'”’»)]}")


def _separate_final_stop(words: list[str], offsets: list[tuple[int, int]]) -> None:
    last = len(words) - 1
    while last > 0 and words[last] in _CLOSING:
        last -= 1
    if last >= 0 and _FINAL_STOP.fullmatch(words[last]):
        start, end = offsets[last]
        words[last : last + 1] = words[last][:-1], "."
        offsets[last : last + 1] = (start, end - 1), (end - 1, end)
