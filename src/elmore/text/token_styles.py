r"""Tokens in another convention than a model's: detected, produced from text, and converted to the model's words.

Treebanks split words as the Penn Treebank does (do n't, -LRB-, `` and ''; see `penn` for its variants). Nearly all ELMo
models were trained on the words of Moses (don 't, (, "). `retokenize` restores the text of such tokens, tokenizes it
with Moses, and finds the words of each token by their characters:

    tokens   I   ca   n't   -LRB-   really   -RRB-   and\/or
    text     I   can't      (       really   )       and/or
    words    I   can  't    (       really   )       and  /  or

The vector of a token is the mean of the vectors of its words: ca has the vector of can, n't the mean of can and 't.
All words have equal weight. With weights by characters, spelling would determine the influence of a word.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from elmore.errors import InputError
from elmore.text.moses import Tokens, tokenize_v2
from elmore.text.penn import ESCAPED_BRACKETS, SPLIT_CONTRACTIONS, keeps_hyphen, tokenize_penn
from elmore.text.style import TOKEN_STYLES, PennStyle, TokenStyle
from elmore.text.tokenizer import Tokenizer

_Sentences = Sequence[Sequence[str]]


class RetokenizedSentence(NamedTuple):
    """The words of a model, and for each original token the indices of its words: at least one, in order.

    The ranges of neighbors can share a word.
    """

    words: list[str]
    word_spans: list[range]


def tokenize_in_style(text: str, style: TokenStyle, *, language: str = "en") -> Tokens:
    """Split one sentence in the style of a data set, for a model that was trained on such data.

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


def retokenize(tokens: Sequence[str], tokenizer: Tokenizer, *, style: PennStyle) -> RetokenizedSentence:
    """Convert tokens of a style to the words that a Moses tokenizer finds in the same text.

    >>> from elmore.text.style import TokenizerConfig
    >>> retokenize(["do", "n't", "-LRB-"], Tokenizer(TokenizerConfig()), style="penn")
    RetokenizedSentence(words=['don', "'t", '('], word_spans=[range(0, 1), range(0, 2), range(2, 3)])
    """
    if tokenizer.style.tokenizer != "moses":
        raise InputError(
            f"{style}-style tokens can be converted for models with the tokenizer 'moses', and this model has "
            f"{tokenizer.style.tokenizer!r}; give the model's own words, and omit the token style"
        )
    text, spans = _detokenize(tokens, style)
    found, offsets = tokenizer.tokenize(text)
    words: list[str] = []
    word_spans: list[range] = []
    first = 0  # the first found word that can belong to the token
    for token, (start, end) in zip(tokens, spans, strict=True):
        while first < len(found) and offsets[first][1] <= start:
            words.append(found[first])
            first += 1
        stop = first
        while stop < len(found) and offsets[stop][0] < end:
            stop += 1
        if stop == first:
            # The token is invisible. It becomes a word itself, so that each token has one.
            words.append(token)
            word_spans.append(range(len(words) - 1, len(words)))
        else:
            word_spans.append(range(len(words), len(words) + stop - first))
    return RetokenizedSentence([*words, *found[first:]], word_spans)


_BRACKETS = {escaped: mark for mark, escaped in ESCAPED_BRACKETS.items()}
_BRACKETS |= {escaped.lower(): mark for escaped, mark in _BRACKETS.items()}
_QUOTES = {"``": '"', "''": '"', "`": "'"}
_ESCAPED_MARK = re.compile(r"\\([/*])")


def _detokenize(tokens: Sequence[str], style: PennStyle) -> tuple[str, list[tuple[int, int]]]:
    """The text of the tokens, and the span of each in it."""
    # In styles with plain quotes, `` was in the text.
    plain = _BRACKETS | _QUOTES if style in ("penn", "nltk") else _BRACKETS
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    end = 0
    for index, token in enumerate(tokens):
        if index > 0 and not _is_joined(tokens, index, style):
            parts.append(" ")
            end += 1
        part = plain.get(token) or (_ESCAPED_MARK.sub(r"\1", token) if style == "penn" else token)
        parts.append(part)
        spans.append((end, end + len(part)))
        end += len(part)
    return "".join(parts), spans


_CLITIC = re.compile(r"n't|'(?:s|m|d|ll|re|ve)")
# UD also splits dont, im and thats; 10k and 35mm.
_UD_CONTRACTIONS = re.compile(
    r"[a-z]+ nt|i (?:m|ve)|(?:it|he|she|that|what|there|let) s|(?:you|they) re|[0-9.,]+ (?:[km]|[mck]m|ft)"
)


def _is_joined(tokens: Sequence[str], index: int, style: PennStyle) -> bool:
    """Whether the text had no space before a token."""
    before, token = (each.lower().replace("’", "'") for each in tokens[index - 1 : index + 1])
    if before and (_CLITIC.fullmatch(token) or (before, token) in SPLIT_CONTRACTIONS):
        return True
    if style != "ud":
        return False
    return (
        is_hyphen(tokens, index)
        or is_hyphen(tokens, index - 1)
        or bool(_UD_CONTRACTIONS.fullmatch(f"{before} {token}"))
    )


# Words after a dash that are rarely the second part of a compound.
_CLAUSE_WORDS = re.compile(
    "a|about|all|also|an|and|any|are|as|at|be|because|been|both|but|by|can|could|did|do|does|especially|even|for|from|had|"
    "has|have|he|her|his|how|however|i|if|in|is|it|its|just|last|maybe|more|most|much|my|never|no|not|now|of|on|only|or|"
    "our|over|please|probably|she|should|so|some|still|such|than|thanks|that|the|their|then|there|these|they|this|those|"
    "to|too|unless|until|very|was|we|were|what|when|where|which|while|who|whose|why|will|with|would|you|your",
    re.IGNORECASE,
)
_ARTICLES = re.compile("a[dlns]|ash|bin|de|e|[eu]l")  # of names: al-Qaeda


def is_hyphen(tokens: Sequence[str], index: int) -> bool:
    """Whether a token of UD is a hyphen that joined its neighbors in the text, not a dash.

    The rules come from the training part of UD English-EWT. Of its 1,299 marks between two words they decide 1,126
    correctly, of the dev part 104 of 129. If all were dashes, 563 and 36 would be correct.

    >>> tokens = ["a", "well", "-", "known", "fact", "-", "it", "is"]
    >>> is_hyphen(tokens, 2), is_hyphen(tokens, 5)
    (True, False)
    """
    if tokens[index] != "-" or not 0 < index < len(tokens) - 1:
        return False
    before, after = tokens[index - 1], tokens[index + 1]
    if not (before[-1:].isalnum() and after[:1].isalnum()):
        return False
    # One word between two marks: the-man-in-the-street.
    if "-" in (*tokens[max(index - 2, 0) : index - 1], *tokens[index + 2 : index + 3]):
        return True
    if _CLAUSE_WORDS.fullmatch(after):
        return False
    if before[-1].isdigit() or after[0].isdigit():
        return not after[0].isupper() if before[-1].isdigit() else before.isupper()
    return not after[0].isupper() or before[0].isupper() or bool(_ARTICLES.fullmatch(before))


def detect_token_style(sentences: _Sentences) -> TokenStyle:
    """The style of a data set, by a sample of its sentences; about a thousand are enough.

    It is "moses", which leaves tokens unchanged, unless some tokens follow the rules of the Penn Treebank.

    >>> detect_token_style([["I", "do", "n't", "(", "yet", ")"], ["a", "well", "-", "known", "fact"]])
    'ud'
    >>> detect_token_style([["``", "I", "do", "n't", "''", "-LRB-", "yet", "-RRB-"]])
    'penn'
    """
    if find_penn_marker(sentences) is None:
        return "moses"
    if _outnumber(sentences, _ESCAPED.__contains__, _UNESCAPED.__contains__) or _outnumber(
        sentences, _has_escaped_slash, _has_slash
    ):
        return "penn"
    if _outnumber(sentences, _PENN_QUOTES.__contains__, _PLAIN_QUOTES.__contains__):
        return "nltk" if _count(sentences, _UNESCAPED.__contains__) else "penn"
    hyphens = sum(is_hyphen(sentence, index) for sentence in sentences for index in range(len(sentence)))
    return "ud" if hyphens > _count(sentences, _is_compound) else "plain"


def find_penn_marker(sentences: _Sentences) -> str | None:
    """A token that only the Penn Treebank's rules produce, if such tokens outnumber their Moses forms.

    >>> find_penn_marker([["I", "do", "n't"]]), find_penn_marker([["I", "don", "'t"], ["the", "``", "mark"]])
    ("n't", None)
    """
    for penn, moses in _MARKERS:
        if _outnumber(sentences, penn.__contains__, moses.__contains__):
            return next(token for sentence in sentences for token in sentence if token in penn)
    return None


_ESCAPED = frozenset(_BRACKETS)
_UNESCAPED = frozenset(ESCAPED_BRACKETS)
_PENN_QUOTES = frozenset({"``", "''"})
_PLAIN_QUOTES = frozenset({'"', "“", "”"})

# Tokens of the Penn Treebank and of Moses for the same text. Without ``, which Moses does not change.
_MARKERS = (
    (frozenset({"n't", "n’t", "N'T", "N’T"}), frozenset({"'t", "’t", "'T", "’T"})),
    (_ESCAPED, _UNESCAPED),
    (frozenset({"''"}), _PLAIN_QUOTES),
)

_COMPOUND = re.compile(r"([^\W\d_]+)-[^\W\d_]{2,}")


def _is_compound(token: str) -> bool:
    """Whether the token contains a hyphen that UD would separate."""
    compound = _COMPOUND.fullmatch(token)
    return bool(compound and not keeps_hyphen(compound[1]))


def _has_escaped_slash(token: str) -> bool:
    return r"\/" in token


def _has_slash(token: str) -> bool:
    return "/" in token.replace(r"\/", "") and "://" not in token


def _outnumber(sentences: _Sentences, first: Callable[[str], bool], second: Callable[[str], bool]) -> bool:
    return _count(sentences, first) > _count(sentences, second)


def _count(sentences: _Sentences, condition: Callable[[str], bool]) -> int:
    return sum(condition(token) for sentence in sentences for token in sentence)
