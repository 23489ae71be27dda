"""Sentences as they were given, turned into the words that a network reads; and its vectors, turned back.

A string is tokenised in the model's style, a list of words taken as it is. Tokens of another style become the model's
words (see `text.token_style`), and every given token still gets one vector: the mean over the words it became, which
its neighbours may share.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from elmore.embedding.sentences import Sentence, words_of
from elmore.embedding.stream import EncodedGroup, SentenceGroup
from elmore.text.style import PennStyle
from elmore.text.token_style import convert_tokens
from elmore.text.tokenizing import Tokenizer

T = TypeVar("T")


class Alignment(NamedTuple, Generic[T]):
    """Which words became of the tokens of a sentence as it was given, and what came with it."""

    payload: T
    word_spans: list[range] | None  # for each token the words of the model that it became; None: a token is a word


def align_to_words(
    given: Sequence[tuple[Sentence, T]], first: int, tokenizer: Tokenizer, style: PennStyle
) -> SentenceGroup[Alignment[T]]:
    """The words that tokens of a style become; the first of the sentences given has a number."""
    words: list[list[str]] = []
    alignments: list[Alignment[T]] = []
    for number, (sentence, payload) in enumerate(given, start=first):
        own = words_of(sentence, tokenizer, number)
        if isinstance(sentence, str):
            words.append(own)
            alignments.append(Alignment(payload, None))
        else:
            converted = convert_tokens(own, tokenizer, style=style)
            words.append(converted.words)
            alignments.append(Alignment(payload, converted.word_spans))
    return SentenceGroup(words, alignments)


def pool_to_tokens(group: EncodedGroup[Alignment[T]]) -> EncodedGroup[T]:
    """One vector for each token that was given."""
    pooled = [
        vectors if word_spans is None else pool_tokens(vectors, word_spans)
        for (_, word_spans), vectors in zip(*group, strict=True)
    ]
    return EncodedGroup([payload for payload, _ in group.payloads], pooled)


def pool_tokens(vectors: Tensor, word_spans: Sequence[range]) -> Tensor:
    """(..., words, dim) becomes (..., tokens, dim); `word_spans` has the span of each token's words, at least one.

    >>> words = torch.tensor([[1.0], [2.0], [4.0]])
    >>> pool_tokens(words, [range(0, 1), range(0, 2), range(2, 3)]).tolist()
    [[1.0], [1.5], [4.0]]
    """
    first = torch.tensor([span.start for span in word_spans], dtype=torch.int64, device=vectors.device)
    pooled = vectors.index_select(-2, first)
    for token, span in enumerate(word_spans):
        if len(span) > 1:
            pooled[..., token, :] = vectors[..., span.start : span.stop, :].mean(dim=-2)
    return pooled
