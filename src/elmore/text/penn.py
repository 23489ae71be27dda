r"""The rules of the Penn Treebank for English, in the forms that data comes in, with every word's place in the text.

All of them cut don't into do n't and it's into it 's, keep 1,000 and Mr. whole, and make words of marks; web and mail
addresses, @names, #tags and emoticons stay whole. They differ in what they do besides:

    style   as in                     a "b" (c)              and/or      well-known    U.S. as the last word
    penn    LDC's treebanks, SST      a `` b '' -LRB- c …    and\/or     well-known    U.S.
    nltk    NLTK; SNLI, MultiNLI      a `` b '' ( c )        and/or      well-known    U.S .
    plain   WikiNEuRal, LitBank       a " b " ( c )          and / or    well-known    U.S .
    ud      UD's English treebanks    a " b " ( c )          and / or    well - known  U.S .

References: the treebank's tokenizer.sed (MacIntyre, 1995); for `ud`, what stands in UD English-EWT.
"""

import re
from functools import cache
from typing import NamedTuple

from elmore.text.abbreviations import COUNTED, NUMBER, abbreviations
from elmore.text.moses import Tokens
from elmore.text.normalize import normalize_with_offsets, visible_parts
from elmore.text.protected import PROTECTED_PATTERN
from elmore.text.style import PennStyle

ESCAPED_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
# Words that the treebank parts in two.
HALVES = (
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
    r"""The words of one sentence. What is seen under an offset is the word, but for what the style escapes.

    `penn` writes brackets, quotes, / and * as the treebank does, and ASCII for typographic marks; `nltk` only quotes.

    >>> tokenize_penn("(I can't.)")
    Tokens(words=['-LRB-', 'I', 'ca', "n't", '.', '-RRB-'], offsets=[(0, 1), (1, 2), (3, 5), (5, 8), (8, 9), (9, 10)])
    >>> print(*tokenize_penn('Well-known "facts" and/or lies', style="ud").words, sep=" | ")
    Well | - | known | " | facts | " | and | / | or | lies
    """
    rules = _RULES[style]
    source, places = normalize_with_offsets(text)
    spans = [found.span() for found in _pattern(rules).finditer(source)]
    _part_final_stop(source, spans, keep_abbreviations=rules.is_escaped)
    offsets = spans if places is None else [(places[start][0], places[end - 1][1]) for start, end in spans]
    words = visible_parts(text, offsets)
    if rules.has_penn_quotes:
        words = _with_penn_quotes(words, source, spans)
    if rules.is_escaped:
        words = _escaped(words, source, spans)
    return Tokens(words, offsets)


def keeps_hyphen(prefix: str) -> bool:
    """Whether UD keeps a hyphen behind this, as in re-read and not in well-read."""
    return bool(re.fullmatch(_PREFIXES, prefix, re.IGNORECASE))


class _Rules(NamedTuple):
    """What the styles differ in."""

    has_penn_quotes: bool = False
    is_escaped: bool = False
    cuts_slashes: bool = True
    is_ud: bool = False


_RULES: dict[PennStyle, _Rules] = {
    "penn": _Rules(has_penn_quotes=True, is_escaped=True, cuts_slashes=False),
    "nltk": _Rules(has_penn_quotes=True, cuts_slashes=False),
    "plain": _Rules(),
    "ud": _Rules(is_ud=True),
}

_LETTER = r"[^\W\d_]"
_NOT = r"n['’]t(?!\w)"
_CLITIC = r"(?:s|m|d|ll|re|ve)(?!\w)"
# Else an apostrophe behind a blank begins a quotation.
_SHORTENED = r"['’](?:(?:em|til|cause|bout|round)\b|n\b['’]?|\d\ds?\b)"
_HALF = "|".join(f"{first}(?={second}(?!\\w))" for first, second in HALVES).replace("'", "['’]")


@cache
def _pattern(rules: _Rules) -> re.Pattern[str]:
    """What is a word: the first of these that fits, wherever the last one ended."""
    return re.compile(
        rf"""
        (?:mailto:)?(?:{PROTECTED_PATTERN})
        | -[LR][RSC]B- | (?:\\[/*])+ | (?<!\S)(?i:['’]{_CLITIC})(?!\S)     # of a text that was cut before
        | &(?:amp|lt|gt|quot|apos);
        | (?i:{_NOT} | (?<=[\w.])['’`]{_CLITIC} | (?<=more)['’]n(?!\w) | (?<!\w)(?:{_SHORTENED}|{_HALF}))
        | {_UD_WORDS if rules.is_ud else "(?!)"}
        | (?<![\w.])(?:{_LETTER}{{1,2}}\.)+{_LETTER}\.(?!\w)              # U.S.
        | (?<![\w.])(?:(?:{abbreviations()})\.(?!\w) | (?:{COUNTED})\.(?=\s*(?:{NUMBER})))
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
    """Letters and digits, and the marks that may join them."""
    character = rf"(?!(?i:{_NOT}))\w"
    joints = [
        rf"['’](?!(?i:{_CLITIC}))(?={_LETTER})",
        r"(?<=\d)[,:](?=\d)",
        r"(?<=\d)/(?=\d)",
        r"[.&@](?=\w)",
        r"\*+(?=\w)",
    ]
    if not rules.cuts_slashes:
        joints.append(r"\\?/(?=\w)")
    if not rules.is_ud:
        joints += r"[-‐‑](?=\w)", r"(?<!\d)–(?=\w)"
    prefix = rf"(?i:(?:{_PREFIXES})-)?" if rules.is_ud else ""
    suffix = "" if rules.is_ud else r"(?:-(?=[\s,]))?"  # short- and long-term
    return rf"{prefix}(?:{character})+(?:(?:{'|'.join(joints)})(?:{character})+)*{suffix}"


# No words of their own before a hyphen.
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


def _part_final_stop(source: str, spans: list[tuple[int, int]], *, keep_abbreviations: bool) -> None:
    """Make a word of the stop that ends the sentence, where the last word has it."""
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
    written = []
    is_open = False
    for word, (start, end) in zip(words, spans, strict=True):
        if word == '"':
            is_open = _opens(source, start, end, is_open=is_open)
            written.append("``" if is_open else "''")
        else:
            written.append(word)
    return written


def _opens(source: str, start: int, end: int, *, is_open: bool) -> bool:
    """Whether a quote opens a quotation, by what it clings to, or else by the one before."""
    is_first = source[start - 1 : start].strip() == ""
    is_last = source[end : end + 1].strip() == ""
    if is_first and is_last:
        return not is_open
    return is_first or (not is_last and source[start - 1] in _OPENING)


_ASCII = {"“": "``", "”": "''", "‘": "`", "’": "'", "‘‘": "``", "’’": "''", "—": "--", "–": "--"}
_ASCII_INSIDE = str.maketrans({"’": "'", "‘": "`", "‐": "-", "‑": "-", "–": "-", "…": "..."})
_UNESCAPED = re.compile(r"(?<!\\)[/*]")


def _escaped(words: list[str], source: str, spans: list[tuple[int, int]]) -> list[str]:
    """The words as the treebank writes them."""
    written = []
    for word, (start, end) in zip(words, spans, strict=True):
        if word == "'":
            written.append("`" if _opens(source, start, end, is_open=True) else "'")
        else:
            ascii_form = ESCAPED_BRACKETS.get(word) or _ASCII.get(word) or word.translate(_ASCII_INSIDE)
            written.append(_UNESCAPED.sub(r"\\\g<0>", ascii_form))
    return written
