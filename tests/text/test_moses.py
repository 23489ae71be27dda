"""Version 2 of the Moses tokenizer prepares text for the rules. Comparisons with sacremoses are in test_moses_rules."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.text.moses import tokenize_v1, tokenize_v2
from elmore.text.normalize import normalize_with_offsets, to_visible_nfc

PIECES = ["'", "’", '"', "``", ".", "...", "DOTMULTI", "U.S.", "Mr.", "No.", "7", ",", "-", "|", "&#39;", "<b>", "[x]"]
PIECES += ["a@b.com", "http://x.y/z_(w)", "www.", "@bob", "#tag", "#1", ":-)", "<3", "^_^", "I.", "c.org."]
PIECES += ["e\u0301", "\u0301", "\u00ad", "\u200b", "\u200d", "\ufeff", "\ufe0f", "\u00a0", "\u2028", "\0", "\x1b"]
PIECES += [
    "中文",
    "カタカナ",
    "ひら",
    "한글",
    "\u1112\u1161",
    "ภาษาไทย",
    "हिन्दी",
    "می\u200cخ",
    "👨\u200d👩",
    "🇩",
    "👍🏽",
]
PIECES += [" ", "\t", "don’t", "l’eau", "İ", "ς", "a", "\u01bb", "☐", "\ud800"]
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
languages = st.sampled_from(["en", "fr", "de", "zh", "ko"])


def words(text: str, language: str = "en") -> list[str]:
    return tokenize_v2(text, language=language).words


@given(text=texts, language=languages)
def test_tokenize_v2_offsets_increase_without_overlap(text, language):
    tokens = tokenize_v2(text, language=language)
    before = 0
    for (start, end), _ in zip(tokens.offsets, tokens.words, strict=True):
        assert before <= start < end <= len(text)
        before = end


@given(text=texts, language=languages)
def test_tokenize_v2_offsets_cover_all_visible_characters(text, language):
    before = 0
    for start, end in [*tokenize_v2(text, language=language).offsets, (len(text), len(text))]:
        # Only invisible characters, marks without a base and spaces are between words.
        assert not normalize_with_offsets(text[before:start]).text.strip()
        before = end


@given(text=texts, language=languages)
def test_tokenize_v2_word_is_visible_text_under_offset(text, language):
    tokens = tokenize_v2(text, language=language)
    for word, (start, end) in zip(tokens.words, tokens.offsets, strict=True):
        assert word.replace("’", "'") == to_visible_nfc(text[start:end]).replace("’", "'")
        assert word.strip() == word != ""


MARKS = [*"""'",.;:!?-|()&%$+""", "...", "don't", "Mr.", "U.S.", "7", "1,000", "é", "“", "”", "—"]
plain = st.lists(st.one_of(st.from_regex("[A-Za-z]{1,9}", fullmatch=True), st.sampled_from(MARKS)), max_size=14)


@given(pieces=plain, glue=st.sampled_from(["", " "]))
@pytest.mark.parametrize("language", ["en", "fr"])
def test_tokenize_v2_of_plain_text_equals_version_1(language, pieces, glue):
    # With a word at the end, there is no final full stop, which the versions treat differently.
    text = glue.join(pieces) + " end"
    if not re.search(r"(?<!\S)[(:;]\S", text):
        assert tokenize_v2(text, language=language) == tokenize_v1(text, language=language)


def test_tokenize_v1_splits_at_marks_addresses_and_apostrophes():
    text = "We don’t cafe\u0301 co\u00adop. see http://a.b/c :-)"
    expected = "We don ’ t cafe \u0301 co \u00ad op. see http : / / a.b / c : - )"
    assert tokenize_v1(text, language="en").words == expected.split(" ")


@pytest.mark.parametrize("text", ["We don’t.", "It’s O’Neil’s.", "the 1990’s", "l’eau d’or", "caf\u0065\u0301’s"])
@pytest.mark.parametrize("language", ["en", "fr", "de"])
def test_tokenize_v2_treats_typographic_apostrophe_as_plain(text, language):
    assert tokenize_v2(text, language=language) == tokenize_v2(text.replace("’", "'"), language=language)


def test_tokenize_v2_typographic_quotes_are_words():
    assert words("‘Go home.’ She went to the dogs’ ‘house’.")[-6:] == ["dogs", "’", "‘", "house", "’", "."]
    assert words("‘Go home.’") == ["‘", "Go", "home", ".", "’"]


def test_tokenize_v2_offsets_belong_to_original_text():
    text = "Cafe\u0301s don’t co\u00adoperate\u200b."
    tokens = tokenize_v2(text, language="en")
    assert tokens.words == ["Cafés", "don", "'t", "cooperate", "."]
    assert [text[start:end] for start, end in tokens.offsets] == [
        "Cafe\u0301s",
        "don",
        "’t",
        "co\u00adoperate\u200b",
        ".",
    ]


@pytest.mark.parametrize(
    "whole",
    [
        "http://example.org",
        "https://en.wikipedia.org/wiki/Bow_(ship)",
        "https://x.org/a?b=c&d=%20#e",
        "www.example.org/~me",
        "ftp://x.y/z",
        "first.last+tag@mail.example.co.uk",
        "@name",
        "@first.last",
        "#ELMo",
        "#größe",
        ":)",
        ":-)",
        ";-)",
        ":D",
        ":-P",
        ":'(",
        ":)))",
        "=)",
        "<3",
        "^_^",
        "-_-",
        "o_O",
        "👨\u200d👩\u200d👧",
        "👍🏽",
        "🇩🇪",
    ],
)
def test_tokenize_v2_does_not_split_addresses_names_emoticons(whole):
    assert words(whole) == [whole]
    assert words(f"Look, {whole}. then {whole}") == ["Look", ",", whole, ".", "then", whole]
    assert words(f"Look at {whole}!") == ["Look", "at", whole, "!"]


def test_tokenize_v2_separates_marks_around_addresses():
    assert words("(see http://x.org/a).") == ["(", "see", "http://x.org/a", ")", "."]
    assert words("“www.x.org,” he said") == ["“", "www.x.org", ",", "”", "he", "said"]
    assert words("<http://x.org>; me@x.org: yes") == ["<", "http://x.org", ">", ";", "me@x.org", ":", "yes"]


def test_tokenize_v2_splits_lookalikes_as_version_1():
    for text in ("We are #1 and C# at 5 @ 6", "f(x):) (a=3) ratio 3:4 &#39;", "note: (a) and; (b)", "a@b x@"):
        assert tokenize_v2(text, language="en") == tokenize_v1(text, language="en")


@pytest.mark.parametrize("end", ["I", "vitamin C", "c.org", "www.c.org", "file.txt"])
def test_tokenize_v2_separates_final_stop_of_letter_or_address(end):
    assert words(f"It was {end}.")[-2:] == [end.split()[-1], "."]
    assert words(f'"It was {end}."')[-3:] == [end.split()[-1], ".", '"']
    assert words(f"(It was {end}.)")[-3:] == [end.split()[-1], ".", ")"]


@pytest.mark.parametrize("end", ["U.S.", "p.m.", "e.g.", "Ph.D.", "M.Sc.", "cand.jur.", "Mr."])
def test_tokenize_v2_leaves_final_stop_of_abbreviation(end):
    assert words(f"It was {end}")[-1] == end


def test_tokenize_v2_leaves_stop_of_initial_inside_sentence():
    assert words("I met J. F. Smith.") == ["I", "met", "J.", "F.", "Smith", "."]


@pytest.mark.parametrize("language", ["en", "ko", "zh"])
def test_tokenize_v2_splits_korean_at_spaces(language):
    assert words("한글은 좋다.", language) == ["한글은", "좋다", "."]
    assert words("\u1112\u1161\u11ab\u1100\u1173\u11af 좋다", language) == ["한글", "좋다"]


@pytest.mark.parametrize("language", ["en", "zh", "ja"])
def test_tokenize_v2_splits_chinese_and_japanese_into_characters(language):
    assert words("我们去。", language) == ["我", "们", "去", "。"]
    assert words("テキストです。", language) == ["テキスト", "で", "す", "。"]


def test_tokenize_v2_leaves_thai_and_hindi_words_whole():
    assert words("ไม่มี ช่อง") == ["ไม่มี", "ช่อง"]
    assert words("मैं हिन्दी") == ["मैं", "हिन्दी"]


def test_tokenize_v2_splits_thai_and_khmer_at_zero_width_space():
    assert words("ภาษา\u200bไทย") == ["ภาษา", "ไทย"]
    assert words("ភាសា\u200bខ្មែរ") == ["ភាសា", "ខ្មែរ"]
    assert words("lo\u200bng") == ["long"]


LONG = [
    "a",
    "a.",
    "@",
    "#a",
    "www.",
    "http://",
    "(",
    ":)",
    "\u0301",
    "e\u0301",
    "a-",
    "中",
    "_",
    "\u200d😀",
    "a. ",
    "a .",
]
LONG += ["'", "' ", "a'", "'a ", ",", ",,5", ",5", " ,", ".'", "\0", " \0", "\0 '", "Mr. ", "5,"]


@pytest.mark.parametrize("version", [1, 2])
def test_tokenize_of_long_repetition_takes_linear_time(version):
    tokenize = tokenize_v1 if version == 1 else tokenize_v2
    for piece in LONG:
        # In quadratic time, this would take minutes.
        tokenize(piece * 50_000, language="en")


# Everyday text, as the shipped models tokenize it.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don’t know.", "I don 't know ."),
        ("Zu\u0308rich is a city.", "Zürich is a city ."),
        ("We co\u00adoperate, zero\u200bwidth\ufeff.", "We cooperate , zerowidth ."),
        ("See http://example.org/a_(b)?c=d, or www.x.org.", "See http://example.org/a_(b)?c=d , or www.x.org ."),
        ("Mail me: first.last@mail.example.org!", "Mail me : first.last@mail.example.org !"),
        ("Look at c.org.", "Look at c.org ."),
        ("So do I.", "So do I ."),
        ("@user #cats :-)", "@user #cats :-)"),
        ("👍🏽 from 🇩🇪 ❤\ufe0f", "👍🏽 from 🇩🇪 ❤"),
        ("“It’s 5 o’clock,” said Dr. O’Neil.", "“ It 's 5 o 'clock , ” said Dr. O 'Neil ."),
        ("the 1990’s – e.g. $1,000.50 (50%)", "the 1990 's – e.g. $ 1,000.50 ( 50 % )"),
    ],
)
def test_tokenize_v2_of_everyday_line_gives_expected_words(text, expected):
    assert words(text) == expected.split(" ")
