"""Both versions of the Moses tokenizer give the words and offsets of sacremoses in all its languages."""

import random
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path

import pytest
import sacremoses_tokenizer
from hypothesis import example, given
from hypothesis import strategies as st
from sacremoses.corpus import NonbreakingPrefixes

from elmore.files.text_files import read_lines
from elmore.text import moses
from elmore.text.moses import Tokens

LISTED = sorted(set(NonbreakingPrefixes().available_langs.values()))
LANGUAGES = [*LISTED, "ja", "ko", "cjk", "cop"]
SLOW_IN_SACREMOSES = ("zh", "ja", "cjk")  # milliseconds per line
MARKS = [
    "'",
    "’",
    ",",
    ".",
    "-",
    "`",
    "(",
    ")",
    '"',
    "..",
    "...",
    ",,",
    "''",
    " ' ",
    "' '",
    "5",
    "1,000",
    "s",
    "²",
    "Ⅷ",
]
MARKS += ["\u00a0", "\t", "\0", "\x1b", "\x1f", "\u0301", "\u00ad", "\u200b", "\u200d", "DOTMULTI", "\u01bb", "☐"]
MARKS += ["@a", ":-)", "#tag", "a@b.co", "www.x.org", "No", "Mr", "U.S", "don't", "l'eau", "中文", "カタカナ", "한글"]

pytestmark = pytest.mark.filterwarnings("ignore:the Moses tokenizer has no list of abbreviations")


def both_versions(module: object) -> list[Callable[..., Tokens]]:
    return [module.tokenize_v1, module.tokenize_v2]


def assert_equal_to_sacremoses(lines: Iterator[str], language: str) -> None:
    for line in lines:
        for tokenize, reference in zip(both_versions(moses), both_versions(sacremoses_tokenizer), strict=True):
            tokens = tokenize(line, language=language)
            assert tokens == reference(line, language=language), (tokenize.__name__, language, line)


@given(text=st.one_of(st.text(), st.lists(st.sampled_from([*MARKS, " ", "a", "B."]), max_size=12).map("".join)))
@example("5,,,5 ,,5 a,,5 5,,5")
@example("a'b'c 'n'roll 5's '5' ' '5")
@example("a' \0 '5")
@pytest.mark.parametrize("language", ["en", "fr", "de", "ta"])
def test_find_words_of_any_text_equals_sacremoses(language: str, text: str) -> None:
    assert_equal_to_sacremoses(iter([text]), language)


# All marks that depend on each other, in short texts.
@given(text=st.text(alphabet="',,'.. a5s(", max_size=10))
@pytest.mark.parametrize("language", ["en", "it", "de"])
def test_find_words_of_marks_in_contact_equals_sacremoses(language: str, text: str) -> None:
    assert_equal_to_sacremoses(iter([text]), language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_find_words_of_random_lines_equals_sacremoses(language: str) -> None:
    assert_equal_to_sacremoses(islice(random_lines(language), 10 if language in SLOW_IN_SACREMOSES else 200), language)


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_find_words_of_many_random_lines_equals_sacremoses(language: str) -> None:
    count = 400 if language in SLOW_IN_SACREMOSES else 10_000
    assert_equal_to_sacremoses(islice(random_lines(language, seed=2), count), language)


@pytest.mark.parametrize("character", ["a{0}b 5{0}5", "a{0}'b 5{0},5 {0}'s {0},5", "x. {0} {0}. {0}.x. '{0}"])
def test_find_words_of_each_character_equals_sacremoses(character: str) -> None:
    codes = chain(range(0x3200), range(0xA480, 0xAC80), range(0xF900, 0x10400), range(0x1D400, 0x1D800))
    lines = (
        " ".join(character.format(chr(code)) for code in range(start, start + 64)) for start in codes if not start % 64
    )
    assert_equal_to_sacremoses(lines, "en")


@pytest.mark.parametrize("language", ["en", "fr"])
def test_find_words_of_english_text_equals_sacremoses(shared: Path, language: str) -> None:
    assert_equal_to_sacremoses(english_lines(shared), language)


def test_find_words_of_coptic_text_equals_sacremoses(shared: Path) -> None:
    lines = chain.from_iterable(read_lines(path) for path in sorted((shared / "data" / "coptic").glob("*.txt.xz")))
    assert_equal_to_sacremoses(islice(lines, 10_000), "cop")


@pytest.mark.slow
@pytest.mark.parametrize("language", [language for language in LANGUAGES if language not in SLOW_IN_SACREMOSES])
def test_find_words_of_english_text_by_each_language_equals_sacremoses(shared: Path, language: str) -> None:
    assert_equal_to_sacremoses(english_lines(shared), language)


def english_lines(shared: Path) -> Iterator[str]:
    """Paragraphs of all sources, among them transcripts and web pages."""
    files = sorted((shared / "data" / "text" / "eval").glob("own-*.txt.xz"))
    lines = [line for path in files for line in islice(filter(None, read_lines(path)), 1_500)]
    assert len(lines) > 10_000
    return iter(random.Random(1).sample(lines, 10_000))


SCRIPTS = [(0x41, 0x5B), (0x61, 0x7B), (0xC0, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE00), (0xE00, 0xF00)]
SCRIPTS += [(0x1000, 0x1100), (0x1E00, 0x2000), (0x2000, 0x2070), (0x20A0, 0x2190), (0x3000, 0x3100), (0x4E00, 0x4F00)]
SCRIPTS += [(0xAC00, 0xAD00), (0x1F600, 0x1F640)]


def random_lines(language: str, *, seed: int = 1) -> Iterator[str]:
    """Abbreviations of the language with what can follow them, words of many scripts, and marks."""
    random_number = random.Random(seed)
    prefixes = [prefix.replace("#NUMERIC_ONLY#", "").strip() for prefix in NonbreakingPrefixes().words(language)]
    ends = ["", ".", " .", ".'", ".)", ". 5", ". a", ". A", ".\u00a05", ". ä"]
    while True:
        pieces = []
        for _ in range(random_number.randint(1, 8)):
            first, end = random_number.choice(SCRIPTS)
            word = "".join(chr(random_number.randrange(first, end)) for _ in range(random_number.randint(1, 5)))
            prefix = random_number.choice(prefixes) + random_number.choice(ends)
            pieces.append(random_number.choice([word, prefix, prefix, random_number.choice(MARKS)]))
            pieces.append(random_number.choice(["", " ", " "]))
        yield "".join(pieces)
