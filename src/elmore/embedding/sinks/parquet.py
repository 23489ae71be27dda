"""Parquet: a row for each word.

    sentence   int64     the number of its sentence in the input
    position   int32     its place in the sentence, from 0
    token      string
    label      string    of its sentence; null where it has none; no such column where no sentence has one
    vector     float32 or float16 list of dim; with several layers instead layer_0, layer_1, ...

Row groups end where sentences end, and the least and greatest sentence of each stand in the file's footer, so that one
sentence is found without reading the others. There, too, is a JSON object under the key `elmore`: dim, layers, dtype,
the job that made the file, and the numbers of all sentences, those without words among them. Strings in Parquet must be
UTF-8, so a lone surrogate in a word becomes U+FFFD, with a warning.
"""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.sinks.meta import meta_of, parse_meta
from elmore.embedding.spool import EmbeddedSentence, Spool
from elmore.errors import FormatError, InputWarning, MissingExtra

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    raise MissingExtra("Parquet", library="pyarrow", extra="parquet") from None

KEY = "elmore"
ROW_GROUP_BYTES = 2**23


def write(spool: Spool, path: Path) -> None:
    """Write all sentences of a spool to a file, whole or not at all."""
    schema = _schema(spool)
    small = [name for name in schema.names if name not in _vector_columns(spool.row)]
    numbers = _Runs()
    labels_without_words: list[tuple[int, str]] = []
    with (
        spool.finishing(path) as unfinished,
        # Vectors neither repeat nor compress.
        pq.ParquetWriter(
            unfinished,
            schema,
            compression=dict.fromkeys(small, "snappy"),
            use_dictionary=small,
            write_statistics=["sentence"],
        ) as writer,
    ):
        for sentences in _row_groups(spool):
            table = _table(sentences, schema)
            if table.num_rows:
                writer.write_table(table, row_group_size=table.num_rows)
            for sentence in sentences:
                numbers.add(sentence.number)
                if sentence.label and not sentence.words:
                    labels_without_words.append((sentence.number, sentence.label))
        meta = meta_of(spool, numbers=numbers.runs, labels_without_words=labels_without_words)
        writer.add_key_value_metadata({KEY: meta})


def read(path: Path) -> "ParquetFile":
    """Open a file of this layout."""
    file = pq.ParquetFile(path)
    try:
        return ParquetFile(file)
    except BaseException:
        file.close()
        raise


class ParquetFile:
    """A file of this layout, open for reading. The row groups read last are kept, for whoever asks in order."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        footer = file.metadata
        if KEY.encode() not in (footer.metadata or {}):
            raise FormatError("not written by elmore, or rewritten by a program that drops its description")
        self.meta = parse_meta(footer.metadata[KEY.encode()])
        self.numbers = _expanded(self.meta.pop("numbers"), total=self.meta["sentences"])
        self._labels_without_words: dict[int, str | None] = dict(self.meta.pop("labels_without_words"))
        if footer.num_rows != self.meta["words"]:
            raise FormatError(f"it does not have the {self.meta['words']} words that it says it has")
        self._firsts = np.array(
            [footer.row_group(group).column(0).statistics.min for group in range(footer.num_row_groups)], dtype=np.int64
        )
        layers, dim = self.meta["layers"], self.meta["dim"]
        self._vector_columns = _vector_columns((dim,) if layers is None else (layers, dim))
        self._last_read: dict[tuple[str, ...], tuple[int, pa.Table, NDArray[np.int64]]] = {}
        self._lock = Lock()

    def vectors(self, i: int) -> NDArray[np.floating]:
        rows = self._rows(i, self._vector_columns)
        layers = [_numbers_of(rows[name]).reshape(-1, self.meta["dim"]) for name in self._vector_columns]
        return layers[0].copy() if self.meta["layers"] is None else np.stack(layers)

    def words(self, i: int) -> list[str]:
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


def _schema(spool: Spool) -> pa.Schema:
    number = pa.from_numpy_dtype(spool.dtype)
    vector = pa.list_(pa.field("element", number, nullable=False), spool.row[-1])
    fields = [
        pa.field("sentence", pa.int64(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("token", pa.string(), nullable=False),
    ]
    if spool.totals.label_bytes:
        fields.append(pa.field("label", pa.string()))
    return pa.schema(fields + [pa.field(name, vector, nullable=False) for name in _vector_columns(spool.row)])


def _row_groups(spool: Spool) -> Iterator[list[EmbeddedSentence]]:
    """Sentences in groups of bounded size; a sentence that is larger stands alone."""
    most = max(ROW_GROUP_BYTES // spool.columns["vectors"].row_bytes, 1)
    group: list[EmbeddedSentence] = []
    words = 0
    for sentence in spool:
        if group and (words + len(sentence.words) > most or len(group) == most):
            yield group
            group, words = [], 0
        group.append(sentence)
        words += len(sentence.words)
    if group:
        yield group


def _table(sentences: list[EmbeddedSentence], schema: pa.Schema) -> pa.Table:
    lengths = [len(sentence.words) for sentence in sentences]
    numbers = np.array([sentence.number for sentence in sentences], dtype=np.int64)
    vectors = np.concatenate([sentence.vectors for sentence in sentences], axis=-2)
    layers = iter(vectors[None] if vectors.ndim == 2 else vectors)
    arrays = []
    for field in schema:
        match field.name:
            case "sentence":
                array = pa.array(np.repeat(numbers, lengths))
            case "position":
                array = pa.array(np.concatenate([np.arange(length, dtype=np.int32) for length in lengths]))
            case "token":
                array = _strings([word for sentence in sentences for word in sentence.words])
            case "label":
                array = _strings([sentence.label for sentence in sentences for _ in sentence.words])
            case _:
                array = pa.FixedSizeListArray.from_arrays(pa.array(next(layers).reshape(-1)), type=field.type)
        arrays.append(array)
    return pa.table(arrays, schema=schema)


def _strings(texts: list[str] | list[str | None]) -> pa.Array:
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        warnings.warn(
            "some words hold lone surrogates, which Parquet cannot keep; they become U+FFFD (HDF5 and NumPy keep them)",
            InputWarning,
            stacklevel=2,
        )
        return pa.array([text and re.sub("[\ud800-\udfff]", "\ufffd", text) for text in texts], pa.string())


def _numbers_of(vectors: pa.ChunkedArray) -> NDArray[np.floating]:
    numbers: NDArray[np.floating] = vectors.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return numbers


class _Runs:
    """Rising numbers as runs of equal steps, [first, step, count]: those of a whole input, or of a shard, are one run.

    >>> runs = _Runs()
    >>> for number in (2, 10, 18, 19):
    ...     runs.add(number)
    >>> runs.runs
    [[2, 8, 3], [19, 1, 1]]
    """

    def __init__(self) -> None:
        self.runs: list[list[int]] = []

    def add(self, number: int) -> None:
        if self.runs:
            first, step, count = self.runs[-1]
            if count == 1:
                step = number - first
            if number == first + step * count:
                self.runs[-1] = [first, step, count + 1]
                return
        self.runs.append([number, 1, 1])


def _expanded(runs: list[list[int]], *, total: int) -> NDArray[np.int64]:
    if sum(count for _, _, count in runs) != total:
        raise FormatError(f"it does not have the {total} sentences that it says it has")
    spans = [first + step * np.arange(count, dtype=np.int64) for first, step, count in runs]
    return np.concatenate([np.empty(0, dtype=np.int64), *spans])
