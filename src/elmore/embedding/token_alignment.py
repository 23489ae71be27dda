"""Sentences as they were given, turned into the words that a network reads; and its vectors, turned back.

A string is tokenised in the model's style, a list of words taken as it is. Tokens of another style become the model's
words (see `text.token_style`), and every given token still gets one vector: the mean over the words it became, which
its neighbours may share.
"""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from elmore.embedding.sentences import Sentence, words_of
from elmore.embedding.stream import EncodedBatch, SentenceBatch
from elmore.text.style import PennStyle
from elmore.text.token_style import retokenize
from elmore.text.tokenizer import Tokenizer

T = TypeVar("T")


class Alignment(NamedTuple, Generic[T]):
    """Which words became of the tokens of a sentence as it was given, and what came with it."""

    payload: T
    word_spans: list[range] | None  # for each token the words of the model that it became; None: a token is a word


def align_to_words(
    given: Sequence[tuple[Sentence, T]], first: int, tokenizer: Tokenizer, style: PennStyle
) -> SentenceBatch[Alignment[T]]:
    """The words that tokens of a style become; the first of the sentences given has a number."""
    words: list[list[str]] = []
    alignments: list[Alignment[T]] = []
    for number, (sentence, payload) in enumerate(given, start=first):
        own = words_of(sentence, tokenizer, number)
        if isinstance(sentence, str):
            words.append(own)
            alignments.append(Alignment(payload, None))
        else:
            converted = retokenize(own, tokenizer, style=style)
            words.append(converted.words)
            alignments.append(Alignment(payload, converted.word_spans))
    return SentenceBatch(words, alignments)


def pool_to_tokens(batch: EncodedBatch[Alignment[T]]) -> EncodedBatch[T]:
    """One vector for each token that was given: the mean over its words."""
    payloads = [alignment.payload for alignment in batch.payloads]
    spans = [alignment.word_spans for alignment in batch.payloads]
    if all(own is None for own in spans):
        return EncodedBatch(payloads, batch.vectors, batch.lengths)
    first = np.cumsum(batch.lengths) - batch.lengths
    words = [range(length) if own is None else own for own, length in zip(spans, batch.lengths.tolist(), strict=True)]
    tokens = [
        range(start + one, start + one + 1) if isinstance(one, int) else range(start + one.start, start + one.stop)
        for start, own in zip(first.tolist(), words, strict=True)
        for one in own
    ]
    return EncodedBatch(payloads, pool_tokens(batch.vectors, tokens), np.array([len(own) for own in words], np.int64))


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
