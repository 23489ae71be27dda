"""A paragraph is cut into sentences, and nothing of it is lost."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elmore.text.splitting import split_sentences, split_text
from elmore.text.style import TokenizerConfig

PIECES = [
    ". ",
    "! ",
    "? ",
    "。",
    "।",
    "...",
    "\n",
    "\n\n",
    "\r\n",
    " ",
    "  ",
    "\u00a0",
    "\u3000",
    "\u2028",
    "\x85",
    "A",
    "Z",
]
PIECES += [
    "Dr. ",
    "U.S. ",
    '"',
    "“",
    "”",
    "«",
    "(",
    ")",
    "The ",
    "cat",
    "😀",
    "é",
    "中文",
    "Ж",
    "1. ",
    "- ",
    "\0",
    "\ud800",
]
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
languages = st.sampled_from(["en", "de", "fr", "fi", "ja", "hi", "ar", "el", "tlh"])


@given(text=texts, language=languages)
@example(text="L\u3000. x", language="en")
@example(text="a\ud800. B", language="en")
@example(text="The end.\n\n" * 2_000, language="en")
def test_sentences_stand_in_order_and_only_blanks_lie_between_them(text, language):
    before = 0
    for sentence, start, end in split_sentences(text, language=language):
        assert text[before:start].strip() == ""
        assert text[start:end] == sentence == sentence.strip() != ""
        before = end
    assert text[before:].strip() == ""


def test_full_stops_of_abbreviations_do_not_end_a_sentence():
    spans = split_sentences("Dr. Smith paid $3.50 in the U.S. last year. He left!")
    assert [span.text for span in spans] == ["Dr. Smith paid $3.50 in the U.S. last year.", "He left!"]


def test_places_are_counted_in_characters_whatever_their_size():
    assert split_sentences("😀 é. 中文 B.") == [("😀 é.", 0, 4), ("中文 B.", 5, 10)]


def test_other_scripts_end_their_sentences_in_their_own_way():
    assert [span.text for span in split_sentences("今日は。明日は。", language="ja")] == ["今日は。", "明日は。"]
    assert len(split_sentences("यह है। वह है।", language="hi")) == 2


def test_a_sentence_said_three_times_is_three_sentences():
    assert split_sentences("Why? Why? Why?") == [("Why?", 0, 4), ("Why?", 5, 9), ("Why?", 10, 14)]


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\u00a0"])
def test_a_blank_paragraph_has_no_sentences(text):
    assert split_sentences(text) == []


def test_a_paragraph_of_a_megabyte_is_cut_like_a_small_one():
    spans = split_sentences("The cät sat. Did it? " * 50_000)
    assert len(spans) == 100_000
    assert {span.text for span in spans} == {"The cät sat.", "Did it?"}


@pytest.mark.parametrize(
    "sentence",
    [
        "See Vol. 3 of it.",
        "See vol. III of it.",
        "In Eq. 4 and Sect. 5.2 it is.",
        "1. First do this.",
        "12. Then that.",
        "A. Go home.",
        "iv. Go home.",
    ],
)
def test_a_number_and_what_it_counts_stand_in_one_sentence(sentence):
    assert [span.text for span in split_sentences(f"{sentence} Then go.")] == [sentence, "Then go."]
    if sentence[0] in "S1I":
        assert split_sentences(f"Why? {sentence}")[-1].text == sentence


def test_a_number_or_letter_that_ends_a_sentence_ends_it():
    for text in ("It cost $1. First we go.", "It was I. He left.", "Who was it? I. He left.", "Was it vol. He left."):
        assert split_sentences(text)[-1].text in ("First we go.", "He left.")


def test_version_1_cuts_where_the_splitter_does():
    texts = [span.text for span in split_sentences("1. See Vol. 3 of it.", version=1)]
    assert texts == ["1.", "See Vol.", "3 of it."]


@given(text=texts, paragraphs=st.sampled_from(["line", "blank-line"]))
def test_the_sentences_of_a_text_stand_in_order_and_only_blanks_lie_between_them(text, paragraphs):
    before = 0
    for sentence, start, end in split_text(text, style=TokenizerConfig(), paragraphs=paragraphs):
        assert text[before:start].strip() == ""
        assert text[start:end].replace("\n", " ").replace("\r", " ") == sentence
        assert "\n" not in sentence
        before = end
    assert text[before:].strip() == ""


def test_paragraphs_of_a_text_are_lines_or_go_on_until_a_blank_one():
    text = "A title\nIt was a long\r\nday. They\nwent.\n \nEnd"
    lines = split_text(text, style=TokenizerConfig(), paragraphs="line")
    assert [span.text for span in lines] == ["A title", "It was a long", "day.", "They", "went.", "End"]
    wrapped = split_text(text, style=TokenizerConfig(), paragraphs="blank-line")
    assert [span.text for span in wrapped] == ["A title It was a long  day.", "They went.", "End"]
    assert [span.start for span in wrapped] == [0, text.index("They"), text.index("End")]


def test_the_style_of_a_text_chooses_language_and_version():
    assert [span.text for span in split_text("See Vol. 3.", style=TokenizerConfig())] == ["See Vol.", "3."]
    assert [span.text for span in split_text("See Vol. 3.", style=TokenizerConfig(tokenizer_version=2))] == [
        "See Vol. 3."
    ]
    assert len(split_text("今日は。明日は。", style=TokenizerConfig(language="ja"))) == 2
