"""Sentences as they were given, turned into the words that a network reads; and its vectors, turned back.

A string is tokenised in the model's style, a list of words taken as it is. Tokens of another style become the model's
words (see `text.token_style`), and every given token still gets one vector: the mean over the words it became, which
its neighbours may share.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from elmore.embedding.sentences import Sentence, words_of
from elmore.embedding.stream import EncodedItem, SentenceItem
from elmore.text.style import TokenStyle
from elmore.text.token_style import convert_tokens
from elmore.text.tokenizing import Tokenizer

T = TypeVar("T")


class Alignment(NamedTuple, Generic[T]):
    """Which words became of the tokens of a sentence as it was given, and what came with it."""

    payload: T
    word_spans: list[range] | None  # for each token the words of the model that it became; None: a token is a word
    single_word: str | None  # the word of a string that has only one


def align_sentences(
    sentences: Iterable[tuple[Sentence, T]], tokenizer: Tokenizer, token_style: TokenStyle
) -> Iterator[SentenceItem[Alignment[T]]]:
    """Find the words of every sentence; each brings something of the caller's along."""
    for number, (sentence, payload) in enumerate(sentences):
        words = words_of(sentence, tokenizer, number)
        if isinstance(sentence, str):
            yield SentenceItem(words, Alignment(payload, None, words[0] if len(words) == 1 else None))
        elif token_style == "moses":
            yield SentenceItem(words, Alignment(payload, None, None))
        else:
            converted = convert_tokens(words, tokenizer, style=token_style)
            yield SentenceItem(converted.words, Alignment(payload, converted.word_spans, None))


def pool_to_tokens(item: EncodedItem[Alignment[T]]) -> EncodedItem[T]:
    """One vector for each token that was given."""
    payload, word_spans, _ = item.payload
    return EncodedItem(payload, item.vectors if word_spans is None else pool_tokens(item.vectors, word_spans))


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
