r"""Tokens that were cut in another style than a model's: noticed, and turned into the model's own words.

Treebanks and spaCy cut as the Penn Treebank does (do n't, -LRB-, `` and ''), nearly all ELMo models were trained on
what Moses cuts (don 't, (, "). A Penn-style sentence is written out again as text, Moses cuts that, and the characters
tell which words belong to which token:

    tokens   I   ca   n't   -LRB-   really   -RRB-   and\/or
    text     I   can't      (       really   )       and/or
    words    I   can  't    (       really   )       and  /  or

A token's vector is the mean of the vectors of its words: ca has that of can, n't the mean of can and 't, and\/or the
mean of three. Every word counts alike, however few of its characters are the token's: weights by characters would let
spelling decide how much a word means.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from elmore.errors import InputError
from elmore.text.tokenizing import Tokenizer


class ConvertedTokens(NamedTuple):
    """A sentence in a model's own words, and for each token given the words it became: one at least, in their order.

    The spans of neighbours may share a word.
    """

    words: list[str]
    word_spans: list[range]


def convert_penn(tokens: Sequence[str], tokenizer: Tokenizer) -> ConvertedTokens:
    """Turn Penn-style tokens into the words that the tokeniser, one of Moses's style, finds in the same text.

    >>> from elmore.text.style import TextStyle
    >>> convert_penn(["do", "n't", "-LRB-"], Tokenizer(TextStyle()))
    ConvertedTokens(words=['don', "'t", '('], word_spans=[range(0, 1), range(0, 2), range(2, 3)])
    """
    if tokenizer.style.tokenizer != "moses":
        raise InputError(
            f"Penn-style tokens can be converted for models of Moses-style text, and this model's tokeniser is "
            f"{tokenizer.style.tokenizer!r}; give its own words, and leave out the token style"
        )
    text, spans = _written_out(tokens)
    found, offsets = tokenizer.tokenize(text)
    words: list[str] = []
    word_spans: list[range] = []
    number = 0  # of the first word that may belong to the token
    for token, (start, end) in zip(tokens, spans, strict=True):
        while number < len(found) and offsets[number][1] <= start:
            words.append(found[number])
            number += 1
        stop = number
        while stop < len(found) and offsets[stop][0] < end:
            stop += 1
        if stop == number:
            # Nothing of it can be seen. It keeps its place, and is read as it is.
            words.append(token)
            word_spans.append(range(len(words) - 1, len(words)))
        else:
            word_spans.append(range(len(words), len(words) + stop - number))
    return ConvertedTokens([*words, *found[number:]], word_spans)


def penn_sign(sentences: Sequence[Sequence[str]]) -> str | None:
    """A token that shows these sentences to be Penn-style, if there are more such than ones of the plain kind.

    >>> penn_sign([["I", "do", "n't"]]), penn_sign([["I", "don", "'t"], ["the", "``", "mark"]])
    ("n't", None)
    """
    for penn, plain in _SIGNS:
        signs = [token for sentence in sentences for token in sentence if token in penn]
        if signs and len(signs) > sum(token in plain for sentence in sentences for token in sentence):
            return signs[0]
    return None


_PLAIN = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "``": '"',
    "''": '"',
    "`": "'",
}
_PLAIN |= {token.lower(): mark for token, mark in _PLAIN.items()}
_ESCAPED = re.compile(r"\\([/*])")

# What stands on one side, and what the same text would have on the other.
_CONTRACTIONS = (frozenset({"n't", "n’t", "N'T", "N’T"}), frozenset({"'t", "’t", "'T", "’T"}))
_BRACKETS = (frozenset(token for token in _PLAIN if token[0] == "-"), frozenset("()[]{}"))
# Not ``, which Moses leaves where a text has it.
_QUOTES = (frozenset({"''"}), frozenset({'"', "“", "”"}))
_SIGNS = (_CONTRACTIONS, _BRACKETS, _QUOTES)

_CLITIC = re.compile(r"n['’]t|['’](?:s|m|d|ll|re|ve)", re.IGNORECASE)
# Words that the treebank parts in two.
_HALVES = frozenset(
    {
        ("can", "not"),
        ("gon", "na"),
        ("wan", "na"),
        ("got", "ta"),
        ("gim", "me"),
        ("lem", "me"),
        ("d'", "ye"),
        ("more", "'n"),
        ("'t", "is"),
        ("'t", "was"),
    }
)


def _written_out(tokens: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The text of the tokens, and where each stands in it."""
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    end = 0
    before = ""
    for token in tokens:
        is_joined = before != "" and (_CLITIC.fullmatch(token) or (before.lower(), token.lower()) in _HALVES)
        if pieces and not is_joined:
            pieces.append(" ")
            end += 1
        piece = _PLAIN.get(token) or _ESCAPED.sub(r"\1", token)
        pieces.append(piece)
        spans.append((end, end + len(piece)))
        end += len(piece)
        before = token
    return "".join(pieces), spans
