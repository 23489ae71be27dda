"""Write the tables of the tokenizer.

    python experiments/tokenizer/write_tables.py

Character classes and lists of abbreviations of the Moses rules come from the installed sacremoses, and combining marks
from Python's Unicode database. They are written to unicode_tables.py and nonbreaking_prefixes/ in src/elmore/text.
`tests/text/test_tables.py` compares these files with their sources.
"""

from pathlib import Path
from unicodedata import category, unidata_version

from sacremoses.tokenize import MosesTokenizer, nonbreaking_prefixes, perluniprops

TEXT = Path(__file__).resolve().parents[2] / "src" / "elmore" / "text"
TABLES = TEXT / "unicode_tables.py"
PREFIXES = TEXT / "nonbreaking_prefixes"
NUMBER_ONLY = "#NUMERIC_ONLY#"


def main() -> None:
    if unidata_version != "14.0.0":
        raise SystemExit(f"this Python has Unicode {unidata_version}; the tables have the marks of Unicode 14")
    TABLES.write_text(tables_module(), encoding="utf-8")
    for language in languages():
        (PREFIXES / f"{language}.txt").write_text(prefix_file(language), encoding="utf-8")


def character_tables() -> dict[str, str]:
    """The classes of the rules, as `unicode_tables` has them."""
    letters, alphanumeric = set(MosesTokenizer.IsAlpha), set(MosesTokenizer.IsAlnum)
    classes = {
        "LETTERS": letters,
        "DIGITS": alphanumeric - letters,
        "NUMBERS": set(MosesTokenizer.IsN),
        "LOWERCASE": set(MosesTokenizer.IsLower),
    }
    classes |= {name.upper(): set(perluniprops.chars(name)) for name in ("Hangul", "Han", "Hiragana", "Katakana")}
    return {name: ranges(characters) for name, characters in classes.items()}


def ranges(characters: set[str]) -> str:
    """The first character of each range and the one after its last."""
    codes = {ord(character) for character in characters if not character.isspace()}
    starts = sorted(code for code in codes if code - 1 not in codes)
    ends = sorted(code + 1 for code in codes if code + 1 not in codes)
    return "".join(chr(start) + chr(end) for start, end in zip(starts, ends, strict=True))


def tables_module() -> str:
    tables = [f"{name} = {_string_code(table, width=16)}" for name, table in character_tables().items()]
    marks = [f"{name} = {_string_code(table, width=18)}" for name, table in mark_tables().items()]
    return "\n".join([MODULE_DOCSTRING, *tables, "".join(marks)])


MODULE_DOCSTRING = '''\
"""Classes of Unicode characters as constants, so that words are the same in each version of Python.

experiments/tokenizer/write_tables.py writes this file. The classes of the Moses rules contain the first character of
each range, and the character after its last. MARKS are all code points of the categories Mn, Mc and Me in Unicode 14,
as content of a character class of a regular expression.
"""
'''


def mark_tables() -> dict[str, str]:
    # Above plane 1 there are only variation selectors, which are invisible.
    marks = {chr(code) for code in range(0x20000) if category(chr(code)).startswith("M")}
    return {
        "MARKS_IN_PLANE_0": _as_class({mark for mark in marks if mark < "\U00010000"}),
        "MARKS_IN_PLANE_1": _as_class({mark for mark in marks if mark >= "\U00010000"}),
    }


def _as_class(characters: set[str]) -> str:
    borders = ranges(characters)
    return "".join(f"{start}-{chr(ord(end) - 1)}" for start, end in zip(borders[::2], borders[1::2], strict=True))


def _string_code(text: str, *, width: int) -> str:
    pieces = [_escaped(text[start : start + width]) for start in range(0, len(text), width)]
    return "\n".join(["(", *(f'    "{piece}"' for piece in pieces), ")", ""])


def _escaped(text: str) -> str:
    return "".join(map(_escaped_character, text))


def _escaped_character(character: str) -> str:
    code = ord(character)
    if code < 0x7F:
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def languages() -> list[str]:
    return sorted(set(nonbreaking_prefixes.available_langs.values()))


def prefix_file(language: str) -> str:
    always, before_number = prefixes(language)
    lines = [*sorted(always), *(f"{prefix} {NUMBER_ONLY}" for prefix in sorted(before_number))]
    return "\n".join([HEADER.format(language=language), *lines, ""])


HEADER = """\
# From nonbreaking_prefix.{language} of the Moses toolkit. License: LGPL-2.1-or-later, see README.md in this folder.
# Changed on 2026-11-19: sorted, comments and repeated entries removed."""


def prefixes(language: str) -> tuple[set[str], set[str]]:
    """The abbreviations of a language: always, and before a number only."""
    moses = MosesTokenizer(language)
    before_number = set(moses.NUMERIC_ONLY_PREFIXES)
    always = {entry for entry in moses.NONBREAKING_PREFIXES if not moses.has_numeric_only(entry)}
    return always - before_number, before_number


if __name__ == "__main__":
    main()
