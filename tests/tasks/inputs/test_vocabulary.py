"""Word vectors are read from files in GloVe's format, and what is wrong in one is named by its line."""

import gzip

import numpy as np
import pytest

from elmore.errors import InputError
from elmore.tasks.inputs.vocabulary import read_word_vectors


@pytest.fixture
def file(tmp_path):
    def write(content: str):
        path = tmp_path / "vectors.txt"
        path.write_text(content, encoding="utf-8", newline="")
        return path

    return write


def test_words_and_vectors_come_in_the_order_of_the_file(file):
    words, vectors = read_word_vectors(file("the 0.5 -1\ncat 2 3e-1\n"))
    assert words == ["the", "cat"]
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, np.array([[0.5, -1], [2, 0.3]], np.float32))


def test_only_wanted_words_are_kept_and_of_two_the_first(file):
    words, vectors = read_word_vectors(file("the 1 2\ncat 3 4\nthe 5 6\ndog 7 8\n"), {"dog", "the", "cow"})
    assert words == ["the", "dog"]
    np.testing.assert_array_equal(vectors, [[1, 2], [7, 8]])
    words, vectors = read_word_vectors(file("the 1 2\n"), [])
    assert (words, vectors.shape) == ([], (0, 2))


def test_the_line_of_counts_that_word2vec_and_fasttext_write_is_passed_over(file):
    words, vectors = read_word_vectors(file("2 3\n</s> 0 0 0 \nthe 1 2 3 \n"))
    assert words == ["</s>", "the"]
    np.testing.assert_array_equal(vectors[1], [1, 2, 3])
    with pytest.raises(InputError, match=r"line 2: requires a word and 4 numbers"):
        read_word_vectors(file("2 4\nthe 1 2 3\n"))


def test_a_packed_file_is_read(tmp_path):
    path = tmp_path / "vectors.txt.gz"
    path.write_bytes(gzip.compress(b"the 1 2\n"))
    assert read_word_vectors(path)[0] == ["the"]


@pytest.mark.parametrize("word", ["8\u00a01/2", "a\u2028b", "\u0085", ". . .", "to name@domain.com", "1"])
def test_a_word_may_hold_other_spaces(file, word):
    words, vectors = read_word_vectors(file(f"the 1 2 3\n{word} 4 5 6\n"))
    assert words == ["the", word]
    np.testing.assert_array_equal(vectors[1], [4, 5, 6])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("the 1 2\ncat 1\n", "line 2: requires a word and 2 numbers, .* 'cat' is followed by 1"),
        ("the 1 2\ncat\n", "line 2: requires a word and 2 numbers, .* 'cat' is followed by 0"),
        ("the 1 2\n\n", "line 2: requires a word and 2 numbers"),
        ("the 1 2\n 3 4\n", "line 2: requires a word and 2 numbers"),
        ("the\n", "line 1: requires a word and its numbers"),
        ("the 1 2\ncat 1 2 3\n", "line 2: requires 2 numbers after the word, .* 'cat' is followed by 3"),
        ("the 1 2\ncat 1 two\n", "line 2: 'two' is not a number"),
        ("the 1  2\n", "line 1: '' is not a number"),
        ("the 1 2\ncat nan 2\n", "line 2: a number is not finite"),
        ("the 1 2\ncat 1 1e39\n", "line 2: a number is not finite"),
        ("", "contains no vectors"),
        ("10 2\n", "contains no vectors"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(file, content, told):
    with pytest.raises(InputError, match=rf"vectors\.txt(, |: ){told}"):
        read_word_vectors(file(content))


def test_the_real_glove_file_is_read(shared):
    words, vectors = read_word_vectors(shared / "data" / "tasks" / "vectors" / "glove.6B.100d.cut.txt.xz")
    # The counts are those of the README there, the values those that `xzcat` shows in the first line.
    assert vectors.shape == (len(words), 100) == (59_588, 100)
    assert words[0] == "the"
    np.testing.assert_allclose(vectors[0, [0, 1, -1]], [-0.0382, -0.2449, 0.2706], rtol=1e-6)
    assert {"``", "n't", "u.s."} <= set(words)
