"""Strings that tokenizers must not split: abbreviations, web and mail addresses, @names, #tags and emoticons."""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

# Abbreviations before a number, in English and German. A full stop between the two ends no sentence.
NUMBERED_ABBREVIATIONS = (
    r"[Vv]ols?|[Nn]rs?|Nos?|[Ff]igs?|[Tt]ab|[Ee]qs?|[Ss]ect?s?|[Cc]h|[Cc]haps?|[Pp]t|[Pp]p?|[Bb]k|[Oo]p|[Aa]rt|[Rr]efs?|"
    r"[Vv]er|[Bb]d|[Aa]bb|[Cc]a|approx"
)
NUMBER = r"[0-9]|[IVXLC]+\b"

_FOLDER = Path(__file__).parent / "nonbreaking_prefixes"
_NUMBER_ONLY = " #NUMERIC_ONLY#"


class NonbreakingPrefixes(NamedTuple):
    """Words of a language that keep a full stop, without it."""

    always: frozenset[str]
    before_number: frozenset[str]


@lru_cache(maxsize=64)
def nonbreaking_prefixes(language: str) -> NonbreakingPrefixes | None:
    """The Moses list of a language, or None if there is none."""
    path = _FOLDER / f"{language}.txt"
    if not path.exists():
        return None
    lines = path.read_text(encoding="utf-8").splitlines()
    entries = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
    before_number = frozenset(entry.removesuffix(_NUMBER_ONLY) for entry in entries if entry.endswith(_NUMBER_ONLY))
    return NonbreakingPrefixes(
        frozenset(entry for entry in entries if not entry.endswith(_NUMBER_ONLY)) - before_number, before_number
    )


def english_prefixes() -> NonbreakingPrefixes:
    """The Moses list of English."""
    prefixes = nonbreaking_prefixes("en")
    assert prefixes
    return prefixes


@cache
def abbreviations() -> str:
    """A pattern for English abbreviations before any word: the Moses list, with initials, and some more."""
    # Longest first, because a pattern takes the first alternative that fits.
    words = sorted(
        (english_prefixes().always - _COMMON_WORDS) | set(_MORE_ABBREVIATIONS.split()),
        key=lambda word: (-len(word), word),
    )
    return "|".join(map(re.escape, words))


_COMMON_WORDS = {"Bart", "Con", "Mar"}  # in the Moses list, but often words or names at the end of a sentence
_MORE_ABBREVIATIONS = (
    "etc al eg ie esp approx ext est vs oz lb lbs yr yrs hr hrs min mins vol fig "
    "Inc Ltd Co Jr Esq Attn Ave Blvd Dept Ft Mt Ext Vol Fig Sec Sept "
    "Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun "
    "Ala Ariz Calif Colo Conn Fla Ga Ill Ind Ky La Mass Md Mich Minn Nev Okla Ont Ore Pa Que Tenn Tex Va Wash Wis"
)


# An address can contain pairs of brackets. Marks at its end belong to the sentence.
_ADDRESS = r"""[^\s<>"()\[\]{}“”«»、。，]"""
# To be compiled with `re.VERBOSE`, as a whole pattern or as one alternative.
PROTECTED_PATTERN = rf"""
    (?<!\w)(?:(?:https?|ftp)://|www\.)(?:{_ADDRESS}|\({_ADDRESS}*\))*(?:(?![.,:;!?'`’…*_]){_ADDRESS}|\({_ADDRESS}*\))
    | (?<![\w.+-])\w[\w.+-]*@\w[\w-]*(?:\.\w[\w-]*)+                     # mail
    | (?<![\w@.])@(?=\w*[^\W\d_])\w+(?:\.\w+)*                           # @name
    | (?<![\w&\#/])\#(?=\w*[^\W\d_])\w+                                 # #tag, but not #1
    | (?<!\S)(?:>?[:;=]['o^-]?(?:[)(]+|[]D[PpOo/\\|*3{{}}])|\^[_.]?\^|-_+-|[oO0]_+[oO0]|T_+T|</?3|\(:|¯\\_\(ツ\)_/¯)
      (?![^\s.,;:!?)"'”’…])
    """


@cache
def protected_pattern() -> re.Pattern[str]:
    """A pattern of one such string."""
    return re.compile(PROTECTED_PATTERN, re.VERBOSE)


# Each protected string contains one of these characters, or "www.". A search for one character is fast.
_NEEDED_CHARACTER = re.compile("[@#_^:;=<]")
_NEEDED = re.compile(r"[@#_^]|://|www\.|[:;=]['o^-]?[])(D[PpOo/\\|*3{}]|</?3|\(:")


def has_protected(text: str) -> bool:
    """Whether a text contains such a string.

    >>> has_protected("see c.org (1)"), has_protected("see http://c.org/a_(1).")
    (False, True)
    """
    if not _NEEDED_CHARACTER.search(text) and "www." not in text:
        return False
    return bool(_NEEDED.search(text) and protected_pattern().search(text))
