import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elmore.embedding.sinks import parquet, sink_for
from elmore.embedding.vectors import open_vectors
from elmore.errors import FormatError, InputWarning, MissingExtra

SENTENCES = [[], ["and", "/", "or"], [], ["same"], ["same"], []]


def test_there_is_a_row_for_each_word(spooled, vectors_of, tmp_path: Path) -> None:
    path = tmp_path / "vectors.parquet"
    parquet.write(spooled(SENTENCES), path)
    table = pq.read_table(path)
    assert table.column_names == ["sentence", "position", "token", "vector"]
    assert [str(field.type) for field in table.schema][:3] == ["int64", "int32", "string"]
    assert table.schema.field("vector").type == pa.list_(pa.field("element", pa.float32(), nullable=False), 4)
    assert table["sentence"].to_pylist() == [1, 1, 1, 3, 4]
    assert table["position"].to_pylist() == [0, 1, 2, 0, 0]
    assert table["token"].to_pylist() == ["and", "/", "or", "same", "same"]
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist()[:3], "f4"), vectors_of(1, 3, None))


def test_each_layer_has_a_column(spooled, vectors_of, tmp_path: Path) -> None:
    path = tmp_path / "vectors.parquet"
    parquet.write(spooled(SENTENCES, layers=2, dtype="float16", labels=["", "x", "without words", "", "y", ""]), path)
    table = pq.read_table(path)
    assert table.column_names == ["sentence", "position", "token", "label", "layer_0", "layer_1"]
    assert table.schema.field("layer_1").type.value_type == pa.float16()
    assert table["label"].to_pylist() == ["x", "x", "x", None, "y"]
    expected = vectors_of(1, 3, 2).astype("f2")
    np.testing.assert_array_equal(np.array(table["layer_1"].to_pylist()[:3], "f2"), expected[1])


def test_row_groups_are_small_and_end_where_sentences_end(spooled, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 5 * 16)  # five words of four numbers
    path = tmp_path / "vectors.parquet"
    lengths = [2, 3, 1, 0, 9, 4, 1, 1]
    sentences = [[f"{i}-{j}" for j in range(length)] for i, length in enumerate(lengths)]
    parquet.write(spooled(sentences), path)
    with pq.ParquetFile(path) as file:
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        assert [group.num_rows for group in groups] == [5, 1, 9, 5, 1]
        assert [group.column(0).statistics.min for group in groups] == [0, 2, 4, 5, 7]
    with open_vectors(path) as vectors:
        assert [vectors.words(i) for i in (7, 0, 4, 3, 5, 6, 1, 2)] == [sentences[i] for i in (7, 0, 4, 3, 5, 6, 1, 2)]


def test_one_sentence_is_read_without_the_others(spooled, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 2 * 16)
    path = tmp_path / "vectors.parquet"
    parquet.write(spooled([["a", "b"]] * 20), path)
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


def test_the_footer_knows_the_numbers_of_all_sentences_in_few_words(spooled, tmp_path: Path) -> None:
    path = tmp_path / "vectors.parquet"
    parquet.write(spooled([["a"]] * 300 + [[]] * 300, numbers=range(2, 2 + 8 * 600, 8)), path)
    meta = json.loads(pq.read_metadata(path).metadata[b"elmore"])
    assert meta["numbers"] == [[2, 8, 600]]
    with open_vectors(path) as vectors:
        assert vectors.numbers.tolist() == list(range(2, 2 + 8 * 600, 8))
        assert "numbers" not in vectors.meta


def test_lone_surrogates_become_replacement_characters_with_a_word(spooled, tmp_path: Path) -> None:
    path = tmp_path / "vectors.parquet"
    with pytest.warns(InputWarning, match="lone surrogates, which Parquet cannot keep"):
        parquet.write(spooled([["ok", "a\ud800b", "nu\0l"]]), path)
    with open_vectors(path) as vectors:
        assert vectors.words(0) == ["ok", "a\ufffdb", "nu\0l"]


def test_another_programs_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"sentence": [1, 2]}), path)
    with pytest.raises(FormatError, match=r"foreign.parquet: not written by elmore"):
        open_vectors(path)


def test_without_pyarrow_the_sink_says_so_before_any_work(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "elmore.embedding.sinks.parquet")
    monkeypatch.delattr("elmore.embedding.sinks.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"needs pyarrow. Install it with: pip install 'elmore\[parquet\]'"):
        sink_for("vectors.parquet")
