"""Wrongly prepared input is noticed, and ordinary input passes in silence."""

from pathlib import Path

import pytest

from elmore.text.input_checks import warnings_about
from elmore.text.sentence_reader import read_sentences
from elmore.text.style import TokenizerConfig

MOSES = TokenizerConfig()
TOKENISED = [
    line.split() for line in ["Mr. Fox said : “ No , thanks ! ”", "It 's Tom & Jerry Inc.", "He left the U.S. ."]
]


def one_warning(sentences: list[list[str]], style: TokenizerConfig = MOSES) -> str:
    (warning,) = warnings_about(sentences, style)
    return warning


def chunks(path: Path, style: TokenizerConfig = MOSES, *, tokenized: bool, size: int = 100) -> list[list[list[str]]]:
    found = read_sentences(path, format="tokenized" if tokenized else "text", style=style)
    sentences = [sentence.words for _, sentence in found]
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


def test_ordinary_tokenised_sentences_pass_in_silence():
    assert warnings_about(TOKENISED, MOSES) == []
    assert warnings_about(TOKENISED * 50, MOSES) == []
    assert warnings_about([], MOSES) == []
    assert warnings_about([[]], MOSES) == []


def test_punctuation_glued_to_words_is_noticed():
    sentences = [line.split() for line in ["He was wielding a bow.", "Why?"]]
    assert "looks untokenized ('Why?')" in one_warning(sentences)
    assert one_warning([['"I', "took", "a", 'bow."'], ["Yes,", "(indeed)."]]).startswith("the input looks untokenized")


def test_abbreviations_are_not_taken_for_untokenised_text():
    assert warnings_about([["Dr.", "No", "and", "Mr.", "Fox", "Jr."]], MOSES) == []
    assert warnings_about([["at", "9", "a.m."], ["in", "the", "U.S."], ["J.R.R."]], MOSES) == []


def test_punctuation_is_the_matter_of_models_trained_on_moses_text_only():
    assert warnings_about([["Yes,", "I", "did", "it."]], TokenizerConfig(tokenizer="whitespace")) == []


@pytest.mark.parametrize("word", ["&apos;s", "&quot;", "&amp;", "&#39;", "&#x27;t"])
def test_escaped_words_are_noticed_by_models_that_read_plain_ones(word):
    assert f"looks HTML-escaped ({word!r})" in one_warning([["It", word, "."]])
    assert warnings_about([["It", word, "."]], TokenizerConfig(escape=True)) == []


def test_a_stray_entity_in_plain_text_is_no_alarm():
    assert warnings_about([["It", "'s", "R", "&amp;", "D", "'s", "."]], MOSES) == []


def test_text_without_capitals_is_noticed_by_models_that_know_them():
    lower = [["the", "cat", "sat", "."]] * 10
    assert "no capital letter" in one_warning(lower)
    assert warnings_about(lower, TokenizerConfig(lowercase=True)) == []
    assert warnings_about(lower, TokenizerConfig(tokenizer="whitespace")) == []
    assert warnings_about(lower[:9], MOSES) == []
    assert warnings_about([*lower, ["the", "Cat", "sat"]], MOSES) == []
    assert warnings_about([["dog"], ["cat"]] * 100, MOSES) == []


@pytest.mark.parametrize("text", ["今日 は 雨 。", "यह एक घर है ।", "هذا بيت كبير .", "ეს არის დიდი სახლი .", "1 2 3 ."])
def test_scripts_without_capitals_raise_no_alarm(text):
    assert warnings_about([text.split()] * 100, TokenizerConfig(language="zh")) == []


def test_proteins_raise_no_alarm():
    style = TokenizerConfig(tokenizer="characters")
    assert warnings_about([list("MKVLAAGIVGLLLAQ")] * 100, style) == []
    assert warnings_about([list("mkvlaagivglllaq")] * 100, style) == []


@pytest.mark.parametrize("word", ["<PAD>", "<pad>", "[PAD]", ""])
def test_padding_put_in_by_hand_is_noticed(word):
    for style in (MOSES, TokenizerConfig(tokenizer="characters"), TokenizerConfig(tokenizer="whitespace")):
        assert f"contains the word {word!r}, which looks like padding" in one_warning(
            [["A", "cat"], ["A", word]], style
        )


def test_closing_quotes_of_the_penn_treebank_are_not_padding():
    (warning,) = warnings_about([["``", "Yes", "''", "."]], MOSES)
    assert "Penn-style" in warning


def test_boundaries_put_in_by_hand_are_noticed():
    marked = [["<S>", *sentence, "</S>"] for sentence in TOKENISED]
    assert "boundary words such as '<S>'" in one_warning(marked)
    assert warnings_about(marked[:1], MOSES) == []
    assert warnings_about([*marked, ["Plain"]], MOSES) == []


def test_each_mistake_is_said_once_however_often_it_is_made():
    sentences = [["<pad>", "yes,", "it", "&apos;s", "a", "bow."]] * 100
    said = warnings_about(sentences, MOSES)
    assert [warning.split("(")[0].split(",")[0] for warning in said] == [
        "the input contains the word '<pad>'",
        "the input looks untokenized ",
        "the input looks HTML-escaped ",
        "the input has no capital letters",
    ]


def test_a_hundred_sentences_of_tokenised_news_raise_no_alarm(shared):
    for sentences in chunks(shared / "data" / "text" / "eval" / "1b-heldout-dev.txt.xz", tokenized=True):
        assert warnings_about(sentences, MOSES) == []


def test_a_hundred_sentences_of_raw_text_raise_no_alarm_once_tokenised_and_one_if_not(shared):
    path = shared / "data" / "text" / "eval" / "own-wikipedia.txt.xz"
    for sentences in chunks(path, tokenized=False):
        assert warnings_about(sentences, MOSES) == []
    for sentences in chunks(path, TokenizerConfig(tokenizer="whitespace"), tokenized=False):
        assert "looks untokenized" in one_warning(sentences)
