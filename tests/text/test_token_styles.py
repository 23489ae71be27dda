"""Tokens of other styles become a model's own words without a token losing its vector."""

import lzma
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError
from elmore.text.style import TOKEN_STYLES, TokenizerConfig
from elmore.text.token_styles import retokenize, tokenize_in_style
from elmore.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(TokenizerConfig(tokenizer_version=2))

PIECES = ["do", "n't", "ca", "can", "not", "'s", "'", "``", "''", "`", "-LRB-", "-RRB-", r"and\/or", "U.S.", "."]
PIECES += ["gon", "na", "a b", "", " ", "\u00ad", "\u0301", "http://x.org", ":", ")", "中文", "don’t", "n’t", "-", "x"]
PIECES += ["well", "known", "it", "7", "nt", "i", "m", "km", "al", "Qaeda"]
tokens = st.lists(st.sampled_from(PIECES), max_size=10)
PENN_STYLES = [style for style in TOKEN_STYLES if style != "moses"]


@given(tokens=tokens, version=st.sampled_from([1, 2]), style=st.sampled_from(PENN_STYLES))
@pytest.mark.filterwarnings("ignore:the text has no spaces between words")
def test_every_token_has_words_and_every_word_has_a_token(tokens, version, style):
    words, word_spans = retokenize(tokens, Tokenizer(TokenizerConfig(tokenizer_version=version)), style=style)
    assert len(word_spans) == len(tokens)
    assert all(len(group) > 0 for group in word_spans)
    assert {number for group in word_spans for number in group} == set(range(len(words)))
    for before, after in pairwise(word_spans):
        assert before.start <= after.start <= before.stop <= after.stop


def grouped(*tokens: str, style: str = "penn") -> list[list[str]]:
    words, word_spans = retokenize(tokens, TOKENIZER, style=style)
    return [words[group.start : group.stop] for group in word_spans]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["do", "n't"], [["don"], ["don", "'t"]]),
        (["ca", "n't"], [["can"], ["can", "'t"]]),
        (["Wo", "n’t"], [["Won"], ["Won", "'t"]]),
        (["it", "'s"], [["it"], ["'s"]]),
        (["they", "'LL"], [["they"], ["'LL"]]),
        (["can", "not"], [["cannot"], ["cannot"]]),
        (["gon", "na"], [["gonna"], ["gonna"]]),
        (["-LRB-", "so", "-RRB-"], [["("], ["so"], [")"]]),
        (["-lrb-", "-rsb-"], [["("], ["]"]]),
        (["``", "so", "''"], [['"'], ["so"], ['"']]),
        ([r"and\/or"], [["and", "/", "or"]]),
        (["U.S.", "dogs", "'", "Mr.", "Fox", "."], [["U.S."], ["dogs"], ["'"], ["Mr."], ["Fox"], ["."]]),
        (["n't"], [["n", "'t"]]),
        (["", "a"], [[""], ["a"]]),
    ],
)
def test_tokens_become_the_words_of_the_same_text(tokens, expected):
    assert grouped(*tokens) == expected


@pytest.mark.parametrize(
    ("tokens", "style", "expected"),
    [
        # Where a style escapes nothing, what looks like an escape was in the text; brackets never are.
        (["``", "a", "''"], "nltk", [['"'], ["a"], ['"']]),
        (["``", "''"], "plain", [["``"], ["'", "'"]]),
        (["(", "-LRB-"], "nltk", [["("], ["("]]),
        (["a\\/b"], "penn", [["a", "/", "b"]]),
        (["a\\/b"], "plain", [["a", "\\", "/", "b"]]),
        # What UD cuts, and Moses does not.
        (["well", "-", "known"], "ud", [["well-known"]] * 3),
        (["well", "-", "known"], "plain", [["well"], ["-"], ["known"]]),
        (["face", "-", "to", "-", "face"], "ud", [["face-to-face"]] * 5),
        (["true", "-", "it", "is"], "ud", [["true"], ["-"], ["it"], ["is"]]),
        (["al", "-", "Qaeda"], "ud", [["al-Qaeda"]] * 3),
        (["war", "-", "Qaeda"], "ud", [["war"], ["-"], ["Qaeda"]]),
        (["F", "-", "16", ",", "10", "-", "year"], "ud", [["F-16"]] * 3 + [[","]] + [["10-year"]] * 3),
        (["room", "-", "16", ",", "10", "-", "Year"], "ud", [["room"], ["-"], ["16"], [","], ["10"], ["-"], ["Year"]]),
        (["do", "nt", "10", "k", "i", "m"], "ud", [["dont"]] * 2 + [["10k"]] * 2 + [["im"]] * 2),
    ],
)
def test_each_style_is_read_as_what_it_is(tokens, style, expected):
    assert grouped(*tokens, style=style) == expected


SENTENCE = "He said (again): \"I can't, and Mr. Fox's well-known dogs' owner cannot and/or won't.\""


@pytest.mark.parametrize("style", PENN_STYLES)
def test_a_whole_sentence_becomes_what_moses_finds_in_it(style):
    tokens = tokenize_in_style(SENTENCE, style).words
    assert tokens != TOKENIZER.tokenize(SENTENCE).words
    assert retokenize(tokens, TOKENIZER, style=style).words == TOKENIZER.tokenize(SENTENCE).words


# Counted when this was written. What differs: with penn typographic marks, which it writes as ASCII; with ud dashes
# that look like hyphens, and hyphens that look like dashes; with all of them words about two hyphens, politics--the.
@pytest.mark.parametrize(("style", "equal"), [("penn", 1947), ("nltk", 1980), ("plain", 1986), ("ud", 1957)])
def test_tokens_of_real_sentences_become_what_moses_finds_in_them(shared, style, equal):
    with lzma.open(shared / "data" / "tasks" / "pos" / "en_ewt-ud-train.conllu.xz", "rt", encoding="utf-8") as lines:
        texts = (line.rstrip("\n").removeprefix("# text = ") for line in lines if line.startswith("# text = "))
        sample = list(islice(texts, 2000))
    same = sum(
        retokenize(tokenize_in_style(text, style).words, TOKENIZER, style=style).words == TOKENIZER.tokenize(text).words
        for text in sample
    )
    assert same >= equal


def test_moses_is_a_style_too_and_only_it_knows_other_languages():
    assert tokenize_in_style(SENTENCE, "moses") == TOKENIZER.tokenize(SENTENCE)
    assert tokenize_in_style("l'eau", "moses", language="fr").words == ["l'", "eau"]
    with pytest.raises(InputError, match="the token style is 'spacy'; it must be one of moses, penn, nltk, plain, ud"):
        tokenize_in_style("l'eau", "spacy")
    with pytest.raises(InputError, match="'ud' has rules for English only, and the language is 'fr'"):
        tokenize_in_style("l'eau", "ud", language="fr")


def test_the_style_of_the_model_decides_over_case_and_escapes():
    tokenizer = Tokenizer(TokenizerConfig(lowercase=True, escape=True))
    assert retokenize(["Do", "n't", "-LSB-"], tokenizer, style="penn").words == ["don", "&apos;t", "&#91;"]


def test_other_tokenisers_have_no_use_for_it():
    with pytest.raises(InputError, match="this model has 'whitespace'"):
        retokenize(["a"], Tokenizer(TokenizerConfig(tokenizer="whitespace")), style="penn")
