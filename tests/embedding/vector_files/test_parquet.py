import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elmore.embedding.spool import Spool
from elmore.embedding.vector_files import VectorType, parquet, writer_for
from elmore.embedding.vectors import open_vectors
from elmore.errors import FormatError, InputWarning, MissingExtra
from embedded_sentences import embedded

SENTENCES = [[], ["and", "/", "or"], [], ["same"], ["same"], []]


def test_parquet_has_a_row_for_each_word(write, vectors_of, tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "vectors.parquet", SENTENCES))
    assert table.column_names == ["sentence", "position", "token", "label", "vector"]
    assert [str(field.type) for field in table.schema][:4] == ["int64", "int32", "string", "string"]
    assert table.schema.field("vector").type == pa.list_(pa.field("element", pa.float32(), nullable=False), 4)
    assert table["sentence"].to_pylist() == [1, 1, 1, 3, 4]
    assert table["position"].to_pylist() == [0, 1, 2, 0, 0]
    assert table["token"].to_pylist() == ["and", "/", "or", "same", "same"]
    assert table["label"].to_pylist() == [None] * 5
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist()[:3], "f4"), vectors_of(1, 3, None))


def test_parquet_has_a_column_for_each_layer(write, vectors_of, tmp_path: Path) -> None:
    labels = ["", "x", "without words", "", "y", ""]
    path = write(tmp_path / "vectors.parquet", SENTENCES, layers=2, dtype="float16", labels=labels)
    table = pq.read_table(path)
    assert table.column_names == ["sentence", "position", "token", "label", "layer_0", "layer_1"]
    assert table.schema.field("layer_1").type.value_type == pa.float16()
    assert table["label"].to_pylist() == ["x", "x", "x", None, "y"]
    expected = vectors_of(1, 3, 2).astype("f2")
    np.testing.assert_array_equal(np.array(table["layer_1"].to_pylist()[:3], "f2"), expected[1])


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_parquet_row_groups_end_where_sentences_end(tmp_path: Path, monkeypatch, at_once: int) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 5 * 16)  # five words of four numbers
    path = tmp_path / "vectors.parquet"
    lengths = [2, 3, 1, 0, 9, 4, 1, 1]
    sentences = [[f"{i}-{j}" for j in range(length)] for i, length in enumerate(lengths)]
    with Spool(tmp_path / "s", {}, writer_for(path), VectorType(4)) as spool:
        for first in range(0, 8, at_once):
            some = sentences[first : first + at_once]
            spool.append(embedded(some, numbers=range(first, first + len(some))))
        spool.finish(path)
    with pq.ParquetFile(path) as file:
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        assert [group.num_rows for group in groups] == [5, 1, 9, 5, 1]
        assert [group.column(0).statistics.min for group in groups] == [0, 2, 4, 5, 7]
    with open_vectors(path) as vectors:
        assert [vectors.tokens(i) for i in (7, 0, 4, 3, 5, 6, 1, 2)] == [sentences[i] for i in (7, 0, 4, 3, 5, 6, 1, 2)]


def test_parquet_footer_has_offsets_within_the_whole_file(write, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 2 * 16)
    path = write(tmp_path / "vectors.parquet", [["a", "b"]] * 300)  # so that offsets need more bytes than before
    end = 4
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            for number in range(file.metadata.num_columns):
                column = file.metadata.row_group(group).column(number)
                start = column.dictionary_page_offset or column.data_page_offset
                assert start == end
                end = start + column.total_compressed_size
        assert end + file.metadata.serialized_size + 8 == path.stat().st_size
        assert file.metadata.num_rows == 600


def test_parquet_reads_one_sentence_without_the_others(write, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 2 * 16)
    path = write(tmp_path / "vectors.parquet", [["a", "b"]] * 20)
    read: list[int] = []
    original = pq.ParquetFile.read_row_group

    def watched(self: pq.ParquetFile, group: int, **options: object) -> pa.Table:
        read.append(group)
        return original(self, group, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", watched)
    with open_vectors(path) as vectors:
        assert read == []
        assert (vectors[13].shape, vectors[13].shape, vectors[2].shape) == ((2, 4), (2, 4), (2, 4))
        assert read == [13, 2]


@pytest.mark.parametrize(
    ("numbers", "runs"),
    [
        (range(2, 2 + 8 * 600, 8), [[2, 8, 600]]),
        ([], []),
        ([5], [[5, 1, 1]]),
        ([0, 1, 2, 10, 20, 21], [[0, 1, 3], [10, 10, 2], [21, 1, 1]]),
    ],
)
def test_parquet_footer_has_the_numbers_as_runs(write, tmp_path: Path, numbers, runs) -> None:
    path = write(tmp_path / "vectors.parquet", [["a"] * (number % 2) for number in numbers], numbers=numbers)
    assert json.loads(pq.read_metadata(path).metadata[b"elmore"])["numbers"] == runs
    with open_vectors(path) as vectors:
        assert vectors.numbers.tolist() == list(numbers)
        assert "numbers" not in vectors.meta


def test_parquet_replaces_lone_surrogates_with_a_warning(write, tmp_path: Path) -> None:
    with pytest.warns(InputWarning, match="lone surrogates, which Parquet cannot store"):
        path = write(tmp_path / "vectors.parquet", [["ok", "a\ud800b", "nu\0l"]])
    with open_vectors(path) as vectors:
        assert vectors.tokens(0) == ["ok", "a\ufffdb", "nu\0l"]


def test_parquet_of_another_program_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"sentence": [1, 2]}), path)
    with pytest.raises(FormatError, match=r"foreign.parquet: not written by elmore"):
        open_vectors(path)


def test_parquet_writer_without_pyarrow_is_rejected_at_once(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "elmore.embedding.vector_files.parquet")
    monkeypatch.delattr("elmore.embedding.vector_files.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"requires pyarrow. Install it with: pip install 'elmore\[parquet\]'"):
        writer_for("vectors.parquet")
