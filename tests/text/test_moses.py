"""Version 2 of the tokeniser: whole words where sacremoses tears them, and every word in its place."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from elmore.text.moses import tokenize_v1, tokenize_v2
from elmore.text.normalizing import normalize, visible

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
def test_offsets_rise_and_do_not_overlap(text, language):
    tokens = tokenize_v2(text, language=language)
    before = 0
    for (start, end), _ in zip(tokens.offsets, tokens.words, strict=True):
        assert before <= start < end <= len(text)
        before = end


@given(text=texts, language=languages)
def test_every_visible_character_lies_under_an_offset(text, language):
    before = 0
    for start, end in [*tokenize_v2(text, language=language).offsets, (len(text), len(text))]:
        # What is left, a mark without a base among it, is invisible when it stands alone.
        assert not normalize(text[before:start]).text.strip()
        before = end


@given(text=texts, language=languages)
def test_a_word_is_what_is_seen_under_its_offset(text, language):
    tokens = tokenize_v2(text, language=language)
    for word, (start, end) in zip(tokens.words, tokens.offsets, strict=True):
        assert word.replace("’", "'") == visible(text[start:end]).replace("’", "'")
        assert word.strip() == word != ""


MARKS = [*"""'",.;:!?-|()&%$+""", "...", "don't", "Mr.", "U.S.", "7", "1,000", "é", "“", "”", "—"]
plain = st.lists(st.one_of(st.from_regex("[A-Za-z]{1,9}", fullmatch=True), st.sampled_from(MARKS)), max_size=14)


@given(pieces=plain, glue=st.sampled_from(["", " "]))
@pytest.mark.parametrize("language", ["en", "fr"])
def test_plain_text_is_cut_as_in_version_1_but_for_its_end(language, pieces, glue):
    # A word at the end keeps stops and emoticons out of it.
    text = glue.join(pieces) + " end"
    if not re.search(r"(?<!\S)[(:;]\S", text):
        assert tokenize_v2(text, language=language) == tokenize_v1(text, language=language)


def test_version_1_is_sacremoses_with_all_it_does():
    text = "We don’t cafe\u0301 co\u00adop. http://a.b/c?d=e @bob :-) 한글 ❤\ufe0f It was I."
    assert tokenize_v1(text, language="en").words == MosesTokenizer("en").tokenize(text, escape=False)
    assert "’" in tokenize_v1(text, language="en").words


@pytest.mark.parametrize("text", ["We don’t.", "It’s O’Neil’s.", "the 1990’s", "l’eau d’or", "caf\u0065\u0301’s"])
@pytest.mark.parametrize("language", ["en", "fr", "de"])
def test_a_typographic_apostrophe_is_cut_as_a_plain_one_and_gives_its_words(text, language):
    assert tokenize_v2(text, language=language) == tokenize_v2(text.replace("’", "'"), language=language)


def test_a_typographic_quote_stays_one():
    assert words("‘Go home.’ She went to the dogs’ ‘house’.")[-6:] == ["dogs", "’", "‘", "house", "’", "."]
    assert words("‘Go home.’") == ["‘", "Go", "home", ".", "’"]


def test_places_are_those_of_the_original():
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
def test_what_is_one_on_the_web_stays_one_word(whole):
    assert words(whole) == [whole]
    assert words(f"Look, {whole}. then {whole}") == ["Look", ",", whole, ".", "then", whole]
    assert words(f"Look at {whole}!") == ["Look", "at", whole, "!"]


def test_the_marks_of_the_sentence_do_not_belong_to_an_address():
    assert words("(see http://x.org/a).") == ["(", "see", "http://x.org/a", ")", "."]
    assert words("“www.x.org,” he said") == ["“", "www.x.org", ",", "”", "he", "said"]
    assert words("<http://x.org>; me@x.org: yes") == ["<", "http://x.org", ">", ";", "me@x.org", ":", "yes"]


def test_what_only_looks_like_a_name_a_tag_or_a_smile_is_cut_as_before():
    for text in ("We are #1 and C# at 5 @ 6", "f(x):) (a=3) ratio 3:4 &#39;", "note: (a) and; (b)", "a@b x@"):
        assert tokenize_v2(text, language="en") == tokenize_v1(text, language="en")


@pytest.mark.parametrize("end", ["I", "vitamin C", "c.org", "www.c.org", "file.txt"])
def test_the_last_stop_is_a_word_after_a_letter_or_an_address(end):
    assert words(f"It was {end}.")[-2:] == [end.split()[-1], "."]
    assert words(f'"It was {end}."')[-3:] == [end.split()[-1], ".", '"']
    assert words(f"(It was {end}.)")[-3:] == [end.split()[-1], ".", ")"]


@pytest.mark.parametrize("end", ["U.S.", "p.m.", "e.g.", "Ph.D.", "M.Sc.", "cand.jur.", "Mr."])
def test_the_last_stop_of_an_abbreviation_stays_with_it(end):
    assert words(f"It was {end}")[-1] == end


def test_an_initial_inside_the_sentence_keeps_its_stop():
    assert words("I met J. F. Smith.") == ["I", "met", "J.", "F.", "Smith", "."]


@pytest.mark.parametrize("language", ["en", "ko", "zh"])
def test_korean_is_cut_at_its_blanks(language):
    assert words("한글은 좋다.", language) == ["한글은", "좋다", "."]
    assert words("\u1112\u1161\u11ab\u1100\u1173\u11af 좋다", language) == ["한글", "좋다"]


@pytest.mark.parametrize("language", ["en", "zh", "ja"])
def test_chinese_and_japanese_are_cut_into_characters_but_for_katakana(language):
    assert words("我们去。", language) == ["我", "们", "去", "。"]
    assert words("テキストです。", language) == ["テキスト", "で", "す", "。"]


def test_the_marks_of_thai_and_hindi_tear_no_word():
    assert words("ไม่มี ช่อง") == ["ไม่มี", "ช่อง"]
    assert words("मैं हिन्दी") == ["मैं", "हिन्दी"]


def test_a_zero_width_space_parts_words_where_blanks_do_not():
    assert words("ภาษา\u200bไทย") == ["ภาษา", "ไทย"]
    assert words("ភាសា\u200bខ្មែរ") == ["ភាសា", "ខ្មែរ"]
    assert words("lo\u200bng") == ["long"]


def test_a_long_word_is_no_hard_work():
    for piece in ("a", "a.", "@", "#a", "www.", "http://", "(", ":)", "\u0301", "e\u0301", "a-", "中", "_", "\u200d😀"):
        tokenize_v2(piece * 20_000, language="en")
