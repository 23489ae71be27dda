"""Sentences as they come from a caller, drawn a group at a time, and turned into words."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar

from elmore.embedding.sentences import Sentence, own_copy, warning_about_single_words, words_of_all
from elmore.embedding.stream import SentenceBatch
from elmore.text.checks import InputCheck
from elmore.text.tokenizer import Tokenizer

T = TypeVar("T")
U = TypeVar("U")

# From sentences, each with something of the caller's, of which the first has a number, to their words.
FindWords = Callable[[Sequence[tuple[Sentence, T]], int], SentenceBatch[U]]


def find_words(given: Sequence[tuple[Sentence, T]], first: int, tokenizer: Tokenizer) -> SentenceBatch[T]:
    """The words of sentences as they are: see `words_of`."""
    sentences, payloads = zip(*given, strict=True)
    return SentenceBatch(words_of_all(sentences, tokenizer, first), payloads)


def sentence_groups(
    sentences: Iterable[tuple[Sentence, T]], find: FindWords[T, U], check: InputCheck, *, size: int
) -> Iterator[SentenceBatch[U]]:
    """The words of all sentences, of so many at a time; what looks wrong with the first ones is said at once."""
    source = iter(sentences)
    sample = _drawn(source, check.left)
    first = [find(sample, 0)] if sample else []
    for words, _ in first:
        remark = warning_about_single_words([given for given, _ in sample], words, check.style)
        check.look(words, remark, stacklevel=6)
    return chain(first, _following(source, find, size, len(sample)))


def _following(
    source: Iterator[tuple[Sentence, T]], find: FindWords[T, U], size: int, number: int
) -> Iterator[SentenceBatch[U]]:
    while given := _drawn(source, size):
        yield find(given, number)
        number += len(given)


def _drawn(source: Iterator[tuple[Sentence, T]], number: int) -> list[tuple[Sentence, T]]:
    # A list, which is what most are, without the call.
    return [
        (sentence.copy() if type(sentence) is list else own_copy(sentence), payload)
        for sentence, payload in islice(source, number)
    ]
