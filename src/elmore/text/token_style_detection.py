"""In which style were these tokens cut? Found by marks of one style, weighed against those of another."""

import re
from collections.abc import Callable, Sequence

from elmore.text.hyphens import is_hyphen
from elmore.text.penn import ESCAPED_BRACKETS, keeps_hyphen
from elmore.text.style import TokenStyle

_Sentences = Sequence[Sequence[str]]


def detect_token_style(sentences: _Sentences) -> TokenStyle:
    """The style of a data set, judged by a sample: a thousand sentences will show what tells styles apart.

    Where nothing shows that the Penn Treebank's rules were followed, it is "moses": tokens are then taken as they are.

    >>> detect_token_style([["I", "do", "n't", "(", "yet", ")"], ["a", "well", "-", "known", "fact"]])
    'ud'
    >>> detect_token_style([["``", "I", "do", "n't", "''", "-LRB-", "yet", "-RRB-"]])
    'penn'
    """
    if find_penn_marker(sentences) is None:
        return "moses"
    if _outweighs(sentences, _ESCAPED.__contains__, _BRACKETS.__contains__) or _outweighs(
        sentences, _has_escape, _has_slash
    ):
        return "penn"
    if _outweighs(sentences, _PENN_QUOTES.__contains__, _QUOTES.__contains__):
        return "nltk" if _count(sentences, _BRACKETS.__contains__) else "penn"
    cut = sum(is_hyphen(sentence, place) for sentence in sentences for place in range(len(sentence)))
    return "ud" if cut > _count(sentences, _is_compound) else "plain"


def find_penn_marker(sentences: _Sentences) -> str | None:
    """A token that shows these sentences to be cut as in the Penn Treebank, if there are more such than of Moses's.

    >>> find_penn_marker([["I", "do", "n't"]]), find_penn_marker([["I", "don", "'t"], ["the", "``", "mark"]])
    ("n't", None)
    """
    for penn, moses in _SIGNS:
        if _outweighs(sentences, penn.__contains__, moses.__contains__):
            return next(token for sentence in sentences for token in sentence if token in penn)
    return None


_ESCAPED = frozenset(ESCAPED_BRACKETS.values()) | {escaped.lower() for escaped in ESCAPED_BRACKETS.values()}
_BRACKETS = frozenset(ESCAPED_BRACKETS)
_PENN_QUOTES = frozenset({"``", "''"})
_QUOTES = frozenset({'"', "“", "”"})

# What stands on one side, and what the same text would have on the other. Not ``, which Moses leaves where it stands.
_SIGNS = (
    (frozenset({"n't", "n’t", "N'T", "N’T"}), frozenset({"'t", "’t", "'T", "’T"})),
    (_ESCAPED, _BRACKETS),
    (frozenset({"''"}), _QUOTES),
)

_COMPOUND = re.compile(r"([^\W\d_]+)-[^\W\d_]{2,}")


def _is_compound(token: str) -> bool:
    """Whether it holds a hyphen that UD would cut at."""
    found = _COMPOUND.fullmatch(token)
    return bool(found and not keeps_hyphen(found[1]))


def _has_escape(token: str) -> bool:
    return r"\/" in token


def _has_slash(token: str) -> bool:
    return "/" in token.replace(r"\/", "") and "://" not in token


def _outweighs(sentences: _Sentences, one: Callable[[str], bool], other: Callable[[str], bool]) -> bool:
    return _count(sentences, one) > _count(sentences, other)


def _count(sentences: _Sentences, holds: Callable[[str], bool]) -> int:
    return sum(holds(token) for sentence in sentences for token in sentence)
