"""Scripts without spaces between words. The Moses rules do not find words in them.

Chinese, Japanese, Thai, Lao, Burmese and Khmer need a word segmenter. Elmore has none. Use the program that segmented
the model's training text.
"""

import re
import warnings
from functools import cache

from elmore.errors import InputWarning


@cache
def _unsegmented_character() -> re.Pattern[str]:
    # Thai and Lao, Burmese, Khmer, kana, and the Chinese characters.
    return re.compile(
        "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
        "\U00020000-\U0003ffff]"
    )


def is_unsegmented(text: str) -> bool:
    """Whether most characters of a text belong to such a script. A name in an English sentence is not enough.

    >>> is_unsegmented("我们去北京。"), is_unsegmented("The city of 北京 is old."), is_unsegmented("한글은 좋다.")
    (True, False, False)
    """
    if text.isascii() or not (first := _unsegmented_character().search(text)):
        return False
    return 2 * len(_unsegmented_character().findall(text, first.start())) > len(text)


def warn_about_unsegmented(text: str) -> None:
    """Warn if a text is unsegmented. Python shows a warning of one line of code once, so a file gives one warning."""
    if is_unsegmented(text):
        warnings.warn(
            "the text has no spaces between words, and the Moses tokenizer cannot find words in its script: it gives "
            "single characters or whole phrases. Segment the text with a program for its language (jieba, MeCab, "
            "PyThaiNLP) and pass words: --tokenized, or lists of words in Python",
            InputWarning,
            stacklevel=1,
        )
