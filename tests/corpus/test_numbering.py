"""Blocks become a draft: every word numbered, every border kept, nothing lost between blocks."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmore.corpus.documents import blocks_of
from elmore.corpus.numbering import BOUNDARY, DOCUMENT, Draft, number_block
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
    draft.write(blocks_of(["", *lines], characters=characters), style=BLANKS, workers=1)
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
