"""What callers may give as a sentence: a string, which is tokenised, or a list of words, which is taken as it is."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from os import PathLike
from typing import cast

from elmore.errors import InputError
from elmore.text.scripts import is_unsegmented
from elmore.text.style import TokenizerConfig
from elmore.text.tokenizer import Tokenizer

Sentence = str | Sequence[str]


def words_of(sentence: Sentence, tokenizer: Tokenizer, number: int = 0) -> list[str]:
    """The words of one sentence; `number` places a complaint.

    >>> from elmore.text.style import TokenizerConfig
    >>> words_of("I took a bow.", Tokenizer(TokenizerConfig()))
    ['I', 'took', 'a', 'bow', '.']
    """
    if isinstance(sentence, str):
        return tokenizer.tokenize(sentence).words
    # A list first, which is what most are: to ask for Iterable takes as long as all the rest.
    if not isinstance(sentence, list) and (isinstance(sentence, bytes) or not isinstance(sentence, Iterable)):
        raise InputError(f"sentence {number} is {type(sentence).__name__}; it must be a string or a list of words")
    words = list(sentence)
    try:
        # Only strings can be joined, and that is found out many times as fast as by asking each.
        _ = "".join(words)
    except TypeError:
        position, word = next((at, one) for at, one in enumerate(words) if not isinstance(one, str))
        raise InputError(f"sentence {number}, word {position} is {type(word).__name__}; it must be a string") from None
    return words


def check_sentences(sentences: object) -> None:
    """Raise InputError unless the argument is a string, a list of sentences or a stream of them."""
    if isinstance(sentences, PathLike):
        raise InputError(f"{str(sentences)!r} is a path; give the text itself: Path(...).read_text(encoding='utf-8')")
    if isinstance(sentences, bytes) or not isinstance(sentences, Iterable):
        raise InputError(f"{sentences!r} is no text; give a string or a list of sentences")


def words_of_all(sentences: Sequence[Sentence], tokenizer: Tokenizer, first: int = 0) -> list[list[str]]:
    """The words of each of these sentences, the first of which has a number.

    >>> from elmore.text.style import TokenizerConfig
    >>> words_of_all(["I took.", ["a", "bow"]], Tokenizer(TokenizerConfig()))
    [['I', 'took', '.'], ['a', 'bow']]
    """
    if set(map(type, sentences)) == {list}:
        # Without a step of Python for each of them; who wants copies makes them when they are given.
        with suppress(TypeError):
            _ = "".join(chain.from_iterable(sentences))
            return cast("list[list[str]]", list(sentences))
    return [words_of(sentence, tokenizer, number) for number, sentence in enumerate(sentences, start=first)]


def own_copy(sentence: Sentence) -> Sentence:
    """What stays as it is when its giver goes on with his own: may be a list that is filled again, or an iterator."""
    if isinstance(sentence, str | bytes) or not isinstance(sentence, Iterable):
        return sentence
    return list(sentence)


def warning_about_single_words(
    sentences: Sequence[Sentence], words: Sequence[Sequence[str]], style: TokenizerConfig
) -> str | None:
    """What to say of strings of one word each, which may be the words of one sentence; None if they hardly are.

    >>> print(warning_about_single_words(["I", "took", "a"], [["I"], ["took"], ["a"]], TokenizerConfig()))
    each of the 3 strings ('I', 'took', ...) is read as a sentence of one word; if they are the words of one sentence, \
put them into a list of their own: [['I', 'took', ...]]
    """
    # Where every symbol is a word, a string of one is nothing odd; two strings may well be two short sentences.
    if style.tokenizer == "characters" or len(sentences) < 3:
        return None
    if not all(isinstance(given, str) and len(own) == 1 for given, own in zip(sentences, words, strict=True)):
        return None
    if any(is_unsegmented(word) for (word,) in words):
        return None
    first = f"{words[0][0]!r}, {words[1][0]!r}, ..."
    return (
        f"each of the {len(words)} strings ({first}) is read as a sentence of one word; if they are the words of one "
        f"sentence, put them into a list of their own: [[{first}]]"
    )
