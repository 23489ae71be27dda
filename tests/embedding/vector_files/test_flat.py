from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.embedding.vector_files import flat as columns
from elmore.embedding.vector_files.flat import Column, pack_strings, slice_strings
from elmore.errors import FormatError

any_text = st.text(st.characters(codec=None, exclude_categories=()))


def test_column_open_cuts_off_rows_that_are_not_valid(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(np.arange(5, dtype="<i8").tobytes() + b"half a row")
    column = Column(path, "<i8")
    column.open(rows=3)
    column.write(np.array([7]))
    column.sync()
    assert column.rows == 4
    assert column.read(0, 4).tolist() == [0, 1, 2, 7]
    assert column[1:].tolist() == [1, 2, 7]
    column.close()
    assert path.stat().st_size == 4 * 8


def test_column_counts_whole_rows_of_a_file(tmp_path: Path) -> None:
    column = Column(tmp_path / "vectors", "<f4", row=(2, 3), offset=10)
    assert not column.has_rows(0)
    column.path.write_bytes(bytes(10 + 2 * 24 - 1))
    assert column.has_rows(1)
    assert not column.has_rows(2)


def test_column_begins_behind_its_offset(tmp_path: Path) -> None:
    column = Column(tmp_path / "vectors", "<f4", row=(2,), offset=10)
    column.open(rows=0)
    column.write(np.ones((3, 2)))  # float64
    column.close()
    assert column.path.read_bytes() == bytes(10) + np.ones(6, "<f4").tobytes()


def test_column_blocks_are_all_rows_in_order(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(columns, "BLOCK_BYTES", 100)
    rows = np.arange(60, dtype="<f4").reshape(-1, 6)
    column = Column(tmp_path / "vectors", "<f4", row=(6,))
    column.open(rows=0)
    column.write(rows)
    blocks = list(column.blocks())
    assert [len(block) for block in blocks] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate(blocks), rows)
    column.close()


def packed(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    data, sizes = pack_strings(texts)
    return data, np.cumsum([0, *sizes])


@given(st.lists(any_text), st.data())
def test_slice_strings_returns_what_was_packed(texts: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(texts)))
    stop = data.draw(st.integers(start, len(texts)))
    assert slice_strings(*packed(texts), start, stop) == texts[start:stop]


def test_pack_strings_stores_surrogates_nul_and_slashes() -> None:
    texts = ["\ud800", "\udc00\ud800", "a\0b", "\0", "/", ""]
    assert slice_strings(*packed(texts), 0, len(texts)) == texts


@pytest.mark.parametrize("offsets", [[0, 5, 3], [-1, 1, 3], [0, 1], [0, 1, 99], [0, 1, 3]])
def test_slice_strings_rejects_damaged_offsets_and_bytes(offsets: list[int]) -> None:
    data = np.frombuffer(b"\xff\xff\xff", np.uint8)
    with pytest.raises(FormatError):
        slice_strings(data, np.array(offsets), 0, 2)


def test_slice_strings_rejects_a_slice_that_runs_backwards() -> None:
    with pytest.raises(FormatError):
        slice_strings(*packed(["a", "b"]), 2, 1)
