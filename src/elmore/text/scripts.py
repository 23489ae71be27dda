"""Scripts that write no blanks between words, in which the rules of Moses find none.

Chinese, Japanese, Thai, Lao, Burmese and Khmer need a program that knows their words. There is none here: which one was
used decides what a model can know, so it has to be the one of the model's own text.
"""

import re
import warnings

from elmore.errors import InputWarning

# Thai and Lao, Burmese, Khmer, kana, and the Chinese characters.
_UNSEGMENTED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def is_unsegmented(text: str) -> bool:
    """Whether most of a text is written without blanks between words; a name in an English sentence is not.

    >>> is_unsegmented("我们去北京。"), is_unsegmented("The city of 北京 is old."), is_unsegmented("한글은 좋다.")
    (True, False, False)
    """
    if text.isascii() or not (first := _UNSEGMENTED.search(text)):
        return False
    return 2 * len(_UNSEGMENTED.findall(text, first.start())) > len(text)


def warn_about_unsegmented(text: str) -> None:
    """Say it, if it is so; Python shows one warning of a place once, so a file of such text gives one."""
    if is_unsegmented(text):
        warnings.warn(
            "the text is in a script without blanks between words, and the Moses tokeniser cannot find them: it gives "
            "single characters or whole phrases. Cut it with a program for its language (jieba, MeCab, PyThaiNLP) and "
            "give the words: --tokenized, or lists of words in Python",
            InputWarning,
            stacklevel=1,
        )
