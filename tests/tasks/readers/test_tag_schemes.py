"""Spans become tags and tags become spans, in every scheme, and malformed tags are read as conlleval reads them."""

from itertools import pairwise, product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError
from elmore.tasks.readers.tag_schemes import (
    Span,
    TagScheme,
    allowed_transitions,
    detect_scheme,
    lenient_spans,
    spans_of,
    tags_of,
)

SCHEMES = get_args(TagScheme)
schemes = st.sampled_from(SCHEMES)


@st.composite
def sentences(draw) -> tuple[list[Span], int]:
    """Spans side by side with gaps between some of them, and the length of their sentence."""
    spans, place = [], 0
    for gap, size, label in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(["PER", "B-x", "LOC", ""])))
    ):
        spans.append(Span(label, place + gap, place + gap + size))
        place += gap + size
    return spans, place + draw(st.integers(0, 2))


@given(sentences(), schemes)
def test_spans_come_back_from_their_tags(sentence, scheme):
    spans, length = sentence
    tags = tags_of(reversed(spans), length, scheme)
    assert len(tags) == length
    assert spans_of(tags, scheme) == spans
    assert lenient_spans(tags) == spans


@given(sentences(), schemes, schemes)
def test_tags_of_one_scheme_come_back_through_another(sentence, one, other):
    spans, length = sentence
    tags = tags_of(spans, length, one)
    through = tags_of(spans_of(tags, one), length, other)
    assert tags_of(spans_of(through, other), length, one) == tags


@given(st.lists(sentences(), min_size=1), schemes)
def test_the_scheme_of_well_formed_tags_is_recognised(found, scheme):
    tags = [tags_of(spans, length, scheme) for spans, length in found]
    assert detect_scheme(tags) == (scheme if any(spans for spans, _ in found) else "bio")


def test_each_scheme_writes_neighbours_in_its_own_way():
    # IOB1: Ramshaw and Marcus (1995); IOB2: Tjong Kim Sang and Veenstra (1999); BILOU: Ratinov and Roth (2009).
    spans = [Span("PER", 0, 2), Span("PER", 2, 3), Span("LOC", 3, 6)]
    assert tags_of(spans, 7, "bio") == ["B-PER", "I-PER", "B-PER", "B-LOC", "I-LOC", "I-LOC", "O"]
    assert tags_of(spans, 7, "iob1") == ["I-PER", "I-PER", "B-PER", "I-LOC", "I-LOC", "I-LOC", "O"]
    assert tags_of(spans, 7, "bioul") == ["B-PER", "L-PER", "U-PER", "B-LOC", "I-LOC", "L-LOC", "O"]


def test_iobes_is_bioul_in_other_letters():
    tags = ["B-PER", "I-PER", "E-PER", "S-LOC", "O"]
    assert detect_scheme([tags]) == "bioul"
    assert spans_of(tags, "bioul") == [Span("PER", 0, 3), Span("LOC", 3, 4)]


def test_a_label_may_hold_hyphens_and_a_tag_may_lack_one():
    assert lenient_spans(["B-creative-work", "I-creative-work", "B", "I"]) == [
        Span("creative-work", 0, 2),
        Span("", 2, 4),
    ]


# Computed by seqeval 1.2.2, metrics.sequence_labeling.get_entities (whose ends are inclusive).
@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("I-A I-A I-B O I-B", [("A", 0, 2), ("B", 2, 3), ("B", 4, 5)]),
        ("B-A I-B I-B B-B", [("A", 0, 1), ("B", 1, 3), ("B", 3, 4)]),
        ("E-A E-A I-A", [("A", 0, 1), ("A", 1, 2), ("A", 2, 3)]),
        ("S-A I-A E-A I-A", [("A", 0, 1), ("A", 1, 3), ("A", 3, 4)]),
        ("B-A E-A E-A S-A", [("A", 0, 2), ("A", 2, 3), ("A", 3, 4)]),
        ("I-A S-A B-A O E-B", [("A", 0, 1), ("A", 1, 2), ("A", 2, 3), ("B", 4, 5)]),
        ("B-A I-A I-B E-A", [("A", 0, 2), ("B", 2, 3), ("A", 3, 4)]),
    ],
)
def test_malformed_tags_are_read_by_the_rules_of_conlleval(tags, spans):
    assert lenient_spans(tags.split(" ")) == [Span(*span) for span in spans]


@pytest.mark.parametrize(
    ("scheme", "tags", "told"),
    [
        ("bio", ["O", "I-A"], "word 2: 'I-A' after 'O' is impossible in BIO tags"),
        ("bio", ["B-A", "I-B"], "word 2: 'I-B' after 'B-A'"),
        ("bio", ["U-A"], "word 1: 'U-A' at the start of a sentence"),
        ("iob1", ["O", "B-A"], "word 2: 'B-A' after 'O' is impossible in IOB1 tags"),
        ("iob1", ["I-B", "B-A"], "word 2: 'B-A' after 'I-B'"),
        ("bioul", ["B-A", "O"], "word 2: 'O' after 'B-A' is impossible in BIOUL tags"),
        ("bioul", ["O", "B-A"], "word 2: 'B-A' at the end of a sentence"),
        ("bioul", ["L-A"], "word 1: 'L-A' at the start"),
    ],
)
def test_tags_that_break_the_rules_of_their_scheme_are_named(scheme, tags, told):
    with pytest.raises(InputError, match=f"^{told}"):
        spans_of(tags, scheme)


def test_mixed_schemes_are_an_error_that_names_the_tags():
    with pytest.raises(InputError) as error:
        detect_scheme([["O"], ["O", "B-PER"], ["I-LOC", "O"]])
    assert "not BIO: 'I-LOC' at the start of a sentence (sentence 3, word 1)" in str(error.value)
    assert "not IOB1: 'B-PER' after 'O' (sentence 2, word 2)" in str(error.value)
    assert "not BIOUL: 'B-PER' at the end of a sentence (sentence 2, word 2)" in str(error.value)
    with pytest.raises(InputError, match=r"'I-A' after 'O' \(line 1\.1\)"):
        detect_scheme([["B-A"], ["O", "I-A"]], location=lambda sentence, word: f"line {sentence}.{word}")


@pytest.mark.parametrize("tag", ["NOUN", "X-PER", "B-", "", "o", "O-PER", "-PER"])
def test_what_is_no_tag_of_spans_is_named(tag):
    with pytest.raises(InputError, match=f"^sentence 2, word 3: '{tag}' is not a tag of spans"):
        detect_scheme([["O"], ["O", "B-PER", tag]])
    with pytest.raises(InputError, match=f"^'{tag}' is not a tag of spans"):
        lenient_spans(["O", tag])


@pytest.mark.parametrize("spans", [[("A", 0, 2), ("B", 1, 3)], [("A", 2, 5)], [("A", 1, 1)], [("A", -1, 1)]])
def test_spans_that_tags_cannot_say_are_refused(spans):
    with pytest.raises(InputError, match="cannot be written as tags of 4 words"):
        tags_of([Span(*span) for span in spans], 4, "bio")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_transitions_allow_exactly_the_sentences_that_the_scheme_has(scheme):
    prefixes = "BILU" if scheme == "bioul" else "BI"
    tags = ["O", *(f"{prefix}-{label}" for label in "XY" for prefix in prefixes)]
    allowed = allowed_transitions(tags, scheme)
    # Every tagging of four words that means some spans is the one that those spans are written as, and no other is.
    for path in product(range(len(tags)), repeat=4):
        possible = (
            allowed.may_begin[path[0]]
            and allowed.may_end[path[-1]]
            and all(allowed.may_follow[one, other] for one, other in pairwise(path))
        )
        written = [tags[place] for place in path]
        assert possible == (tags_of(lenient_spans(written), 4, scheme) == written), written


def test_a_tag_without_a_label_does_not_go_on_with_what_is_outside():
    allowed = allowed_transitions(["O", "B", "I"], "bio")
    assert allowed.may_follow.tolist() == [[True, True, False], [True, True, True], [True, True, True]]
    assert allowed.may_begin.tolist() == [True, True, False]
    assert not allowed_transitions(["O", "B", "I"], "iob1").may_follow[0, 1]


def test_transitions_of_another_scheme_are_refused():
    with pytest.raises(InputError, match="'U-A' is not a BIO tag"):
        allowed_transitions(["O", "U-A"], "bio")
    with pytest.raises(InputError, match="'iobes'; it must be bio, iob1, bioul"):
        allowed_transitions(["O"], "iobes")
