"""The words that have a number."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError, NotFound
from elmore.text import vocabulary
from elmore.text.vocabulary import Vocabulary
from reference.strategies import patiently


def test_the_index_is_the_line() -> None:
    vocabulary = Vocabulary.decode(b"<S>\n</S>\n<UNK>\nthe\n")
    assert vocabulary.words == ("<S>", "</S>", "<UNK>", "the")
    assert vocabulary.index == {"<S>": 0, "</S>": 1, "<UNK>": 2, "the": 3}


def test_the_last_line_needs_no_line_break() -> None:
    assert Vocabulary.decode(b"a\nb") == Vocabulary.decode(b"a\nb\n")


def test_blanks_around_a_word_are_stripped() -> None:
    assert Vocabulary.decode(b" a\t\r\n b \r\n").words == ("a", "b")


def test_a_line_of_maxtermid_takes_no_number() -> None:
    assert Vocabulary.decode(b"!!!MAXTERMID\na\n!!!MAXTERMID \nb\n").index == {"a": 0, "b": 1}


def test_every_line_takes_a_number_and_the_last_wins() -> None:
    vocabulary = Vocabulary.decode(b"a\nb\na\nc\n")
    assert len(vocabulary) == 4
    assert vocabulary.index == {"a": 2, "b": 1, "c": 3}


def test_an_empty_line_is_a_word_too_so_that_lines_and_rows_agree() -> None:
    assert Vocabulary.decode(b"a\n\nb\n").index["b"] == 2


def test_only_a_line_feed_ends_a_line() -> None:
    assert Vocabulary.decode("a\u2028b\nc\x85d\n".encode()).words == ("a\u2028b", "c\x85d")


def test_no_text_is_no_words() -> None:
    assert len(Vocabulary.decode(b"")) == 0


def test_an_unknown_word_takes_the_number_of_its_stand_in() -> None:
    vocabulary = Vocabulary(["<S>", "<UNK>", "the"])
    assert vocabulary.word_id("the", unknown="<UNK>") == 2
    assert vocabulary.word_id("The", unknown="<UNK>") == 1
    assert "The" not in vocabulary


def test_without_a_stand_in_the_word_is_named() -> None:
    with pytest.raises(InputError, match="'zebra' is not in the vocabulary, and <UNK> is not in it"):
        Vocabulary(["a"]).word_id("zebra", unknown="<UNK>")


def test_the_number_zero_is_a_number() -> None:
    assert Vocabulary(["<UNK>", "a"]).word_id("zebra", unknown="<UNK>") == 0
    assert Vocabulary(["a", "<UNK>"]).word_id("a", unknown="<UNK>") == 0


def test_vocabularies_are_compared_by_their_words() -> None:
    assert Vocabulary(["a", "b"]) == Vocabulary(iter(["a", "b"]))
    assert Vocabulary(["a", "b"]) != Vocabulary(["b", "a"])
    with pytest.raises(TypeError):
        hash(Vocabulary(["a"]))


words = st.text(st.characters(exclude_characters="\n\r\ufeff", codec="utf-8"), min_size=1).filter(
    lambda word: word == word.strip() != "!!!MAXTERMID"
)


@patiently
@given(st.lists(words))
def test_what_is_written_line_by_line_is_read_back(some: list[str]) -> None:
    assert list(Vocabulary.decode("".join(f"{word}\n" for word in some).encode()).words) == some


def test_a_file_is_read_as_utf8(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes("<S>\nDéjà\n東京\n".encode())
    assert Vocabulary.read(path).words == ("<S>", "Déjà", "東京")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_read_accepts_gzip_and_a_byte_order_mark(tmp_path: Path, suffix: str) -> None:
    content = b"\xef\xbb\xbf<S>\nthe\n"
    path = tmp_path / f"vocab.txt{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    assert Vocabulary.read(path).words == ("<S>", "the")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xef\xbb\xbfa\n\xff", "not UTF-8 at byte 5"),
        (gzip.compress(b"a\n" * 99)[:-9], "damaged"),
        (b"\x1f\x8b junk", "not UTF-8 at byte 1"),
    ],
    ids=["another encoding", "gzip cut short", "no gzip"],
)
def test_read_names_a_damaged_file(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(InputError, match=rf"vocab\.txt: {message}"):
        Vocabulary.read(tmp_path / "vocab.txt")


def test_decode_rejects_what_unpacks_to_more_than_a_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "_MAX_BYTES", 1000)
    with pytest.raises(InputError, match="larger than any vocabulary"):
        Vocabulary.decode(gzip.compress(bytes(1001)))


def test_a_file_that_is_not_utf8_is_named_with_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"the\nD\xe9j\xe0\n")
    with pytest.raises(InputError, match=r"vocab\.txt: not UTF-8 at byte 5"):
        Vocabulary.read(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"missing\.txt: no such file"):
        Vocabulary.read(tmp_path / "missing.txt")
    with pytest.raises(InputError, match="is a folder; name a file"):
        Vocabulary.read(tmp_path)
