"""Parquet: a row for each word.

    sentence   int64     the number of its sentence in the input
    position   int32     its position in the sentence, from 0
    token      string
    label      string    of its sentence; null if it has none
    vector     float32 or float16 list of dim; with several layers instead layer_0, layer_1, ...

Row groups end at the end of a sentence, and the file's footer contains the least and greatest sentence of each, so that
one sentence is read without the others. The footer also contains a JSON object under the key `elmore`: dim, layers,
dtype, the job that made the file, and the numbers of all sentences, also of those without words. Strings in Parquet are
UTF-8, so a lone surrogate in a word becomes U+FFFD, with a warning.

pyarrow cannot append to an unfinished file. So each row group is written as a complete file in memory; its data go to
the file, its footer to a file of footers. At the end the footers are joined.
"""

import re
import struct
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.vector_files import EmbeddedSentences, VectorType, meta_json, parse_meta
from elmore.embedding.vector_files.flat import Column, slice_strings
from elmore.embedding.vector_files.parquet_footer import shift_offsets
from elmore.errors import FormatError, InputWarning, MissingExtra

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    raise MissingExtra("Parquet", library="pyarrow", extra="parquet") from None

KEY = "elmore"
ROW_GROUP_BYTES = 2**23
_MAGIC = b"PAR1"
_TAIL = struct.Struct("<I4s")  # of a file: the size of its footer, and the magic bytes again


class Writer:
    """Writes a file of this layout."""

    def __init__(self, path: Path, kind: VectorType, committed: Mapping[str, int]) -> None:
        self._kind = kind
        self._schema = _schema(kind)
        self._sentences = committed.get("sentences", 0)  # in the row groups that are written
        self._file = Column(path, "u1")
        self._footers = Column(path.with_name("row_groups"), "u1")  # the size of each, and itself
        sizes = {self._file: committed.get("bytes", 0), self._footers: committed.get("footer_bytes", 0)}
        if committed and not all(column.has_rows(size) for column, size in sizes.items()):
            raise FormatError("the file of vectors is incomplete")
        for column, size in sizes.items():
            column.open(size)
        if not committed:
            self._file.write(_as_array(_MAGIC))
        self._waiting = _RowGroup(kind)

    def append(self, batch: EmbeddedSentences) -> None:
        most = max(ROW_GROUP_BYTES // (self._kind.stored_dtype.itemsize * prod(self._kind.row)), 1)
        ends = np.cumsum([0, *map(len, batch.words)])
        first = 0
        while first < len(batch.words):
            room = most - self._waiting.words
            stop = int(np.searchsorted(ends, ends[first] + room, side="right")) - 1
            stop = min(stop, first + most - len(self._waiting.numbers))
            if stop <= first and not self._waiting.numbers:  # one sentence that is larger than a row group
                stop = first + 1
            if stop > first:
                self._waiting.add(batch, slice(first, stop), slice(int(ends[first]), int(ends[stop])))
                first = stop
            if first < len(batch.words):
                self._write_row_group()

    def sync(self) -> dict[str, int]:
        self._file.sync()
        self._footers.sync()
        return {"sentences": self._sentences, "bytes": self._file.rows, "footer_bytes": self._footers.rows}

    def finish(self, columns: Mapping[str, Column], about: Mapping[str, Any], /) -> None:
        self._write_row_group()
        meta = meta_json(about, numbers=_runs(columns["numbers"][:]), labels_without_words=_wordless_labels(columns))
        footer = pq.read_metadata(pa.BufferReader(_parquet_file(self._schema, meta=meta)))
        for row_group in self._written_footers():
            footer.append_row_groups(row_group)
        output = pa.BufferOutputStream()
        footer.write_metadata_file(output)
        self._file.write(_as_array(output.getvalue())[len(_MAGIC) :])
        self.close()

    def close(self) -> None:
        self._file.close()
        self._footers.close()

    def _write_row_group(self) -> None:
        group, self._waiting = self._waiting, _RowGroup(self._kind)
        if group.words:
            content = _as_array(_parquet_file(self._schema, group.table(self._schema)))
            size, _ = _TAIL.unpack(content[-_TAIL.size :].tobytes())
            end = len(content) - _TAIL.size - size
            footer = shift_offsets(content[end : end + size].tobytes(), self._file.rows - len(_MAGIC))
            self._file.write(content[len(_MAGIC) : end])
            self._footers.write(_as_array(struct.pack("<I", len(footer)) + footer))
        self._sentences += len(group.numbers)

    def _written_footers(self) -> Iterator[pq.FileMetaData]:
        position = 0
        while position < self._footers.rows:
            start = position + 4
            (size,) = struct.unpack("<I", self._footers[position:start].tobytes())
            position = start + size
            footer = self._footers[start:position].tobytes() + _TAIL.pack(size, _MAGIC)
            yield pq.read_metadata(pa.BufferReader(_MAGIC + footer))


class _RowGroup:
    """Sentences that are to become a row group."""

    def __init__(self, kind: VectorType) -> None:
        self._dtype = kind.stored_dtype
        self.words = 0
        self.numbers: list[int] = []
        self._labels: list[str | None] = []
        self._lengths: list[int] = []
        self._tokens: list[str] = []
        self._vectors: list[NDArray[Any]] = []

    def add(self, batch: EmbeddedSentences, sentences: slice, words: slice) -> None:
        """Add some sentences of a batch, which have these words."""
        self.words += words.stop - words.start
        self.numbers.extend(batch.numbers[sentences])
        self._labels.extend(label or None for label in batch.labels[sentences])
        self._lengths.extend(map(len, batch.words[sentences]))
        self._tokens.extend(chain.from_iterable(batch.words[sentences]))
        # A copy, because a view would keep the whole batch in memory.
        self._vectors.append(batch.vectors[..., words, :].astype(self._dtype))

    def table(self, schema: pa.Schema) -> pa.Table:
        """A row for each word."""
        lengths = np.array(self._lengths, dtype=np.int64)
        sentences = np.repeat(np.arange(len(lengths)), lengths)
        vectors = np.concatenate(self._vectors, axis=-2)
        layers = iter(vectors[None] if vectors.ndim == 2 else vectors)
        arrays = []
        for field in schema:
            match field.name:
                case "sentence":
                    array = pa.array(np.array(self.numbers, dtype=np.int64)[sentences])
                case "position":
                    starts = np.cumsum(lengths) - lengths
                    array = pa.array((np.arange(self.words) - starts[sentences]).astype(np.int32))
                case "token":
                    array = _strings(self._tokens)
                case "label":
                    array = _strings(self._labels).take(pa.array(sentences))
                case _:
                    array = pa.FixedSizeListArray.from_arrays(pa.array(next(layers).reshape(-1)), type=field.type)
            arrays.append(array)
        return pa.table(arrays, schema=schema)


def read(path: Path) -> "ParquetReader":
    """Open a file of this layout."""
    file = pq.ParquetFile(path)
    try:
        return ParquetReader(file)
    except BaseException:
        file.close()
        raise


class ParquetReader:
    """An open file of this layout. The row group read last is cached, for readers that go through the file in order."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        footer = file.metadata
        if KEY.encode() not in (footer.metadata or {}):
            raise FormatError("not written by elmore, or rewritten by a program that drops its description")
        self.meta = parse_meta(footer.metadata[KEY.encode()])
        self.numbers = _expanded(self.meta.pop("numbers"), total=self.meta["sentences"])
        self._labels_without_words: dict[int, str | None] = dict(self.meta.pop("labels_without_words"))
        if footer.num_rows != self.meta["words"]:
            raise FormatError(f"it has {footer.num_rows} words, and its description has {self.meta['words']}")
        self._firsts = np.array(
            [footer.row_group(group).column(0).statistics.min for group in range(footer.num_row_groups)], dtype=np.int64
        )
        layers, dim = self.meta["layers"], self.meta["dim"]
        self._vector_columns = _vector_columns((dim,) if layers is None else (layers, dim))
        self._last_read: dict[tuple[str, ...], tuple[int, pa.Table, NDArray[np.int64]]] = {}
        self._lock = Lock()

    def vectors(self, i: int) -> NDArray[np.floating]:
        rows = self._rows(i, self._vector_columns)
        layers = [_floats_of(rows[name]).reshape(-1, self.meta["dim"]) for name in self._vector_columns]
        return layers[0].copy() if self.meta["layers"] is None else np.stack(layers)

    def tokens(self, i: int) -> list[str]:
        words: list[str] = self._rows(i, ("token",))["token"].to_pylist()
        return words

    def labels(self) -> list[str | None]:
        labels = dict(self._labels_without_words)
        if "label" in self._file.schema_arrow.names:
            for group in range(len(self._firsts)):
                with self._lock:
                    table = self._file.read_row_group(group, columns=["sentence", "label"])
                numbers, first_rows = np.unique(table["sentence"].to_numpy(), return_index=True)
                labels.update(zip(numbers.tolist(), table["label"].take(first_rows).to_pylist(), strict=True))
        return [labels.get(number) for number in self.numbers.tolist()]

    def close(self) -> None:
        self._last_read.clear()
        self._file.close()

    def _rows(self, i: int, columns: tuple[str, ...]) -> pa.Table:
        """The rows of one sentence."""
        number = self.numbers[i]
        group = int(np.searchsorted(self._firsts, number, side="right")) - 1
        if group < 0:
            return self._file.schema_arrow.empty_table()
        with self._lock:
            if columns not in self._last_read or self._last_read[columns][0] != group:
                table = self._file.read_row_group(group, columns=["sentence", *columns])
                self._last_read[columns] = (group, table, table["sentence"].to_numpy())
            _, table, sentences = self._last_read[columns]
        start, stop = np.searchsorted(sentences, [number, number + 1])
        return table.slice(start, stop - start)


def _vector_columns(row: tuple[int, ...]) -> tuple[str, ...]:
    return ("vector",) if len(row) == 1 else tuple(f"layer_{layer}" for layer in range(row[0]))


def _schema(kind: VectorType) -> pa.Schema:
    number = pa.from_numpy_dtype(kind.stored_dtype)
    vector = pa.list_(pa.field("element", number, nullable=False), kind.row[-1])
    return pa.schema(
        [
            pa.field("sentence", pa.int64(), nullable=False),
            pa.field("position", pa.int32(), nullable=False),
            pa.field("token", pa.string(), nullable=False),
            pa.field("label", pa.string()),
            *(pa.field(name, vector, nullable=False) for name in _vector_columns(kind.row)),
        ]
    )


def _parquet_file(schema: pa.Schema, table: pa.Table | None = None, *, meta: bytes | None = None) -> pa.Buffer:
    """A file in memory, with one row group or none."""
    small = [name for name in schema.names if not pa.types.is_fixed_size_list(schema.field(name).type)]
    output = pa.BufferOutputStream()
    with pq.ParquetWriter(
        output,
        schema,
        # Vectors neither repeat nor compress.
        compression=dict.fromkeys(small, "snappy"),
        use_dictionary=small,
        write_statistics=["sentence"],
    ) as writer:
        if table is not None:
            writer.write_table(table, row_group_size=table.num_rows)
        if meta is not None:
            writer.add_key_value_metadata({KEY: meta})
    return output.getvalue()


def _as_array(data: Any) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def _strings(texts: Sequence[str | None]) -> pa.Array:
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        warnings.warn(
            "some words contain lone surrogates, which Parquet cannot store; they become U+FFFD (HDF5 and NumPy store "
            "them)",
            InputWarning,
            stacklevel=2,
        )
        return pa.array([text and re.sub("[\ud800-\udfff]", "\ufffd", text) for text in texts], pa.string())


def _floats_of(vectors: pa.ChunkedArray) -> NDArray[np.floating]:
    floats: NDArray[np.floating] = vectors.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return floats


def _runs(numbers: NDArray[np.int64]) -> list[list[int]]:
    """Rising numbers as runs of equal steps, [first, step, count]. A whole input is one run, and so is a shard.

    >>> _runs(np.array([2, 10, 18, 19]))
    [[2, 8, 3], [19, 1, 1]]
    """
    steps = np.diff(numbers)
    changes = np.append(np.flatnonzero(np.diff(steps)) + 1, len(steps))
    runs: list[list[int]] = []
    first = 0
    while first < len(steps):  # a run goes from the first number to the last one before another step
        last = int(changes[np.searchsorted(changes, first, side="right")])
        runs.append([int(numbers[first]), int(steps[first]), last - first + 1])
        first = last + 1
    return [*runs, *([int(number), 1, 1] for number in numbers[first:])]


def _wordless_labels(columns: Mapping[str, Column]) -> list[tuple[int, str]]:
    """The number and the label of each sentence that has a label and no words."""
    labels, label_offsets = columns["labels"], columns["label_offsets"]
    wordless = (np.diff(columns["offsets"][:]) == 0) & (np.diff(label_offsets[:]) > 0)
    return [
        (int(columns["numbers"][i : i + 1][0]), slice_strings(labels, label_offsets, i, i + 1)[0])
        for i in np.flatnonzero(wordless).tolist()
    ]


def _expanded(runs: list[list[int]], *, total: int) -> NDArray[np.int64]:
    if sum(count for _, _, count in runs) != total:
        raise FormatError(f"its description has {total} sentences, and its list of numbers has another count")
    spans = [first + step * np.arange(count, dtype=np.int64) for first, step, count in runs]
    return np.concatenate([np.empty(0, dtype=np.int64), *spans])
