"""The tokenizer gives words in the style of the model, with offsets."""

import pickle
import re
import subprocess
import sys
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from elmore.errors import InputError, InputWarning
from elmore.text.style import TokenizerConfig
from elmore.text.tokenizer import Tokenizer, is_unsegmented, split_on_spaces

# Marks and words that the Moses rules look for, in addition to any text.
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
    TokenizerConfig,
    tokenizer=st.sampled_from(["moses", "whitespace", "characters"]),
    tokenizer_version=st.just(1),  # test_moses tests version 2
    language=st.sampled_from(["en", "fr", "de", "ta"]),
    lowercase=st.booleans(),
    escape=st.booleans(),
)

pytestmark = pytest.mark.filterwarnings("ignore:the text has no spaces between words")


@given(text=texts, style=styles)
def test_tokenize_offsets_increase_inside_text(text, style):
    tokens = Tokenizer(style).tokenize(text)
    assert len(tokens.words) == len(tokens.offsets)
    before = 0
    for start, end in tokens.offsets:
        assert before <= start < end <= len(text)
        before = end


@given(text=texts, style=styles)
def test_tokenize_leaves_only_spaces_and_controls_outside_words(text, style):
    outside = list(text)
    for start, end in Tokenizer(style).tokenize(text).offsets:
        outside[start:end] = " " * (end - start)
    assert re.fullmatch(r"[\s\0-\x1f]*", "".join(outside))


@given(text=texts, language=st.sampled_from(["en", "fr", "de", "ta"]))
@example(text="DOTMULTI a\0DOTDOTMULTIb ... \x01", language="en")
def test_tokenize_word_is_text_under_offset_without_controls(text, language):
    tokens = Tokenizer(TokenizerConfig(language=language)).tokenize(text)
    under = [re.sub(r"[\0-\x1f]", "", text[start:end]) for start, end in tokens.offsets]
    assert tokens.words == under


@given(text=texts)
def test_tokenize_whitespace_and_characters_copy_text(text):
    for name in ("whitespace", "characters"):
        tokens = Tokenizer(TokenizerConfig(tokenizer=name)).tokenize(text)
        assert tokens.words == [text[start:end] for start, end in tokens.offsets]
    assert "".join(tokens.words) == "".join(text.split())


@given(text=texts.filter(lambda text: "DOTMULTI" not in text))
@pytest.mark.parametrize("language", ["en", "fr"])
def test_tokenize_escapes_as_sacremoses(language, text):
    words = Tokenizer(TokenizerConfig(language=language, escape=True)).tokenize(text).words
    assert words == MosesTokenizer(language).tokenize(text, escape=True)


def test_tokenize_leaves_markers_of_sacremoses_in_text():
    assert Tokenizer(TokenizerConfig()).tokenize("so DOTMULTI and DOTDOTMULTI...").words == [
        "so",
        "DOTMULTI",
        "and",
        "DOTDOTMULTI",
        "...",
    ]


def test_tokenize_splits_clitics_by_language():
    assert Tokenizer(TokenizerConfig(language="en")).tokenize("we don't").words == ["we", "don", "'t"]
    assert Tokenizer(TokenizerConfig(language="fr")).tokenize("l'eau").words == ["l'", "eau"]


def test_tokenize_escaped_words_have_offsets_of_raw_words():
    tokens = Tokenizer(TokenizerConfig(escape=True)).tokenize("don't [x]")
    assert tokens.words == ["don", "&apos;t", "&#91;", "x", "&#93;"]
    assert tokens.offsets == [(0, 3), (3, 5), (6, 7), (7, 8), (8, 9)]


def test_tokenize_lowercases_after_abbreviations_are_recognized():
    assert Tokenizer(TokenizerConfig(lowercase=True)).tokenize("Mr. Fox").words == ["mr.", "fox"]


def test_tokenize_lowercase_that_is_longer_leaves_offsets():
    assert Tokenizer(TokenizerConfig(lowercase=True)).tokenize("İS x") == (["i̇s", "x"], [(0, 2), (3, 4)])


@pytest.mark.parametrize("name", ["moses", "whitespace", "characters"])
@pytest.mark.parametrize("text", ["", " ", "\t\n"])
def test_tokenize_empty_text_gives_no_words(name, text):
    assert Tokenizer(TokenizerConfig(tokenizer=name)).tokenize(text) == ([], [])


def test_split_at_blanks_uses_ascii_spaces_only():
    line = "10\u00a0000 \t a\u2009b\x85c\x1fd "
    words = ["10\u00a0000", "a\u2009b\x85c\x1fd"]
    assert split_on_spaces(line) == words
    assert Tokenizer(TokenizerConfig(tokenizer="whitespace")).tokenize(line).words == words


def test_tokenize_warns_once_about_language_without_list():
    tokenizer = Tokenizer(TokenizerConfig(language="tlh"))
    with pytest.warns(UserWarning, match="no list of abbreviations for 'tlh' and uses the English one"):
        tokenizer.tokenize("Qapla.")
    assert tokenizer.tokenize("Qapla.").words == ["Qapla", "."]  # a second warning would be an error


@pytest.mark.parametrize("language", ["english", "EN", "", "pt-BR", None])
def test_tokenizer_rejects_language_that_is_no_iso_code(language):
    with pytest.raises(InputError, match=f"language is {language!r}; it must be an ISO code"):
        Tokenizer(TokenizerConfig(language=language))


def test_tokenizer_rejects_unknown_version():
    with pytest.raises(InputError, match="tokenizer_version is 3; this version of elmore has 1 and 2"):
        Tokenizer(TokenizerConfig(tokenizer_version=3))


def test_tokenizer_rejects_unknown_tokenizer():
    with pytest.raises(InputError, match="tokenizer is 'words'; it must be one of moses, whitespace, characters"):
        Tokenizer(TokenizerConfig(tokenizer="words"))


def test_tokenize_uses_version_of_style():
    for version, words in ((1, ["don", "’", "t", ":", ")"]), (2, ["don", "'t", ":)"])):
        assert Tokenizer(TokenizerConfig(tokenizer_version=version)).tokenize("don’t :)").words == words


def test_tokenizer_can_be_pickled():
    tokenizer = Tokenizer(TokenizerConfig())
    tokenizer.tokenize("used")
    assert pickle.loads(pickle.dumps(tokenizer)).tokenize("a b").words == ["a", "b"]


def test_tokenize_does_not_import_sacremoses():
    code = (
        "import sys; from elmore.text.style import TokenizerConfig; from elmore.text.tokenizer import Tokenizer\n"
        "for version in (1, 2): Tokenizer(TokenizerConfig(tokenizer_version=version))"
        ".tokenize('“Mr. Smith” don’t :-) é')\n"
        "sys.exit(bool({'sacremoses', 'joblib', 'regex', 'tqdm', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


@pytest.mark.parametrize("text", ["我们去北京。", "日本語のテキストです。", "ภาษาไทย", "ຂ້ອຍມາ", "မြန်မာစာ", "ភាសាខ្មែរ"])
def test_is_unsegmented_is_true_without_spaces_between_words(text):
    assert is_unsegmented(text)


@pytest.mark.parametrize(
    "text", ["", "plain", "한글은 좋다.", "हिन्दी", "عربي", "The city of 北京 (Peking)", "ελληνικά"]
)
def test_is_unsegmented_is_false_with_spaces_between_words(text):
    assert not is_unsegmented(text)


@pytest.mark.parametrize("version", [1, 2])
def test_tokenize_warns_once_about_unsegmented_text(version):
    tokenizer = Tokenizer(TokenizerConfig(tokenizer_version=version))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(3):
            tokenizer.tokenize("我们去北京。")
            tokenizer.tokenize("We go.")
    assert [warning.category for warning in shown] == [InputWarning]
    assert "--tokenized, or lists of words" in str(shown[0].message)


def test_tokenize_of_words_does_not_warn():
    for name in ("whitespace", "characters"):
        Tokenizer(TokenizerConfig(tokenizer=name)).tokenize("我们 去 北京 。")
