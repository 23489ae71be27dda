"""Conversion between spans of a sentence and tags of its words, in the schemes that files use.

bio    (IOB2) B- begins every span, I- continues it
iob1   I- begins and continues a span; B- begins a span directly after another span of the same label
bioul  (IOBES, BILOU) B- begins a span of several words, I- continues it, L- ends it; U- is a span of one word. E- and
       S- are read as L- and U-.

`spans_of` requires valid tags of a scheme. `lenient_spans` accepts any tags, as conlleval does.
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
    """Consecutive words of a sentence and their label."""

    label: str
    start: int  # the first word, counted from 0
    end: int  # the word after the last


class Transitions(NamedTuple):
    """The allowed neighbors of N tags, for a CRF."""

    may_follow: npt.NDArray[np.bool_]  # (N, N): row i has the tags that may follow tag i
    may_begin: npt.NDArray[np.bool_]  # (N,): a sentence
    may_end: npt.NDArray[np.bool_]  # (N,): a sentence


class _Tag(NamedTuple):
    prefix: str  # O, B, I, L or U
    label: str  # "" for O, and for tags that have no label


_OUTSIDE = _Tag("O", "")  # also the neighbor of a sentence's first and last word
_PREFIXES = {"B": "B", "I": "I", "L": "L", "U": "U", "E": "L", "S": "U"}


def lenient_spans(tags: Sequence[str]) -> list[Span]:
    """The spans of any tags, also of malformed ones, by the rules of conlleval.

    A span begins at B-, at U-, at each change of the label, and at I- or L- if no span is open. It ends where another
    begins, at O, and after L- and U-. For valid tags of each scheme the result equals `spans_of`.

    >>> lenient_spans(["I-PER", "I-PER", "I-LOC", "O", "B-LOC"])
    [Span(label='PER', start=0, end=2), Span(label='LOC', start=2, end=3), Span(label='LOC', start=4, end=5)]
    """
    spans: list[Span] = []
    before, start = _OUTSIDE, 0
    for position, tag in enumerate([*map(_parsed, tags), _OUTSIDE]):
        is_continued = before.prefix in "BI" and tag.prefix in "IL" and before.label == tag.label
        if before.prefix != "O" and not is_continued:
            spans.append(Span(before.label, start, position))
        if not is_continued:
            start = position
        before = tag
    return spans


def spans_of(tags: Sequence[str], scheme: TagScheme) -> list[Span]:
    """The spans of these tags. Tags that break the rules of the scheme raise InputError.

    >>> spans_of(["B-PER", "L-PER", "O", "U-LOC"], "bioul")
    [Span(label='PER', start=0, end=2), Span(label='LOC', start=3, end=4)]
    """
    _check_scheme(scheme)
    if (word := _first_violation(tags, scheme)) is not None:
        raise InputError(
            f"word {min(word + 1, len(tags))}: {_violation(tags, word)} is impossible in {scheme.upper()} tags"
        )
    return lenient_spans(tags)


def tags_of(spans: Iterable[Span], length: int, scheme: TagScheme) -> list[str]:
    """The tags of a sentence of `length` words with these spans, in any order.

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
                "spans must not be empty, overlap, or reach beyond the sentence"
            )
        prefixes = ["B", *["I"] * (end - start - 1)]
        if scheme == "iob1" and not (end_before == start and label_before == label):
            prefixes[0] = "I"
        if scheme == "bioul":
            prefixes[-1] = "L" if len(prefixes) > 1 else "U"
        tags[start:end] = [f"{prefix}-{label}" if label else prefix for prefix in prefixes]
        end_before, label_before = end, label
    return tags


def _sentence_and_word(sentence: int, word: int) -> str:
    return f"sentence {sentence + 1}, word {word + 1}"


def detect_scheme(
    sentences: Iterable[Sequence[str]], *, location: Callable[[int, int], str] = _sentence_and_word
) -> TagScheme:
    """The first scheme in which the tags of all these sentences are valid; bio if there are no spans.

    If no scheme fits, the error names the first invalid tag for each scheme. `location` describes a word of a sentence,
    both counted from 0.

    >>> detect_scheme([["I-PER", "O"], ["O", "I-LOC", "B-LOC"]])
    'iob1'
    """
    violations: dict[TagScheme, str] = {}
    for number, tags in enumerate(sentences):
        for scheme in get_args(TagScheme):
            if scheme in violations:
                continue
            try:
                word = _first_violation(tags, scheme)
            except InputError:
                word = next(word for word, tag in enumerate(tags) if not _is_tag(tag))
                raise InputError(f"{location(number, word)}: {_not_a_tag(tags[word])}") from None
            if word is not None:
                violations[scheme] = f"{_violation(tags, word)} ({location(number, min(word, len(tags) - 1))})"
        if len(violations) == len(get_args(TagScheme)):
            reasons = "; ".join(f"not {scheme.upper()}: {violation}" for scheme, violation in violations.items())
            raise InputError(
                f"the tags are valid in no scheme; {reasons}. Correct the tags, or convert all files to one scheme"
            )
    return next(scheme for scheme in get_args(TagScheme) if scheme not in violations)


def allowed_transitions(tags: Sequence[str], scheme: TagScheme) -> Transitions:
    """Which of these tags may follow each other, begin a sentence and end a sentence."""
    _check_scheme(scheme)
    parsed = [_parsed(tag) for tag in tags]
    for tag, parts in zip(tags, parsed, strict=True):
        if parts.prefix in "LU" and scheme != "bioul":
            raise InputError(f"{tag!r} is not a {scheme.upper()} tag; it is a BIOUL tag")
    return Transitions(
        np.array([[_may_follow(before, tag, scheme) for tag in parsed] for before in parsed], bool),
        np.array([_may_follow(_OUTSIDE, tag, scheme) for tag in parsed], bool),
        np.array([_may_follow(tag, _OUTSIDE, scheme) for tag in parsed], bool),
    )


def _may_follow(before: _Tag, tag: _Tag, scheme: TagScheme) -> bool:
    """Whether `tag` may directly follow `before`. The start and the end of a sentence are treated as O."""
    same_label = before.label == tag.label and before.prefix != "O"
    match scheme:
        case "bio":
            return tag.prefix in "OB" or (tag.prefix == "I" and same_label)
        case "iob1":
            return tag.prefix in "OI" or (tag.prefix == "B" and same_label)
        case "bioul":
            return (tag.prefix in "IL" and same_label) if before.prefix in "BI" else tag.prefix in "OBU"


def _first_violation(tags: Sequence[str], scheme: TagScheme) -> int | None:
    """The first word whose tag may not follow the tag before; the number of words if the last tag may not end it."""
    parsed = [_OUTSIDE, *map(_parsed, tags), _OUTSIDE]
    return next((word for word, pair in enumerate(pairwise(parsed)) if not _may_follow(*pair, scheme)), None)


def _violation(tags: Sequence[str], position: int) -> str:
    if position == len(tags):
        return f"{tags[-1]!r} at the end of a sentence"
    return f"{tags[position]!r} after {tags[position - 1]!r}" if position else f"{tags[0]!r} at the start of a sentence"


@lru_cache(maxsize=4096)
def _parsed(tag: str) -> _Tag:
    if tag == "O":
        return _OUTSIDE
    if not _is_tag(tag):
        raise InputError(_not_a_tag(tag))
    prefix, _, label = tag.partition("-")
    return _Tag(_PREFIXES[prefix], label)


def _is_tag(tag: str) -> bool:
    prefix, hyphen, label = tag.partition("-")
    return tag == "O" or (prefix in _PREFIXES and bool(hyphen) == bool(label))


def _not_a_tag(tag: str) -> str:
    return f"{tag!r} is not a tag of spans; expected O, or B-, I-, L-, U-, E- or S- and a label"


def _check_scheme(scheme: str) -> None:
    if scheme not in get_args(TagScheme):
        raise InputError(f"the tag scheme is {scheme!r}; it must be {', '.join(get_args(TagScheme))}")
