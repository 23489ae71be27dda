r"""The word rules of the Penn Treebank for English, in four styles of data sets, with the offset of each word.

All styles split don't into do n't and it's into it 's. They do not split 1,000, Mr., web and mail addresses, @names,
#tags and emoticons. Marks are words. The styles differ in:

    style   data sets                 a "b" (c)              and/or      well-known    U.S. as the last word
    penn    LDC's treebanks, SST      a `` b '' -LRB- c …    and\/or     well-known    U.S.
    nltk    NLTK; SNLI, MultiNLI      a `` b '' ( c )        and/or      well-known    U.S .
    plain   WikiNEuRal, LitBank       a " b " ( c )          and / or    well-known    U.S .
    ud      UD's English treebanks    a " b " ( c )          and / or    well - known  U.S .

References: the treebank's tokenizer.sed (MacIntyre, 1995); for `ud`, the tokens of UD English-EWT.
"""

import re
from functools import cache
from typing import NamedTuple

from elmore.text.moses import Tokens
from elmore.text.nonbreaking import NUMBER, NUMBERED_ABBREVIATIONS, PROTECTED_PATTERN, abbreviations
from elmore.text.normalize import normalize_with_offsets, visible_parts
from elmore.text.style import PennStyle

ESCAPED_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
# Words that the treebank splits in two.
SPLIT_CONTRACTIONS = (
    ("can", "not"),
    ("gon", "na"),
    ("wan", "na"),
    ("got", "ta"),
    ("gim", "me"),
    ("lem", "me"),
    ("d'", "ye"),
    ("more", "'n"),
    ("'t", "is"),
    ("'t", "was"),
)


def tokenize_penn(text: str, *, style: PennStyle = "penn") -> Tokens:
    r"""Split one sentence into words. A word is the visible text under its offset, except for escapes.

    `penn` escapes brackets, quotes, / and * as the treebank does, and writes typographic marks in ASCII. `nltk` escapes
    only quotes.

    >>> tokenize_penn("(I can't.)")
    Tokens(words=['-LRB-', 'I', 'ca', "n't", '.', '-RRB-'], offsets=[(0, 1), (1, 2), (3, 5), (5, 8), (8, 9), (9, 10)])
    >>> print(*tokenize_penn('Well-known "facts" and/or lies', style="ud").words, sep=" | ")
    Well | - | known | " | facts | " | and | / | or | lies
    """
    rules = _RULES[style]
    source, positions = normalize_with_offsets(text)
    spans = [word.span() for word in _pattern(rules).finditer(source)]
    _separate_final_stop(source, spans, keep_abbreviations=rules.is_escaped)
    offsets = spans if positions is None else [(positions[start][0], positions[end - 1][1]) for start, end in spans]
    words = visible_parts(text, offsets)
    if rules.has_penn_quotes:
        words = _with_penn_quotes(words, source, spans)
    if rules.is_escaped:
        words = _escaped(words, source, spans)
    return Tokens(words, offsets)


def keeps_hyphen(prefix: str) -> bool:
    """Whether UD does not separate a hyphen after this prefix: re-read, but well - read."""
    return bool(re.fullmatch(_PREFIXES, prefix, re.IGNORECASE))


class _Rules(NamedTuple):
    """The differences of the styles."""

    has_penn_quotes: bool = False
    is_escaped: bool = False
    separates_slashes: bool = True
    is_ud: bool = False


_RULES: dict[PennStyle, _Rules] = {
    "penn": _Rules(has_penn_quotes=True, is_escaped=True, separates_slashes=False),
    "nltk": _Rules(has_penn_quotes=True, separates_slashes=False),
    "plain": _Rules(),
    "ud": _Rules(is_ud=True),
}

_LETTER = r"[^\W\d_]"
_NOT = r"n['’]t(?!\w)"
_CLITIC = r"(?:s|m|d|ll|re|ve)(?!\w)"
# Other apostrophes after a space begin a quotation.
_SHORTENED = r"['’](?:(?:em|til|cause|bout|round)\b|n\b['’]?|\d\ds?\b)"
_FIRST_HALF = "|".join(f"{first}(?={second}(?!\\w))" for first, second in SPLIT_CONTRACTIONS).replace("'", "['’]")


@cache
def _pattern(rules: _Rules) -> re.Pattern[str]:
    """A pattern of one word. The first alternative that matches is used."""
    return re.compile(
        rf"""
        (?:mailto:)?(?:{PROTECTED_PATTERN})
        | -[LR][RSC]B- | (?:\\[/*])+ | (?<!\S)(?i:['’]{_CLITIC})(?!\S)     # of text that is split already
        | &(?:amp|lt|gt|quot|apos);
        | (?i:{_NOT} | (?<=[\w.])['’`]{_CLITIC} | (?<=more)['’]n(?!\w) | (?<!\w)(?:{_SHORTENED}|{_FIRST_HALF}))
        | {_UD_WORDS if rules.is_ud else "(?!)"}
        | (?<![\w.])(?:{_LETTER}{{1,2}}\.)+{_LETTER}\.(?!\w)              # U.S.
        | (?<![\w.])(?:(?:{abbreviations()})\.(?!\w) | (?:{NUMBERED_ABBREVIATIONS})\.(?=\s*(?:{NUMBER})))
        | (?<!\w)(?:US|U|C|A|HK|NZ)\$
        | (?<!\S)[.+]\d[\d.,]*(?!\w) | (?<!\S)\.\w+                       # .5, +44, .doc
        | {_word(rules)}
        | ``|''|‘‘|’’|‘’ | [.!?…]{{2,}} | <?[-=]+> | <[-=]+
        | (?P<same>[-=*~_+\#<>|])(?P=same)*
        | \S
        """,
        re.VERBOSE,
    )


def _word(rules: _Rules) -> str:
    """A pattern of letters and digits, and the marks that can join them."""
    character = rf"(?!(?i:{_NOT}))\w"
    joints = [
        rf"['’](?!(?i:{_CLITIC}))(?={_LETTER})",
        r"(?<=\d)[,:](?=\d)",
        r"(?<=\d)/(?=\d)",
        r"[.&@](?=\w)",
        r"\*+(?=\w)",
    ]
    if not rules.separates_slashes:
        joints.append(r"\\?/(?=\w)")
    if not rules.is_ud:
        joints += r"[-‐‑](?=\w)", r"(?<!\d)–(?=\w)"
    prefix = rf"(?i:(?:{_PREFIXES})-)?" if rules.is_ud else ""
    suffix = "" if rules.is_ud else r"(?:-(?=[\s,]))?"  # short- and long-term
    return rf"{prefix}(?:{character})+(?:(?:{'|'.join(joints)})(?:{character})+)*{suffix}"


# Before a hyphen, these are not words.
_PREFIXES = (
    "ante|anti|arch|auto|bi|bio|co|counter|cross|cyber|de|e|eco|em|en|ex|extra|hyper|infra|inter|intra|macro|mega|meta|"
    "mid|mini|mono|multi|neo|non|over|para|poly|post|pre|pro|proto|pseudo|psycho|quasi|re|retro|semi|socio|sub|super|"
    "trans|tri|ultra|un|under|uni"
)
_UNIT = "am|pm|[km]|[mck]m|ft|kg|lbs?|[mgk]b|hrs?|mins?|days?|percent"
_UD_WORDS = rf"""
    (?<![\w.-])\+?\d+(?:-\d+){{2,}}(?![\w-]) | (?<![\w-])(?:\d+/)?\d{{3}}-\d{{4}}(?![\w-])  # dates, telephones
    | (?<!\w)\d+['’]s(?!\w)                                                              # the 80's
    | (?<![\w-])\d[\d.,:]*(?=(?i:{_UNIT})(?!\w))                                          # 5 pm
    | (?<!\w)(?:w/(?:o\b)?|{_LETTER}/{_LETTER}(?!\w))                                     # w/o, l/c
    | (?<!\w)(?i:                                                                        # dont, im, thats
        (?:do|does|did|wo|ca|is|was|are|have|has|had|could|would|should|ai)(?=nt(?!\w))
        | i(?=(?:m|ve)(?!\w)) | (?:he|she|that|what|there)(?=s(?!\w)) | (?:you|they)(?=re(?!\w))
      )
    """

_CLOSING = frozenset(['"', "'", "''", "”", "’", "»", ")", "]", "}"])


def _separate_final_stop(source: str, spans: list[tuple[int, int]], *, keep_abbreviations: bool) -> None:
    """Separate the final stop of a sentence from the last word."""
    last = len(spans) - 1
    while last > 0 and source[slice(*spans[last])] in _CLOSING:
        last -= 1
    if last < 0:
        return
    start, end = spans[last]
    word = source[start:end]
    if len(word) == 1 or word[-1] != "." or not word[-2].isalnum() or (keep_abbreviations and word != "I."):
        return
    spans[last : last + 1] = (start, end - 1), (end - 1, end)


_OPENING = frozenset("([{<=/-–—`'‘“")


def _with_penn_quotes(words: list[str], source: str, spans: list[tuple[int, int]]) -> list[str]:
    """The words, with `` and '' for double quotes."""
    escaped = []
    is_open = False
    for word, (start, end) in zip(words, spans, strict=True):
        if word == '"':
            is_open = _opens(source, start, end, is_open=is_open)
            escaped.append("``" if is_open else "''")
        else:
            escaped.append(word)
    return escaped


def _opens(source: str, start: int, end: int, *, is_open: bool) -> bool:
    """Whether a quote opens a quotation: by the characters next to it, otherwise by the previous quote."""
    is_first = source[start - 1 : start].strip() == ""
    is_last = source[end : end + 1].strip() == ""
    if is_first and is_last:
        return not is_open
    return is_first or (not is_last and source[start - 1] in _OPENING)


_ASCII = {"“": "``", "”": "''", "‘": "`", "’": "'", "‘‘": "``", "’’": "''", "—": "--", "–": "--"}
_ASCII_INSIDE = str.maketrans({"’": "'", "‘": "`", "‐": "-", "‑": "-", "–": "-", "…": "..."})
_UNESCAPED = re.compile(r"(?<!\\)[/*]")


def _escaped(words: list[str], source: str, spans: list[tuple[int, int]]) -> list[str]:
    """The words with the escapes of the treebank."""
    escaped = []
    for word, (start, end) in zip(words, spans, strict=True):
        if word == "'":
            escaped.append("`" if _opens(source, start, end, is_open=True) else "'")
        else:
            ascii_form = ESCAPED_BRACKETS.get(word) or _ASCII.get(word) or word.translate(_ASCII_INSIDE)
            escaped.append(_UNESCAPED.sub(r"\\\g<0>", ascii_form))
    return escaped
