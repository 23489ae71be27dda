from pathlib import Path

import numpy as np

from elmore.embedding import columns
from elmore.embedding.columns import Column


def test_opening_cuts_off_what_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(np.arange(5, dtype="<i8").tobytes() + b"half a row")
    column = Column(path, "<i8")
    column.open(rows=3)
    column.write(np.array([7], dtype="<i8").tobytes())
    column.sync()
    assert column.span(0, 4).tolist() == [0, 1, 2, 7]
    column.close()
    assert path.stat().st_size == 4 * 8


def test_holding_is_counted_in_whole_rows(tmp_path: Path) -> None:
    column = Column(tmp_path / "vectors", "<f4", row=(2, 3))
    assert not column.holds(0)
    column.path.write_bytes(bytes(2 * 24 - 1))
    assert column.holds(1)
    assert not column.holds(2)


def test_blocks_are_all_rows_in_order(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(columns, "BLOCK_BYTES", 100)
    rows = np.arange(60, dtype="<f4").reshape(-1, 6)
    column = Column(tmp_path / "vectors", "<f4", row=(6,))
    column.open(rows=0)
    column.write(rows.tobytes())
    column.flush()
    blocks = list(column.blocks(10))
    assert [len(block) for block in blocks] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate(blocks), rows)
    column.close()
