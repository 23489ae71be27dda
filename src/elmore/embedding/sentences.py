"""What callers may give as a sentence: a string, which is tokenised, or a list of words, which is taken as it is."""

from collections.abc import Iterable, Sequence

from elmore.errors import InputError
from elmore.text.tokenizing import Tokenizer

Sentence = str | Sequence[str]


def words_of(sentence: Sentence, tokenizer: Tokenizer, number: int = 0) -> list[str]:
    """The words of one sentence; `number` places a complaint.

    >>> from elmore.text.style import TextStyle
    >>> words_of("I took a bow.", Tokenizer(TextStyle()))
    ['I', 'took', 'a', 'bow', '.']
    """
    if isinstance(sentence, str):
        return tokenizer.tokenize(sentence).words
    if isinstance(sentence, bytes) or not isinstance(sentence, Iterable):
        raise InputError(f"sentence {number} is {type(sentence).__name__}; it must be a string or a list of words")
    words = list(sentence)
    for position, word in enumerate(words):
        if not isinstance(word, str):
            raise InputError(f"sentence {number}, word {position} is {type(word).__name__}; it must be a string")
    return words
