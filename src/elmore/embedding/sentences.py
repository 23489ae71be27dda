"""Sentences from a caller become batches of words.

A string is tokenized in the model's style. A list of words is used unchanged, unless `token_style` names another
convention: then tokens become the model's words (see `text.token_style`), and the vector of a token is the mean over
its words. Neighboring tokens may share a word.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from os import PathLike
from typing import Any, TypeVar, cast

import numpy as np

from elmore.embedding.stream import EncodedBatch, SentenceBatch
from elmore.errors import InputError
from elmore.text.input_checks import InputCheck
from elmore.text.style import PennStyle, TokenizerConfig
from elmore.text.token_styles import retokenize
from elmore.text.tokenizer import Tokenizer, is_unsegmented

T = TypeVar("T")
U = TypeVar("U")

Sentence = str | Sequence[str]
# Sentences with the caller's objects, and the number of the first sentence, become words.
FindWords = Callable[[Sequence[tuple[Sentence, T]], int], SentenceBatch[U]]
# For each token of a sentence the span of its words; None: each token is a word.
WordSpans = Sequence[range] | None

SENTENCES_PER_READ = 256


def check_sentences(sentences: object) -> None:
    """Raise InputError unless the argument is a string, a list of sentences or a stream of them."""
    if isinstance(sentences, PathLike):
        raise InputError(f"{str(sentences)!r} is a path; give the text itself: Path(...).read_text(encoding='utf-8')")
    if isinstance(sentences, bytes) or not isinstance(sentences, Iterable):
        raise InputError(f"{sentences!r} is no text; give a string or a list of sentences")


def tokenize_sentence(sentence: Sentence, tokenizer: Tokenizer, number: int = 0) -> list[str]:
    """The words of one sentence; `number` is its position in error messages.

    >>> tokenize_sentence("I took a bow.", Tokenizer(TokenizerConfig()))
    ['I', 'took', 'a', 'bow', '.']
    """
    if isinstance(sentence, str):
        return tokenizer.tokenize(sentence).words
    # The check for a list comes first, because the check for Iterable takes as long as everything else.
    if not isinstance(sentence, list) and (isinstance(sentence, bytes) or not isinstance(sentence, Iterable)):
        raise InputError(f"sentence {number} is {type(sentence).__name__}; it must be a string or a list of words")
    words = list(sentence)
    try:
        # Much faster than a check of each word: only strings can be joined.
        _ = "".join(words)
    except TypeError:
        position, word = next((at, one) for at, one in enumerate(words) if not isinstance(one, str))
        raise InputError(f"sentence {number}, word {position} is {type(word).__name__}; it must be a string") from None
    return words


def tokenize_sentences(sentences: Sequence[Sentence], tokenizer: Tokenizer, first: int = 0) -> list[list[str]]:
    """The words of each sentence; `first` is the number of the first sentence. Lists are not copied.

    >>> tokenize_sentences(["I took.", ["a", "bow"]], Tokenizer(TokenizerConfig()))
    [['I', 'took', '.'], ['a', 'bow']]
    """
    if set(map(type, sentences)) == {list}:
        # Without a Python step for each sentence.
        with suppress(TypeError):
            _ = "".join(chain.from_iterable(sentences))
            return cast("list[list[str]]", list(sentences))
    return [tokenize_sentence(sentence, tokenizer, number) for number, sentence in enumerate(sentences, start=first)]


def sentence_batches(
    sentences: Iterable[tuple[Sentence, T]], find: FindWords[T, U], check: InputCheck
) -> Iterator[SentenceBatch[U]]:
    """The words of all sentences, in batches. The first sentences are read and checked at once, with warnings."""
    source = iter(sentences)
    sample = _draw(source, check.remaining)
    first = [find(sample, 0)] if sample else []
    for words, _ in first:
        remark = warning_about_single_words([sentence for sentence, _ in sample], words, check.style)
        check.check(words, remark, stacklevel=5)
    return chain(first, _remaining_batches(source, find, len(sample)))


def _remaining_batches(
    source: Iterator[tuple[Sentence, T]], find: FindWords[T, U], number: int
) -> Iterator[SentenceBatch[U]]:
    while pairs := _draw(source, SENTENCES_PER_READ):
        yield find(pairs, number)
        number += len(pairs)


def _draw(source: Iterator[tuple[Sentence, T]], count: int) -> list[tuple[Sentence, T]]:
    # Lists, the usual case, are copied without a function call.
    return [
        (sentence.copy() if type(sentence) is list else copy_if_mutable(sentence), payload)
        for sentence, payload in islice(source, count)
    ]


def copy_if_mutable(sentence: Sentence) -> Sentence:
    """A copy that the caller cannot change: the argument may be a list that is filled again, or an iterator."""
    if isinstance(sentence, str | bytes) or not isinstance(sentence, Iterable):
        return sentence
    return list(sentence)


def find_words(pairs: Sequence[tuple[Sentence, T]], first: int, tokenizer: Tokenizer) -> SentenceBatch[T]:
    """The words of sentences in the model's own token style."""
    sentences, payloads = zip(*pairs, strict=True)
    return SentenceBatch(tokenize_sentences(sentences, tokenizer, first), payloads)


def align_to_words(
    pairs: Sequence[tuple[Sentence, T]], first: int, tokenizer: Tokenizer, style: PennStyle
) -> SentenceBatch[tuple[T, WordSpans]]:
    """The words that tokens of a style become. Each payload is joined with the word spans of the tokens."""
    all_words: list[list[str]] = []
    payloads: list[tuple[T, WordSpans]] = []
    for number, (sentence, payload) in enumerate(pairs, start=first):
        words, spans = tokenize_sentence(sentence, tokenizer, number), None
        if not isinstance(sentence, str):
            words, spans = retokenize(words, tokenizer, style=style)
        all_words.append(words)
        payloads.append((payload, spans))
    return SentenceBatch(all_words, payloads)


def pool_to_tokens(batch: EncodedBatch[tuple[T, WordSpans]]) -> EncodedBatch[T]:
    """One vector for each token: the mean over its words."""
    payloads = [payload for payload, _ in batch.payloads]
    if all(spans is None for _, spans in batch.payloads):
        return EncodedBatch(payloads, batch.vectors, batch.lengths)
    tokens: list[range] = []
    lengths = []
    start = 0
    for (_, spans), length in zip(batch.payloads, batch.lengths.tolist(), strict=True):
        own = [range(word, word + 1) for word in range(length)] if spans is None else spans
        tokens += [range(start + span.start, start + span.stop) for span in own]
        lengths.append(len(own))
        start += length
    return EncodedBatch(payloads, pool_tokens(batch.vectors, tokens), np.array(lengths, np.int64))


def pool_tokens(vectors: Any, word_spans: Sequence[range]) -> Any:
    """(..., words, dim) becomes (..., tokens, dim); each token has a span of at least one word.

    Arrays and tensors are both accepted.

    >>> words = np.array([[1.0], [2.0], [4.0]])
    >>> pool_tokens(words, [range(0, 1), range(0, 2), range(2, 3)]).tolist()
    [[1.0], [1.5], [4.0]]
    """
    pooled = vectors[..., [span.start for span in word_spans], :]
    for token, span in enumerate(word_spans):
        if len(span) > 1:
            pooled[..., token, :] = vectors[..., span.start : span.stop, :].mean(-2)
    return pooled


def warning_about_single_words(
    sentences: Sequence[Sentence], words: Sequence[Sequence[str]], style: TokenizerConfig
) -> str | None:
    """A warning if the strings have one word each, and so may be the words of one sentence; None otherwise.

    >>> print(warning_about_single_words(["I", "took", "a"], [["I"], ["took"], ["a"]], TokenizerConfig()))
    each of the 3 strings ('I', 'took', ...) is read as a sentence of one word; if they are the words of one sentence, \
put them into one list: [['I', 'took', ...]]
    """
    # Strings of one word are normal where each character is a word, and two strings may be two short sentences.
    if style.tokenizer == "characters" or len(sentences) < 3:
        return None
    if not all(isinstance(given, str) and len(own) == 1 for given, own in zip(sentences, words, strict=True)):
        return None
    if any(is_unsegmented(word) for (word,) in words):
        return None
    first = f"{words[0][0]!r}, {words[1][0]!r}, ..."
    return (
        f"each of the {len(words)} strings ({first}) is read as a sentence of one word; if they are the words of one "
        f"sentence, put them into one list: [[{first}]]"
    )
