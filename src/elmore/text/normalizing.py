r"""Text as the eye reads it: one character for each that is seen, and every one knows where it stood.

"é" may be one code point or two, a soft hyphen is not seen at all, and a flag is two symbols. Here a base character and
all that belongs to it (combining marks, variation selectors, skin tones, the second half of a flag, what a joiner
binds to it) become the one character that says what kind it is, so that rules about single characters cannot tear it
apart. What is invisible vanishes.

    normalize("cafe\u0301\u00ad!")    the text "café!", of which é stood at 3..6
    visible("cafe\u0301\u00ad!")      the same characters where no places are wanted

References: Unicode Standard Annexes 15 (NFC) and 29 (grapheme clusters); Default_Ignorable_Code_Point of UAX 44.
"""

import re
from functools import cache
from typing import NamedTuple
from unicodedata import category, is_normalized
from unicodedata import normalize as unicode_normalize


class NormalizedText(NamedTuple):
    """A text, and for each of its characters the place [start, end) in the original; None if nothing moved."""

    text: str
    spans: list[tuple[int, int]] | None


def normalize(text: str) -> NormalizedText:
    r"""Give each visible character, composed, with its place. A mark that has nothing to stand on is left out.

    >>> normalize("e\u0301\u200b x")
    NormalizedText(text='é x', spans=[(0, 3), (3, 4), (4, 5)])
    >>> normalize("plain")
    NormalizedText(text='plain', spans=None)
    """
    if _is_plain(text):
        return NormalizedText(text, None)
    characters, spans = [], []
    for found in _patterns().cluster.finditer(text):
        if found.lastgroup == "seen":
            # The first is the base; what could not be composed with it stands behind.
            characters.append(visible(found[0])[0])
            spans.append(found.span())
    return NormalizedText("".join(characters), spans)


def visible(text: str) -> str:
    r"""The text in NFC, without what is invisible.

    Joiners stay between the letters of scripts that need them, Arabic and all behind it, and between emoji.

    >>> visible("co\u00adope\u0301ra\ufefftion"), visible("\u0645\u06cc\u200c\u062e") == "\u0645\u06cc\u200c\u062e"
    ('coopération', True)
    """
    if _is_plain(text):
        return text
    # Composed first, because a sign of another block may be a Latin letter, which needs no joiner beside it; and anew
    # after what was left out, because that may have stood between a letter and its mark.
    seen = unicode_normalize("NFC", text)
    while (less := unicode_normalize("NFC", _patterns().invisible.sub("", seen))) != seen:
        seen = less
    return seen


# Control characters that are no blanks, and the code points that Unicode says to ignore where they cannot be shown.
INVISIBLE = (
    r"\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1b\x7f]")


def _is_plain(text: str) -> bool:
    if text.isascii():
        return not _CONTROL.search(text)
    return not _patterns().unusual.search(text) and is_normalized("NFC", text)


class _Patterns(NamedTuple):
    unusual: re.Pattern[str]  # a character that may not stand for itself
    cluster: re.Pattern[str]  # "seen": a base with all that belongs to it; "nothing": what has no base
    invisible: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    """Made when the first text needs them, since they ask the kind of every code point."""
    attached = rf"{INVISIBLE}{_combining_marks()}\U0001f3fb-\U0001f3ff"
    joined = rf"[^\0-\u05ff\s{attached}]"
    # A flag, and a Korean syllable in its parts, leading consonants first.
    composed = (
        r"[\U0001f1e6-\U0001f1ff]{2}"
        r"|[\u1100-\u115e\ua960-\ua97c]+[\u1161-\u11a7\ud7b0-\ud7c6]+[\u11a8-\u11ff\ud7cb-\ud7fb]*"
    )
    bound = rf"(?:(?<=[^\0-\u05ff\s])[\u200c\u200d]{joined}|[{attached}])*"
    return _Patterns(
        unusual=re.compile(rf"[{attached}\U0001f1e6-\U0001f1ff]"),
        cluster=re.compile(rf"(?P<seen>\s|(?:{composed}|[^\s{attached}]){bound})|(?P<nothing>[{attached}]+)"),
        invisible=re.compile(
            rf"(?![\u200c\u200d])[{INVISIBLE}]|(?<![^\0-\u05ff\s{INVISIBLE}])[\u200c\u200d]"
            rf"|[\u200c\u200d](?![^\0-\u05ff\s{INVISIBLE}])"
        ),
    )


def _combining_marks() -> str:
    """All code points of the categories Mn, Mc and Me, as ranges of a character class."""
    # None stands behind the second plane but selectors, which are invisible.
    marks = [code for code in range(0x20000) if category(chr(code))[0] == "M"]
    starts = [code for code in marks if category(chr(code - 1))[0] != "M"]
    ends = [code for code in marks if category(chr(code + 1))[0] != "M"]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))
