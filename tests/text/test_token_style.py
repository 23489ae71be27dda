"""Penn-style tokens are noticed, and become a model's own words without a token losing its vector."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError
from elmore.text.checks import warnings_about
from elmore.text.style import TextStyle
from elmore.text.token_style import convert_penn, penn_sign
from elmore.text.tokenizing import Tokenizer

TOKENIZER = Tokenizer(TextStyle(tokenizer_version=2))

PIECES = ["do", "n't", "ca", "can", "not", "'s", "'", "``", "''", "`", "-LRB-", "-RRB-", r"and\/or", "U.S.", "."]
PIECES += ["gon", "na", "a b", "", " ", "\u00ad", "\u0301", "http://x.org", ":", ")", "中文", "don’t", "n’t", "-", "x"]
tokens = st.lists(st.sampled_from(PIECES), max_size=10)


@given(tokens=tokens, version=st.sampled_from([1, 2]))
@pytest.mark.filterwarnings("ignore:the text is in a script without blanks")
def test_every_token_has_words_and_every_word_has_a_token(tokens, version):
    words, word_spans = convert_penn(tokens, Tokenizer(TextStyle(tokenizer_version=version)))
    assert len(word_spans) == len(tokens)
    assert all(len(group) > 0 for group in word_spans)
    assert {number for group in word_spans for number in group} == set(range(len(words)))
    for before, after in pairwise(word_spans):
        assert before.start <= after.start <= before.stop <= after.stop


def grouped(*tokens: str) -> list[list[str]]:
    words, word_spans = convert_penn(tokens, TOKENIZER)
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


def test_a_whole_sentence_becomes_what_moses_finds_in_it():
    text = "He said (again): \"I can't, and Mr. Fox won't; the dogs' owner cannot.\""
    penn = ["He", "said", "-LRB-", "again", "-RRB-", ":", "``", "I", "ca", "n't", ",", "and", "Mr.", "Fox", "wo", "n't"]
    penn += [";", "the", "dogs", "'", "owner", "can", "not", ".", "''"]
    assert convert_penn(penn, TOKENIZER).words == TOKENIZER.tokenize(text).words


def test_the_style_of_the_model_decides_over_case_and_escapes():
    tokenizer = Tokenizer(TextStyle(lowercase=True, escape=True))
    assert convert_penn(["Do", "n't", "-LSB-"], tokenizer).words == ["don", "&apos;t", "&#91;"]


def test_other_tokenisers_have_no_use_for_it():
    with pytest.raises(InputError, match="this model's tokeniser is 'whitespace'"):
        convert_penn(["a"], Tokenizer(TextStyle(tokenizer="whitespace")))


@pytest.mark.parametrize(
    "sentence", [["I", "do", "n't"], ["(", "-LRB-", "-RRB-"], ["``", "so", "''"], ["I", "ca", "n’t"]]
)
def test_penn_style_is_noticed_for_a_model_of_moses_style(sentence):
    sign = penn_sign([sentence])
    (warning,) = warnings_about([sentence], TextStyle())
    assert f"look Penn-style ({sign!r})" in warning
    assert "--token-style penn" in warning
    assert warnings_about([sentence], TextStyle(tokenizer="whitespace")) == []


@pytest.mark.parametrize(
    "sentences",
    [
        [["I", "don", "'t"]],
        [["it", "'s", "(", ")", '"']],
        [["I", "don", "'t"], ["I", "do", "n't"]],
        [["the", "``", "mark", '"', '"']],
    ],
)
def test_moses_style_raises_no_alarm(sentences):
    assert penn_sign(sentences) is None
    assert warnings_about(sentences, TextStyle()) == []
