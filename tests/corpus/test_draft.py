"""Blocks become a draft: every word numbered, every border kept, nothing lost between blocks."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.corpus.documents import group_lines
from elmore.corpus.draft import BOUNDARY, DOCUMENT, Draft, choose_heldout, number_block, split_heldout
from elmore.text.style import TokenizerConfig

BLANKS = TokenizerConfig(tokenizer="whitespace")


def test_running_text_is_split_and_tokenised():
    words, stream, _ = number_block("\nI took a bow. Why? I did.", style=TokenizerConfig())
    assert words.split("\n") == ["I", "took", "a", "bow", ".", "Why", "?", "did"]
    assert stream.tolist() == [DOCUMENT, 2, 3, 4, 5, 6, 0, 7, 8, 0, 2, 9, 6, 0]


def test_boundary_words_and_empty_sentences_are_dropped_and_counted():
    words, stream, dropped = number_block("\na <S> b </S>\n<S> </S>\n<s> a", style=BLANKS)
    assert words.split("\n") == ["a", "b", "<s>"]
    assert stream.tolist() == [DOCUMENT, 2, 3, 0, 4, 2, 0]
    assert dropped == {"boundary_words": 4, "empty_sentences": 1}


def test_the_style_decides_over_words():
    assert number_block("Ab B", style=TokenizerConfig(tokenizer="whitespace", lowercase=True)).words == "ab\nb"
    assert number_block("MKM", style=TokenizerConfig(tokenizer="characters")).stream.tolist() == [2, 3, 2, 0]


# "<S>" alone is a line that leaves no sentence, and may be all a document has.
LINES = st.lists(st.sampled_from(["", "", "a b", "b", "c a a", "<S>"]), max_size=12)


@given(LINES, st.integers(1, 12))
def test_a_draft_does_not_depend_on_where_blocks_end(tmp_path_factory, lines, characters):
    path: Path = tmp_path_factory.mktemp("draft") / "draft.bin"
    draft = Draft(path)
    draft.write(group_lines(["", *lines], characters=characters), style=BLANKS, workers=1)
    stream = np.concatenate([*draft.chunks(), np.array([], dtype=np.uint32)]).tolist()

    documents = [[line for line in document.split("\n") if line] for document in _joined(lines).split("\n\n")]
    expected = [kept for document in documents if (kept := [line for line in document if line != "<S>"])]
    assert _decoded(stream, draft.words) == expected
    assert draft.documents == len(expected)
    assert draft.dropped["empty_sentences"] == lines.count("<S>")


def _joined(lines: list[str]) -> str:
    return "\n".join(line or "\n" for line in lines)


def _decoded(stream: list[int], words: list[str]) -> list[list[str]]:
    documents: list[list[str]] = []
    sentence: list[str] = []
    for number in stream:
        if number == DOCUMENT:
            documents.append([])
        elif number == BOUNDARY:
            documents[-1].append(" ".join(sentence))
            sentence = []
        else:
            sentence.append(words[number])
    assert not sentence
    return documents


# Documents that are held out


def test_the_share_is_met_and_seeds_choose_independently():
    first, second = (choose_heldout(200_000, share=0.1, seed=seed) for seed in (1, 2))
    assert first.mean() == pytest.approx(0.1, abs=0.003)  # 4.5 standard deviations
    assert (first & second).mean() == pytest.approx(0.01, abs=0.001)
    assert (first[1:] & first[:-1]).mean() == pytest.approx(0.01, abs=0.001)


def test_more_documents_leave_the_choice_among_the_first_as_it_was():
    np.testing.assert_array_equal(
        choose_heldout(1000, share=0.1, seed=7), choose_heldout(5000, share=0.1, seed=7)[:1000]
    )


@given(st.integers(2, 50), st.floats(0, 1, exclude_min=True, exclude_max=True), st.integers())
def test_either_part_has_a_document_where_there_are_two(documents, share, seed):
    is_heldout = choose_heldout(documents, share=share, seed=seed)
    assert 0 < is_heldout.sum() < documents


def test_nothing_is_held_out_of_one_document_or_if_none_is_wanted():
    assert not choose_heldout(1, share=0.005, seed=1).any()
    assert not choose_heldout(100, share=0.0, seed=1).any()


@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.integers(2, 9), min_size=1, max_size=4)), min_size=1),
    st.integers(1, 9),
)
def test_a_stream_is_parted_alike_wherever_its_pieces_end(documents, size):
    stream = np.array([n for _, words in documents for n in (DOCUMENT, *words, 0)], dtype=np.uint32)
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    parts = list(split_heldout(pieces, np.array([is_heldout for is_heldout, _ in documents])))
    for part, wanted in (("train", False), ("heldout", True)):
        expected = [n for is_heldout, words in documents if is_heldout is wanted for n in (*words, 0)]
        assert np.concatenate([getattr(piece, part) for piece in parts]).tolist() == expected
