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


class Given(NamedTuple, Generic[T]):
    """How a sentence was given, and what came with it."""

    payload: T
    groups: list[range] | None  # for each token the words of the model that it became; None: a token is a word
    single: str | None  # the word of a string that has only one


def prepare_sentences(
    sentences: Iterable[tuple[Sentence, T]], tokenizer: Tokenizer, token_style: TokenStyle
) -> Iterator[SentenceItem[Given[T]]]:
    """Find the words of every sentence; each brings something of the caller's along."""
    for number, (sentence, payload) in enumerate(sentences):
        words = words_of(sentence, tokenizer, number)
        if isinstance(sentence, str):
            yield SentenceItem(words, Given(payload, None, words[0] if len(words) == 1 else None))
        elif token_style == "moses":
            yield SentenceItem(words, Given(payload, None, None))
        else:
            converted = convert_tokens(words, tokenizer, style=token_style)
            yield SentenceItem(converted.words, Given(payload, converted.groups, None))


def as_given(item: EncodedItem[Given[T]]) -> EncodedItem[T]:
    """One vector for each token that was given."""
    payload, groups, _ = item.payload
    return EncodedItem(payload, item.vectors if groups is None else pool_tokens(item.vectors, groups))


def pool_tokens(vectors: Tensor, groups: Sequence[range]) -> Tensor:
    """(..., words, dim) becomes (..., tokens, dim); `groups` has for each token the numbers of its words, at least one.

    >>> words = torch.tensor([[1.0], [2.0], [4.0]])
    >>> pool_tokens(words, [range(0, 1), range(0, 2), range(2, 3)]).tolist()
    [[1.0], [1.5], [4.0]]
    """
    first = torch.tensor([group.start for group in groups], dtype=torch.int64, device=vectors.device)
    pooled = vectors.index_select(-2, first)
    for token, group in enumerate(groups):
        if len(group) > 1:
            pooled[..., token, :] = vectors[..., group.start : group.stop, :].mean(dim=-2)
    return pooled
