"""Text in a script without spaces between words gives one warning."""

import warnings

import pytest

from elmore.errors import InputWarning
from elmore.text.scripts import is_unsegmented
from elmore.text.style import TokenizerConfig
from elmore.text.tokenizer import Tokenizer


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
