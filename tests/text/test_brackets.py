"""Which word a user points at."""

import pytest

from elmore.errors import InputError
from elmore.text.brackets import parse_brackets
from elmore.text.style import TokenizerConfig
from elmore.text.tokenizer import Tokenizer


@pytest.mark.parametrize(
    ("sentence", "words", "bracketed"),
    [
        ("I took a [bow].", "I took a bow .", ["bow"]),
        ("I love [New York] .", "I love New York .", ["New", "York"]),
        ("[Bow] once", "Bow once", ["Bow"]),
        ("once [more]", "once more", ["more"]),
        ("He [didn't] go", "He didn 't go", ["didn", "'t"]),
        ("an []empty place", "an empty place", []),
        ("foo[]bar", "foo bar", []),
        ("a [ ] place", "a place", []),
        ("[]", "", []),
        (["a", "[bow]", "."], "a bow .", ["bow"]),
        (["a", "[]", "."], "a .", []),
    ],
)
def test_the_words_and_those_in_brackets(sentence, words, bracketed):
    found = parse_brackets(sentence, Tokenizer(TokenizerConfig()))
    assert found.words == words.split()
    assert [found.words[place] for place in found.bracketed] == bracketed


@pytest.mark.parametrize("sentence", ["none", "[two] [places]", "[open", ["[a]", "[b]"], ["[", "]"], ""])
def test_anything_but_one_place_is_refused(sentence):
    with pytest.raises(InputError, match="exactly one position with \\[brackets\\]"):
        parse_brackets(sentence, Tokenizer(TokenizerConfig()))
