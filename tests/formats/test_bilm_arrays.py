import gzip
from pathlib import Path

import pytest

from elmore.errors import CannotExpress, ElmoreError, FormatError
from elmore.formats.bilm_arrays import find_vocabulary
from elmore.formats.bilm_hdf5 import vocabulary_content
from elmore.formats.storage.container import folder
from elmore.text.vocabulary import Vocabulary


@pytest.mark.parametrize("name", ["vocab.txt", "vocab-2016-09-10.txt", "vocab_test.txt"])
def test_a_vocabulary_is_found_by_the_names_people_give_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes("<S>\n</S> \r\n!!!MAXTERMID\n<UNK>\nköpek\n".encode())
    assert find_vocabulary(folder(tmp_path), required=False) == Vocabulary(["<S>", "</S>", "<UNK>", "köpek"])


@pytest.mark.parametrize("name", ["vocab.txt.gz", "vocab.txt"])
def test_a_vocabulary_may_be_gzipped_whatever_its_name_says(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"<S>\n</S>\n"))
    assert find_vocabulary(folder(tmp_path), required=True) == Vocabulary(["<S>", "</S>"])


def test_vocab_txt_itself_is_preferred(tmp_path: Path) -> None:
    for name in ("vocab.txt", "vocab_old.txt"):
        (tmp_path / name).write_text(f"{name}\n")
    assert find_vocabulary(folder(tmp_path), required=True) == Vocabulary(["vocab.txt"])


def test_where_it_is_not_needed_it_may_be_absent_or_in_doubt(tmp_path: Path) -> None:
    assert find_vocabulary(folder(tmp_path), required=False) is None
    assert find_vocabulary(folder(tmp_path), required=True) is None  # an error of Checkpoint.check
    for name in ("vocab_a.txt", "vocab_b.txt"):
        (tmp_path / name).write_text("<S>\n</S>\n")
    assert find_vocabulary(folder(tmp_path), required=False) is None
    with pytest.raises(
        FormatError, match=r"vocab_a\.txt, vocab_b\.txt could all be the file usually called vocab\.txt"
    ):
        find_vocabulary(folder(tmp_path), required=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\n\xff\n", "not UTF-8 at byte 2"),
        (b"\x1f\x8b\x08 junk", "damaged"),
        (b"\xef\xbb\xbfa\xff\n", "not UTF-8 at byte 4"),
        (gzip.compress(b"a\n" * 99)[:-9], "damaged"),
    ],
)
def test_a_damaged_vocabulary_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(ElmoreError, match=rf"^vocab\.txt: .*{message}"):
        find_vocabulary(folder(tmp_path), required=False)


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    words = Vocabulary(["<S>", "naïve", "", "twice", "twice", "in\u2028side", ""])
    (tmp_path / "vocab.txt").write_bytes(vocabulary_content(words))
    assert find_vocabulary(folder(tmp_path), required=True) == words


def test_a_first_word_that_looks_like_a_byte_order_mark_is_refused() -> None:
    with pytest.raises(CannotExpress, match=r"vocab\.txt cannot contain"):
        vocabulary_content(Vocabulary(["\ufeffa", "b"]))
    assert vocabulary_content(Vocabulary(["b", "\ufeffa"])) == "b\n\ufeffa\n".encode()


@pytest.mark.parametrize("word", [" blank", "tab\t", "two\nlines", "!!!MAXTERMID", "\u3000", "\ud800"])
def test_a_word_that_its_readers_would_change_is_refused(word: str) -> None:
    with pytest.raises(CannotExpress, match=r"vocab\.txt cannot contain"):
        vocabulary_content(Vocabulary(["<S>", word, "b"]))
