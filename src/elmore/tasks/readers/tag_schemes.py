"""Spans of a sentence written as one tag a word, in the schemes that files use, and back.

bio    (IOB2) B- begins every span, I- goes on with it
iob1   I- begins a span and goes on with it; B- begins one right behind another of the same label
bioul  (IOBES, BILOU) B- begins a span of several words, I- goes on, L- ends it; U- is a span of one word. E- and S- are
       read as L- and U-.

`spans_of` wants tags that keep the rules of their scheme. `lenient_spans` finds spans in any tags, as conlleval does.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from elmore.errors import InputError

TagScheme = Literal["bio", "iob1", "bioul"]


class Span(NamedTuple):
    """Some words of a sentence, one after another, and what they are."""

    label: str
    start: int  # the first word, counted from 0
    end: int  # the word after the last


class Transitions(NamedTuple):
    """Which tags may stand beside which, as a CRF needs it; N tags in the order they were given."""

    may_follow: npt.NDArray[np.bool_]  # (N, N): in row i, the tags that may stand right after tag i
    may_begin: npt.NDArray[np.bool_]  # (N,): a sentence
    may_end: npt.NDArray[np.bool_]  # (N,): a sentence


class _Tag(NamedTuple):
    prefix: str  # O, B, I, L or U
    label: str  # "" of O, and of tags that are nothing but their prefix


_OUTSIDE = _Tag("O", "")  # also what stands before and after a sentence
_PREFIXES = {"B": "B", "I": "I", "L": "L", "U": "U", "E": "L", "S": "U"}


def lenient_spans(tags: Sequence[str]) -> list[Span]:
    """The spans in any tags, also malformed ones, by the rules of conlleval.

    A span begins at B-, at U-, wherever the label changes, and at an I- or L- behind nothing that is open; it ends
    where another begins, at O, and behind L- and U-. Of well-formed tags of every scheme these are the spans meant.

    >>> lenient_spans(["I-PER", "I-PER", "I-LOC", "O", "B-LOC"])
    [Span(label='PER', start=0, end=2), Span(label='LOC', start=2, end=3), Span(label='LOC', start=4, end=5)]
    """
    spans: list[Span] = []
    before, start = _OUTSIDE, 0
    for place, tag in enumerate([*map(_parsed, tags), _OUTSIDE]):
        goes_on = before.prefix in "BI" and tag.prefix in "IL" and before.label == tag.label
        if before.prefix != "O" and not goes_on:
            spans.append(Span(before.label, start, place))
        if not goes_on:
            start = place
        before = tag
    return spans


def spans_of(tags: Sequence[str], scheme: TagScheme) -> list[Span]:
    """The spans that these tags mean; tags that break the rules of the scheme are an error.

    >>> spans_of(["B-PER", "L-PER", "O", "U-LOC"], "bioul")
    [Span(label='PER', start=0, end=2), Span(label='LOC', start=3, end=4)]
    """
    _check_scheme(scheme)
    if (word := _first_breach(tags, scheme)) is not None:
        raise InputError(
            f"word {min(word + 1, len(tags))}: {_breach(tags, word)} is impossible in {scheme.upper()} tags"
        )
    return lenient_spans(tags)


def tags_of(spans: Iterable[Span], length: int, scheme: TagScheme) -> list[str]:
    """The tags that say in a sentence of so many words which spans it has; spans come in any order.

    >>> tags_of([Span("PER", 0, 2), Span("PER", 2, 3)], 4, "iob1")
    ['I-PER', 'I-PER', 'B-PER', 'O']
    """
    _check_scheme(scheme)
    tags = ["O"] * length
    end_before, label_before = 0, None
    for label, start, end in sorted(spans, key=lambda span: span[1:]):
        if not end_before <= start < end <= length:
            raise InputError(
                f"span {label} of words {start + 1} to {end} cannot be written as tags of {length} words; "
                "spans have words, lie inside the sentence and do not overlap"
            )
        prefixes = ["B", *["I"] * (end - start - 1)]
        if scheme == "iob1" and not (end_before == start and label_before == label):
            prefixes[0] = "I"
        if scheme == "bioul":
            prefixes[-1] = "L" if len(prefixes) > 1 else "U"
        tags[start:end] = [f"{prefix}-{label}" if label else prefix for prefix in prefixes]
        end_before, label_before = end, label
    return tags


def _numbered(sentence: int, word: int) -> str:
    return f"sentence {sentence + 1}, word {word + 1}"


def detect_scheme(sentences: Iterable[Sequence[str]], *, place: Callable[[int, int], str] = _numbered) -> TagScheme:
    """The one scheme whose rules the tags of all these sentences keep; without any spans, bio.

    If there is none, the error names for each scheme the first tag that broke its rules. `place` tells where a word
    of a sentence stands, both counted from 0.

    >>> detect_scheme([["I-PER", "O"], ["O", "I-LOC", "B-LOC"]])
    'iob1'
    """
    breaches: dict[TagScheme, str] = {}
    for number, tags in enumerate(sentences):
        for scheme in get_args(TagScheme):
            if scheme in breaches:
                continue
            try:
                word = _first_breach(tags, scheme)
            except InputError:
                word = next(word for word, tag in enumerate(tags) if not _is_tag(tag))
                raise InputError(f"{place(number, word)}: {_no_tag(tags[word])}") from None
            if word is not None:
                breaches[scheme] = f"{_breach(tags, word)} ({place(number, min(word, len(tags) - 1))})"
        if len(breaches) == len(get_args(TagScheme)):
            told = "; ".join(f"not {scheme.upper()}: {breach}" for scheme, breach in breaches.items())
            raise InputError(
                f"the tags keep the rules of no one scheme; {told}. Mend them, or convert all files to one scheme"
            )
    return next(scheme for scheme in get_args(TagScheme) if scheme not in breaches)


def allowed_transitions(tags: Sequence[str], scheme: TagScheme) -> Transitions:
    """Which of these tags may follow which, may begin a sentence and may end one."""
    _check_scheme(scheme)
    parsed = [_parsed(tag) for tag in tags]
    for tag, known in zip(tags, parsed, strict=True):
        if known.prefix in "LU" and scheme != "bioul":
            raise InputError(f"{tag!r} is no tag of {scheme.upper()}; it belongs to BIOUL")
    return Transitions(
        np.array([[_may_follow(one, other, scheme) for other in parsed] for one in parsed], bool),
        np.array([_may_follow(_OUTSIDE, tag, scheme) for tag in parsed], bool),
        np.array([_may_follow(tag, _OUTSIDE, scheme) for tag in parsed], bool),
    )


def _may_follow(before: _Tag, tag: _Tag, scheme: TagScheme) -> bool:
    """Whether `tag` may stand right behind `before`. The border of a sentence is as good as O."""
    same_label = before.label == tag.label and before.prefix != "O"
    match scheme:
        case "bio":
            return tag.prefix in "OB" or (tag.prefix == "I" and same_label)
        case "iob1":
            return tag.prefix in "OI" or (tag.prefix == "B" and same_label)
        case "bioul":
            return (tag.prefix in "IL" and same_label) if before.prefix in "BI" else tag.prefix in "OBU"


def _first_breach(tags: Sequence[str], scheme: TagScheme) -> int | None:
    """The first word whose tag may not follow the one before; the number of words if the last may not end it."""
    parsed = [_OUTSIDE, *map(_parsed, tags), _OUTSIDE]
    return next((word for word, pair in enumerate(pairwise(parsed)) if not _may_follow(*pair, scheme)), None)


def _breach(tags: Sequence[str], place: int) -> str:
    if place == len(tags):
        return f"{tags[-1]!r} at the end of a sentence"
    return f"{tags[place]!r} after {tags[place - 1]!r}" if place else f"{tags[0]!r} at the start of a sentence"


@lru_cache(maxsize=4096)
def _parsed(tag: str) -> _Tag:
    if tag == "O":
        return _OUTSIDE
    if not _is_tag(tag):
        raise InputError(_no_tag(tag))
    prefix, _, label = tag.partition("-")
    return _Tag(_PREFIXES[prefix], label)


def _is_tag(tag: str) -> bool:
    prefix, hyphen, label = tag.partition("-")
    return tag == "O" or (prefix in _PREFIXES and bool(hyphen) == bool(label))


def _no_tag(tag: str) -> str:
    return f"{tag!r} is no tag of spans; expected O, or B-, I-, L-, U-, E- or S- and a label"


def _check_scheme(scheme: str) -> None:
    if scheme not in get_args(TagScheme):
        raise InputError(f"the tag scheme is to be {', '.join(get_args(TagScheme))}, and is {scheme!r}")
