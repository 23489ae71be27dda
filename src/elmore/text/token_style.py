r"""Tokens in a style that is not a model's own: made from text as a data set has them, and turned into a model's words.

Treebanks cut as the Penn Treebank does (do n't, -LRB-, `` and ''; `penn` knows the forms of it), nearly all ELMo models
were trained on what Moses cuts (don 't, (, "). A sentence of such tokens is written out again as text, Moses cuts that,
and the characters tell which words belong to which token:

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
from elmore.text.hyphens import is_hyphen
from elmore.text.moses import Tokens, tokenize_v2
from elmore.text.penn import ESCAPED_BRACKETS, HALVES, tokenize_penn
from elmore.text.style import TOKEN_STYLES, PennStyle, TokenStyle
from elmore.text.tokenizer import Tokenizer


class ConvertedTokens(NamedTuple):
    """A sentence in a model's own words, and for each token given the words it became: one at least, in their order.

    The spans of neighbours may share a word.
    """

    words: list[str]
    word_spans: list[range]


def tokenize_in_style(text: str, style: TokenStyle, *, language: str = "en") -> Tokens:
    """Cut one sentence as data of a style is cut, for a model that was trained on such data.

    >>> tokenize_in_style("I don't.", "ud").words, tokenize_in_style("I don't.", "moses").words
    (['I', 'do', "n't", '.'], ['I', 'don', "'t", '.'])
    """
    if style not in TOKEN_STYLES:
        raise InputError(f"the token style is {style!r}; it must be one of {', '.join(TOKEN_STYLES)}")
    if style == "moses":
        return tokenize_v2(text, language=language)
    if language != "en":
        raise InputError(f"the token style {style!r} has rules for English only, and the language is {language!r}")
    return tokenize_penn(text, style=style)


def retokenize(tokens: Sequence[str], tokenizer: Tokenizer, *, style: PennStyle) -> ConvertedTokens:
    """Turn tokens of a style into the words that the tokeniser, one of Moses's style, finds in the same text.

    >>> from elmore.text.style import TokenizerConfig
    >>> retokenize(["do", "n't", "-LRB-"], Tokenizer(TokenizerConfig()), style="penn")
    ConvertedTokens(words=['don', "'t", '('], word_spans=[range(0, 1), range(0, 2), range(2, 3)])
    """
    if tokenizer.style.tokenizer != "moses":
        raise InputError(
            f"{style}-style tokens can be converted for models of Moses-style text, and this model's tokeniser is "
            f"{tokenizer.style.tokenizer!r}; give its own words, and leave out the token style"
        )
    text, spans = _written_out(tokens, style)
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


_BRACKETS = {escaped: mark for mark, escaped in ESCAPED_BRACKETS.items()}
_BRACKETS |= {escaped.lower(): mark for escaped, mark in _BRACKETS.items()}
_QUOTES = {"``": '"', "''": '"', "`": "'"}
_ESCAPED = re.compile(r"\\([/*])")


def _written_out(tokens: Sequence[str], style: PennStyle) -> tuple[str, list[tuple[int, int]]]:
    """The text of the tokens, and where each stands in it."""
    # Where quotes are plain, `` was in the text.
    plain = _BRACKETS | _QUOTES if style in ("penn", "nltk") else _BRACKETS
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    end = 0
    for place, token in enumerate(tokens):
        if place > 0 and not _joins(tokens, place, style):
            pieces.append(" ")
            end += 1
        piece = plain.get(token) or (_ESCAPED.sub(r"\1", token) if style == "penn" else token)
        pieces.append(piece)
        spans.append((end, end + len(piece)))
        end += len(piece)
    return "".join(pieces), spans


_CLITIC = re.compile(r"n't|'(?:s|m|d|ll|re|ve)")
# What UD parts besides: dont, im and thats; 10k and 35mm.
_UD_HALVES = re.compile(
    r"[a-z]+ nt|i (?:m|ve)|(?:it|he|she|that|what|there|let) s|(?:you|they) re|[0-9.,]+ (?:[km]|[mck]m|ft)"
)


def _joins(tokens: Sequence[str], place: int, style: PennStyle) -> bool:
    """Whether a token stood in the text right behind the one before it."""
    before, token = (one.lower().replace("’", "'") for one in tokens[place - 1 : place + 1])
    if before and (_CLITIC.fullmatch(token) or (before, token) in HALVES):
        return True
    if style != "ud":
        return False
    return is_hyphen(tokens, place) or is_hyphen(tokens, place - 1) or bool(_UD_HALVES.fullmatch(f"{before} {token}"))
