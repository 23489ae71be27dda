"""Text in a script without blanks is said to be so, once."""

import warnings

import pytest

from elmore.errors import InputWarning
from elmore.text.scripts import is_unsegmented
from elmore.text.style import TextStyle
from elmore.text.tokenizing import Tokenizer


@pytest.mark.parametrize("text", ["我们去北京。", "日本語のテキストです。", "ภาษาไทย", "ຂ້ອຍມາ", "မြန်မာစာ", "ភាសាខ្មែរ"])
def test_scripts_without_blanks_are_known(text):
    assert is_unsegmented(text)


@pytest.mark.parametrize(
    "text", ["", "plain", "한글은 좋다.", "हिन्दी", "عربي", "The city of 北京 (Peking)", "ελληνικά"]
)
def test_scripts_with_blanks_are_not_among_them(text):
    assert not is_unsegmented(text)


@pytest.mark.parametrize("version", [1, 2])
def test_a_user_is_told_once_and_what_to_do(version):
    tokenizer = Tokenizer(TextStyle(tokenizer_version=version))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            tokenizer.tokenize("我们去北京。")
            tokenizer.tokenize("We go.")
    assert [warning.category for warning in told] == [InputWarning]
    assert "--tokenized, or lists of words" in str(told[0].message)


def test_words_that_are_there_already_raise_no_alarm():
    for name in ("whitespace", "characters"):
        Tokenizer(TextStyle(tokenizer=name)).tokenize("我们 去 北京 。")
