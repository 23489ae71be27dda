r"""Text with one character for each visible character, and the offset of each in the original.

"é" can be one code point or two, a soft hyphen is invisible, and a flag has two symbols. A base character and its group
(combining marks, variation selectors, skin tones, the second half of a flag, characters bound by a joiner) become one
character that shows the kind of the group. So rules about single characters cannot split it. Invisible characters are
removed.

    normalize_with_offsets("cafe\u0301\u00ad!")    the text "café!", with é at 3..6
    to_visible_nfc("cafe\u0301\u00ad!")            the same characters, without offsets

References: Unicode Standard Annexes 15 (NFC) and 29 (grapheme clusters); Default_Ignorable_Code_Point of UAX 44.
"""

import re
from functools import cache
from typing import NamedTuple
from unicodedata import is_normalized, normalize

from elmore.text.unicode_tables import MARKS_IN_PLANE_0, MARKS_IN_PLANE_1


class NormalizedText(NamedTuple):
    """A text, and for each character the span [start, end) in the original. None: the text is the original."""

    text: str
    spans: list[tuple[int, int]] | None


def normalize_with_offsets(text: str) -> NormalizedText:
    r"""Give each visible character, composed, with its span. Marks without a base character are omitted.

    >>> normalize_with_offsets("e\u0301\u200b x")
    NormalizedText(text='é x', spans=[(0, 3), (3, 4), (4, 5)])
    >>> normalize_with_offsets("plain")
    NormalizedText(text='plain', spans=None)
    """
    if _is_plain(text):
        return NormalizedText(text, None)
    clusters = _patterns().cluster.finditer(text)
    spans = [cluster.span() for cluster in clusters if cluster.lastgroup == "visible"]
    # The base character is the first. Marks that cannot be composed with it follow.
    return NormalizedText("".join(part[0] for part in visible_parts(text, spans)), spans)


def to_visible_nfc(text: str) -> str:
    r"""The text in NFC, without invisible characters.

    Joiners stay between letters of scripts that need them (Arabic and all later ones) and between emoji.

    >>> to_visible_nfc("co\u00adope\u0301ra\ufefftion")
    'coopération'
    >>> to_visible_nfc("\u0645\u06cc\u200c\u062e") == "\u0645\u06cc\u200c\u062e"
    True
    """
    if _is_plain(text):
        return text
    # Composed first, because a sign of another block can be a Latin letter, which needs no joiner. Composed again after
    # each removal, because the removed character can have been between a letter and its mark.
    composed = normalize("NFC", text)
    while (shorter := normalize("NFC", _patterns().invisible.sub("", composed))) != composed:
        composed = shorter
    return composed


def visible_parts(text: str, spans: list[tuple[int, int]]) -> list[str]:
    r"""Apply `to_visible_nfc` to each part [start, end) of a text.

    >>> visible_parts("one two\u00ad", [(0, 3), (4, 8)])
    ['one', 'two']
    """
    parts = [text[start:end] for start, end in spans]
    if text.isascii():
        is_visible_nfc = not _CONTROL.search(text)
    else:
        is_visible_nfc = is_normalized("NFC", text) and not _patterns().invisible_character.search(text)
    return parts if is_visible_nfc else [to_visible_nfc(part) for part in parts]


# Control characters that are not spaces, and the code points that Unicode declares ignorable.
_INVISIBLE_IN_PLANE_0 = (
    r"\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
)
INVISIBLE = _INVISIBLE_IN_PLANE_0 + r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1b\x7f]")


def _is_plain(text: str) -> bool:
    """Whether no character is invisible or belongs to a group, and all are composed."""
    if text.isascii():
        return not _CONTROL.search(text)
    patterns = _patterns()
    if patterns.perhaps_unusual.search(text) and patterns.unusual.search(text):
        return False
    return is_normalized("NFC", text)


class _Patterns(NamedTuple):
    unusual: re.Pattern[str]  # a character that can be invisible or belong to a group
    perhaps_unusual: re.Pattern[str]  # the same, and all above plane 0: much faster
    cluster: re.Pattern[str]  # "visible": a base with its group; "without_base": marks
    invisible: re.Pattern[str]  # where it can be removed
    invisible_character: re.Pattern[str]  # anywhere


@cache
def _patterns() -> _Patterns:
    """Compiled when the first text above ASCII needs them."""
    attached = rf"{INVISIBLE}{MARKS_IN_PLANE_0}{MARKS_IN_PLANE_1}\U0001f3fb-\U0001f3ff"
    joined = rf"[^\0-\u05ff\s{attached}]"
    # A flag, and a Korean syllable in its parts, leading consonants first.
    composed = (
        r"[\U0001f1e6-\U0001f1ff]{2}"
        r"|[\u1100-\u115e\ua960-\ua97c]+[\u1161-\u11a7\ud7b0-\ud7c6]+[\u11a8-\u11ff\ud7cb-\ud7fb]*"
    )
    bound = rf"(?:(?<=[^\0-\u05ff\s])[\u200c\u200d]{joined}|[{attached}])*"
    return _Patterns(
        unusual=re.compile(rf"[{attached}\U0001f1e6-\U0001f1ff]"),
        perhaps_unusual=re.compile(rf"[{_INVISIBLE_IN_PLANE_0}{MARKS_IN_PLANE_0}\U00010000-\U0010ffff]"),
        cluster=re.compile(rf"(?P<visible>\s|(?:{composed}|[^\s{attached}]){bound})|(?P<without_base>[{attached}]+)"),
        invisible=re.compile(
            rf"(?![\u200c\u200d])[{INVISIBLE}]|(?<![^\0-\u05ff\s{INVISIBLE}])[\u200c\u200d]"
            rf"|[\u200c\u200d](?![^\0-\u05ff\s{INVISIBLE}])"
        ),
        invisible_character=re.compile(f"[{INVISIBLE}]"),
    )
