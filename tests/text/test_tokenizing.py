"""Words come out as the style has them, and every word knows its place in the text."""

import pickle
import re
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from elmore.errors import InputError
from elmore.text.style import TextStyle
from elmore.text.tokenizing import Tokenizer, split_at_blanks

# Anything, and besides it much of what the rules of Moses look for.
PIECES = [
    "'",
    '"',
    "``",
    "''",
    ".",
    "...",
    "DOTMULTI",
    "DOTDOTMULTI",
    "U.S.",
    "Mr.",
    "No.",
    "7",
    ",",
    "-",
    "|",
    "&amp;",
]
PIECES += ["<b>", "[x]", "a@b.com", "http://x.y/z", "@-@", "e\u0301", "\u00a0", "\u2028", "\0", "\x1b", "\x1c", "\x85"]
PIECES += [" ", "\t", "don't", "l'eau", "İ", "ς", "中文", "한글", "हिन्दी", "😀", "a"]
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
styles = st.builds(
    TextStyle,
    tokenizer=st.sampled_from(["moses", "whitespace", "characters"]),
    tokenizer_version=st.just(1),  # test_moses has the other
    language=st.sampled_from(["en", "fr", "de", "ta"]),
    lowercase=st.booleans(),
    escape=st.booleans(),
)

pytestmark = pytest.mark.filterwarnings("ignore:the text is in a script without blanks")


@given(text=texts, style=styles)
def test_offsets_are_in_order_inside_the_text_and_not_empty(text, style):
    tokens = Tokenizer(style).tokenize(text)
    assert len(tokens.words) == len(tokens.offsets)
    before = 0
    for start, end in tokens.offsets:
        assert before <= start < end <= len(text)
        before = end


@given(text=texts, style=styles)
def test_only_spaces_and_control_characters_lie_outside_the_words(text, style):
    outside = list(text)
    for start, end in Tokenizer(style).tokenize(text).offsets:
        outside[start:end] = " " * (end - start)
    assert re.fullmatch(r"[\s\0-\x1f]*", "".join(outside))


@given(text=texts, language=st.sampled_from(["en", "fr", "de", "ta"]))
@example(text="DOTMULTI a\0DOTDOTMULTIb ... \x01", language="en")
def test_the_characters_under_an_offset_are_the_word_but_for_control_characters(text, language):
    tokens = Tokenizer(TextStyle(language=language)).tokenize(text)
    under = [re.sub(r"[\0-\x1f]", "", text[start:end]) for start, end in tokens.offsets]
    assert tokens.words == under


@given(text=texts)
def test_words_at_blanks_and_single_characters_are_exactly_what_stands_there(text):
    for name in ("whitespace", "characters"):
        tokens = Tokenizer(TextStyle(tokenizer=name)).tokenize(text)
        assert tokens.words == [text[start:end] for start, end in tokens.offsets]
    assert "".join(tokens.words) == "".join(text.split())


@given(text=texts.filter(lambda text: "DOTMULTI" not in text), escape=st.booleans())
@pytest.mark.parametrize("language", ["en", "fr", "de", "ta"])
def test_moses_words_are_those_of_sacremoses(language, text, escape):
    ours = Tokenizer(TextStyle(language=language, escape=escape)).tokenize(text).words
    assert ours == MosesTokenizer(language).tokenize(text, escape=escape)


def test_words_that_moses_uses_as_marks_stay_words():
    assert Tokenizer(TextStyle()).tokenize("so DOTMULTI and DOTDOTMULTI...").words == [
        "so",
        "DOTMULTI",
        "and",
        "DOTDOTMULTI",
        "...",
    ]


def test_clitics_are_cut_by_the_rules_of_the_language():
    assert Tokenizer(TextStyle(language="en")).tokenize("we don't").words == ["we", "don", "'t"]
    assert Tokenizer(TextStyle(language="fr")).tokenize("l'eau").words == ["l'", "eau"]


def test_escaped_words_keep_the_place_of_the_raw_ones():
    tokens = Tokenizer(TextStyle(escape=True)).tokenize("don't [x]")
    assert tokens.words == ["don", "&apos;t", "&#91;", "x", "&#93;"]
    assert tokens.offsets == [(0, 3), (3, 5), (6, 7), (7, 8), (8, 9)]


def test_abbreviations_are_known_before_letters_are_made_small():
    assert Tokenizer(TextStyle(lowercase=True)).tokenize("Mr. Fox").words == ["mr.", "fox"]


def test_a_letter_that_grows_in_lower_case_moves_no_offset():
    assert Tokenizer(TextStyle(lowercase=True)).tokenize("İS x") == (["i̇s", "x"], [(0, 2), (3, 4)])


@pytest.mark.parametrize("name", ["moses", "whitespace", "characters"])
@pytest.mark.parametrize("text", ["", " ", "\t\n"])
def test_an_empty_text_has_no_words(name, text):
    assert Tokenizer(TextStyle(tokenizer=name)).tokenize(text) == ([], [])


def test_only_ascii_blanks_separate_words_that_are_there_already():
    line = "10\u00a0000 \t a\u2009b\x85c\x1fd "
    words = ["10\u00a0000", "a\u2009b\x85c\x1fd"]
    assert split_at_blanks(line) == words
    assert Tokenizer(TextStyle(tokenizer="whitespace")).tokenize(line).words == words


def test_a_language_moses_does_not_know_is_said_once():
    tokenizer = Tokenizer(TextStyle(language="tlh"))
    with pytest.warns(UserWarning, match="no list of abbreviations for 'tlh' and takes the English one"):
        tokenizer.tokenize("Qapla.")
    assert tokenizer.tokenize("Qapla.").words == ["Qapla", "."]  # a second warning would be an error


@pytest.mark.parametrize("language", ["english", "EN", "", "pt-BR"])
def test_a_language_is_an_iso_code(language):
    with pytest.raises(InputError, match=f"ISO code such as 'en' or 'de', and is {language!r}"):
        Tokenizer(TextStyle(language=language))


def test_a_version_that_is_not_known_is_refused():
    with pytest.raises(InputError, match="version 3 of the tokeniser is asked for, and this program has 1 and 2"):
        Tokenizer(TextStyle(tokenizer_version=3))


def test_the_version_of_the_style_decides():
    for version, words in ((1, ["don", "’", "t", ":", ")"]), (2, ["don", "'t", ":)"])):
        assert Tokenizer(TextStyle(tokenizer_version=version)).tokenize("don’t :)").words == words


def test_a_tokenizer_travels_to_worker_processes():
    tokenizer = Tokenizer(TextStyle())
    tokenizer.tokenize("used")
    assert pickle.loads(pickle.dumps(tokenizer)).tokenize("a b").words == ["a", "b"]


def test_sacremoses_is_loaded_on_first_use_only():
    code = "import elmore.text.tokenizing, sys; sys.exit('sacremoses' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
