r"""The word rules of the Moses toolkit.

Each symbol is a word. Each run of two or more full stops is a word. The rules for other marks are:

    comma        is a word, but not between two numbers (1,000)
    apostrophe   is a word, but between letters it starts one in English (don 't) and ends one in French (l' eau)
    full stop    is a word at the end of a word, but not of an abbreviation (Mr., U.S.) or before a small letter

One regular expression finds the words. Full stops are separated afterwards, because that depends on the next word.

Moses states its rules as a chain of substitutions. Each substitution consumes the characters next to a mark. It does
not change a second mark next to the same character: a'b'c becomes a 'b'c. Such marks are rare. `_decide_marks` decides
about them before the search for words.

The rules see each text as ASCII: a character above ASCII is replaced by an ASCII character of its class. So one small
pattern serves all scripts, and offsets stay the same. Letters that Unicode added after sacremoses' tables are symbols.

    “Ça coûte 3½ €”    becomes    |Aa coAte 3| ||

Reference: tokenizer.perl of Moses, in the form of sacremoses. Tests compare all languages with sacremoses.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple

from elmore.text.nonbreaking import NonbreakingPrefixes
from elmore.text.unicode_tables import DIGITS, LETTERS, LOWERCASE, NUMBERS

Span = tuple[int, int]
Apostrophe = Literal["starts a word", "ends a word", "is a word"]  # between two letters


LETTER = "A"
DIGIT = "0"
LETTER_NUMBER = "\3"  # a letter and a number, such as Ⅷ
SYMBOL = "|"
SPACE = " "

_ABOVE_ASCII = re.compile(r"[^\0-\x7f]+")
_LAST_OF_PLANE_0 = 0xFFFF


class CharacterClasses(dict[int, str]):
    r"""A table for `str.translate` that is filled when a character is first seen.

    `letters` and `symbols` are tables of ranges, in addition to Perl's classes. Symbols have priority.

    >>> CharacterClasses().to_ascii("Ça coûte 3½ €")
    'Aa coAte 3| |'
    """

    def __init__(self, *letters: str, symbols: str = "") -> None:
        super().__init__()
        self._letters = (LETTERS, *letters)
        self._symbols = symbols

    def to_ascii(self, text: str) -> str:
        """The text, of the same length, with each character above ASCII replaced by one of its class."""
        return text if text.isascii() else _ABOVE_ASCII.sub(lambda run: run[0].translate(self), text)

    def __missing__(self, code: int) -> str:
        character_class = self._class_of(chr(code))
        if code <= _LAST_OF_PLANE_0:  # bounds the table
            self[code] = character_class
        return character_class

    def _class_of(self, character: str) -> str:
        if character.isspace():
            return SPACE
        if is_in(character, self._symbols):
            return SYMBOL
        if any(is_in(character, letters) for letters in self._letters):
            return LETTER_NUMBER if is_in(character, NUMBERS) else LETTER
        return DIGIT if is_in(character, DIGITS) else SYMBOL


def is_in(character: str, ranges: str) -> bool:
    """Whether a character belongs to a table of ranges (see `unicode_tables`).

    >>> is_in("m", "az"), is_in("z", "az")
    (True, False)
    """
    return bisect_right(ranges, character) % 2 == 1


class MosesRules(NamedTuple):
    """The rules of a language."""

    apostrophe: Apostrophe
    prefixes: NonbreakingPrefixes
    characters: CharacterClasses


# Decisions about a mark, written in its place.
JOIN = "`"  # inside a word, as a backtick is
START = "\1"  # starts a word
END = "\2"  # ends a word
SEPARATE = "|"  # is a word, as a symbol is
NOTHING = "\4"  # a character to ignore
MORE = "\5"  # continues a letter

_LETTER = rf"A-Za-z\x03{MORE}"
_NUMBER = r"0-9\x03"
_PART = rf"A-Za-z0-9\x03{MORE}`-"  # of a word


def find_words(text: str, rules: MosesRules) -> list[Span]:
    """The characters [start, end) of each word. The only control characters in the text are decisions."""
    classes = rules.characters.to_ascii(text)
    if _has_dependent_marks(text, rules.apostrophe):
        classes = _decide_marks(classes, rules.apostrophe)
    spans = [word.span() for word in _word_pattern(rules.apostrophe).finditer(classes)]
    return _with_separate_stops(spans, text, classes, rules) if "." in text else spans


@cache
def _word_pattern(apostrophe: Apostrophe) -> re.Pattern[str]:
    """A pattern of words, with full stops at their ends."""
    between_letters = rf"(?<=[{_LETTER}])'(?=[{_LETTER}])"
    starts = [rf"[{_PART}]", r"\.(?!\.)", START]
    joints = [r"\.(?!\.)", rf"(?<=[{_NUMBER}]),(?=[{_NUMBER}])"]
    end = END
    if apostrophe != "is a word":
        # The first and the last character of a text have one neighbor only, and the rules need two.
        starts.append(rf"\A'(?=[{_PART}]|\.(?!\.))")
        joints.append(rf"(?<=[{_PART}])'(?=\s*\Z)")
    if apostrophe == "starts a word":
        starts.append(rf"{between_letters}|(?<=[0-9])'(?=s)")
        joints.append(rf"(?<=[0-9])'(?=[{_LETTER}])(?!s)")
    if apostrophe == "ends a word":
        end += f"|{between_letters}"
    return re.compile(
        # First most words and symbols, which is fast. The last two lines would find them, too.
        rf"[{_PART}]++(?![.'{END}]|,[{_NUMBER}])|[^\s.'{START}{NOTHING}{_PART}]"
        rf"|(?:{'|'.join(starts)})[{_PART}]*+(?:(?:{'|'.join(joints)})[{_PART}]*+)*+(?:{end})?"
        rf"|\.\.+|[^\s{NOTHING}]"
    )


def _with_separate_stops(spans: list[Span], text: str, classes: str, rules: MosesRules) -> list[Span]:
    """Separate each full stop at the end of a word, unless the word keeps it."""
    # Before an apostrophe at the end of the text, Moses separates every full stop.
    forced = len(spans) - 2 if rules.apostrophe != "is a word" and text.rstrip().endswith(".'") else -1
    separated: list[Span] = []
    copied = 0
    first = max(bisect_left(spans, (text.index("."),)) - 1, 0)  # the first word that can have a full stop
    for index in range(first, len(spans)):
        start, end = spans[index]
        if text[end - 1] != "." or end - start == 1 or text[end - 2] == ".":
            continue
        following = text[spans[index + 1][0]] if index + 1 < len(spans) else ""
        if index == forced or not _keeps_stop(
            text[start : end - 1], classes[start : end - 1], following, rules.prefixes
        ):
            separated += spans[copied:index]
            separated += (start, end - 1), (end - 1, end)
            copied = index + 1
    return separated + spans[copied:]


def _keeps_stop(word: str, classes: str, following: str, prefixes: NonbreakingPrefixes) -> bool:
    """Whether a word keeps its full stop; `following` is the first character of the next word."""
    if word in prefixes.always or ("." in word and _ANY_LETTER.search(classes)):
        return True
    return bool(following) and (
        is_in(following, LOWERCASE) or (word in prefixes.before_number and following in "0123456789")
    )


_ANY_LETTER = re.compile(f"[{_LETTER}]")


def _has_dependent_marks(text: str, apostrophe: Apostrophe) -> bool:
    """Whether the text has marks that the word pattern cannot decide about by the characters next to them."""
    if ",," in text or text.lstrip()[:1] == ",":
        return True
    return apostrophe != "is a word" and "'" in text and bool(text[0].isspace() or _APOSTROPHES_IN_CONTACT.search(text))


_APOSTROPHES_IN_CONTACT = re.compile(rf"'(?:\s*|\S{MORE}*)'")


def _decide_marks(classes: str, apostrophe: Apostrophe) -> str:
    """Write decisions in the place of commas and apostrophes that depend on each other."""
    start = len(classes) - len(classes.lstrip())
    classes = re.sub(",+", lambda run: _decide_commas(run, start), classes)
    if apostrophe == "is a word" or "'" not in classes:
        return classes
    decisions = iter(_decide_apostrophes(_with_spaces(classes), _SUBSTITUTIONS[apostrophe]))
    return re.sub("'", lambda _: next(decisions), classes)


_NUMBER_CLASSES = frozenset("0123456789\3")


def _decide_commas(run: re.Match[str], text_start: int) -> str:
    is_first = run.start() == text_start
    if len(run[0]) == 1 and not is_first:
        return ","
    # Moses takes pairs: a character that is no number, and a comma, which is then separated from the next character.
    # The first pair begins before the run or, after a number, with the run. A comma in no pair stays with a number.
    begins_before_run = not is_first and run.string[run.start() - 1] not in _NUMBER_CLASSES
    ends_pair = (len(run[0]) % 2 == 1) == begins_before_run
    is_before_number = run.string[run.end() : run.end() + 1] in _NUMBER_CLASSES
    return SEPARATE * (len(run[0]) - 1) + (START if is_before_number and not ends_pair else SEPARATE)


def _with_spaces(classes: str) -> str:
    """The classes with spaces around each word that the rules find before they come to apostrophes."""
    classes = re.sub(r"\s+", " ", classes.strip()).translate({ord(NOTHING): "", ord(MORE): ""})
    classes = re.sub(rf"\.\.+|(?<![{_NUMBER}]),|,(?![{_NUMBER}])|[^\s.,'{START}{END}{_PART}]", "  ", classes)
    return classes.replace(START, " ,").replace(END, " ")


# The left and the right neighbor of an apostrophe, and its replacement, in the order of application.
_SUBSTITUTIONS = {
    "starts a word": [
        (rf"[^{_LETTER}]", rf"[^{_LETTER}]", " ' "),
        (rf"[^{_LETTER}{_NUMBER}]", f"[{_LETTER}]", " ' "),
        (f"[{_LETTER}]", rf"[^{_LETTER}]", " ' "),
        (f"[{_LETTER}]", f"[{_LETTER}]", " '"),
        (f"[{_NUMBER}]", "s", " '"),
    ],
    "ends a word": [
        (rf"[^{_LETTER}]", rf"[^{_LETTER}]", " ' "),
        (rf"[^{_LETTER}]", f"[{_LETTER}]", " ' "),
        (f"[{_LETTER}]", rf"[^{_LETTER}]", " ' "),
        (f"[{_LETTER}]", f"[{_LETTER}]", "' "),
    ],
}


def _decide_apostrophes(classes: str, substitutions: list[tuple[str, str, str]]) -> Iterator[str]:
    for left, right, replacement in substitutions:
        classes = re.sub(f"({left})'({right})", rf"\1{replacement}\2", classes)
    for index in (apostrophe.start() for apostrophe in re.finditer("'", classes)):
        before, after = classes[max(index - 1, 0) : index], classes[index + 1 : index + 2]
        is_start, is_end = before in ("", " "), after in ("", " ")
        if (is_start and is_end) or (before == "." and after == ""):
            yield SEPARATE
        else:
            yield START if is_start else END if is_end else JOIN
