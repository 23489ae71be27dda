"""The network by the C++ kernels of this CPU.

A sentence has bit-identical vectors in every batch, with any number of threads: each output is summed in an order that
depends on this row only. There are few characters, so the response of a filter to each character is computed once, as a
table; a response of the character CNN is then a sum over the positions of the filter.

W words, M characters, C character size, F filters, G directions, T steps, R rows, P vector size.
"""

import math
from ctypes import POINTER, c_int64
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.defaults import ComputeName
from elmore.engine.cpu_engine import CpuEngine, HiddenState
from elmore.engine.native_library import (
    CELLS_PER_BLOCK,
    Dense,
    FilterTables,
    Lstm,
    LstmRun,
    Matrix,
    NativeLibrary,
    Precision,
    opened_native_library,
    why_unavailable,
)
from elmore.engine.packing import PackedMatrix, pack, pack_bias, pack_gates, pack_pair, pad_to_multiple
from elmore.engine.rows import RowSteps
from elmore.engine.weights import CharacterWeights, Linear, LstmWeights, as_float, lstm_weights, word_weights
from elmore.errors import InputError
from elmore.formats.arrays import Int8Array, StoredArray
from elmore.formats.checkpoint import Checkpoint
from elmore.text.word_ids import WordIds

Array = NDArray[np.float32]

PRECISIONS: dict[ComputeName, Precision] = {
    "float32": Precision.FLOAT32,
    "bfloat16": Precision.BFLOAT16,
    "int8": Precision.INT8,
}


class NativeEngine(CpuEngine):
    """float32, or products of bfloat16 or int8; sums and results are float32."""

    name = "native"

    def __init__(self, checkpoint: Checkpoint, compute: ComputeName = "float32") -> None:
        super().__init__(checkpoint.config, compute)
        precision = PRECISIONS[compute]
        for needed in (Precision.FLOAT32, precision):
            if reason := why_unavailable(needed):
                raise InputError(f"the native engine cannot compute in {needed.name.lower()} here: {reason}")
        self._library = opened_native_library()
        self._precision = precision
        self._words = _WordEncoder(checkpoint, precision, self._library)
        self._lstm = [
            pack_lstm(lstm_weights(checkpoint, number), precision, self._library.lanes(precision))
            for number in range(self.config.lstm_layers)
        ]

    def _encode_words(self, ids: WordIds) -> Array:
        return self._words.encode(ids)

    def _run_layer(self, number: int, x: Array, steps: RowSteps, state: HiddenState) -> tuple[Array, HiddenState]:
        h, c = (np.ascontiguousarray(part) for part in state)
        directions, num_steps, num_rows, size = x.shape
        outputs = np.empty_like(x)
        last_h = np.empty((directions, num_rows, size), dtype=np.float32)
        last_c = np.empty((directions, num_rows, c.shape[2]), dtype=np.float32)
        lengths = np.ascontiguousarray(steps.lengths)
        starts = None if steps.starts is None else np.ascontiguousarray(steps.starts)
        run = LstmRun(
            steps=num_steps,
            rows=num_rows,
            state_rows=h.shape[1],
            lengths=lengths.ctypes.data_as(POINTER(c_int64)),
            starts=None if starts is None else starts.ctypes.data,
            inputs=x.ctypes.data,
            h=h.ctypes.data,
            c=c.ctypes.data,
            outputs=outputs.ctypes.data,
            last_h=last_h.ctypes.data,
            last_c=last_c.ctypes.data,
        )
        self._library.run_lstm(self._precision, self._lstm[number].layer, run)
        return outputs, HiddenState(last_h, last_c)


class PackedLstm(NamedTuple):
    """A layer for the library, and the arrays that its pointers lead to."""

    layer: Lstm
    arrays: tuple[object, ...]


def pack_lstm(weights: LstmWeights, precision: Precision, lanes: int) -> PackedLstm:
    directions, vector_dim, gates = weights.input.shape
    inputs, recurrent = (pack_gates(part, precision, lanes) for part in (weights.input, weights.recurrent))
    projection = None if weights.projection is None else _pack_projection(weights.projection, precision, lanes)
    bias = pack_bias(weights.bias, lanes)
    layer = Lstm(
        directions=directions,
        vector_dim=vector_dim,
        cell_dim=gates // 4,
        input=inputs.pointers(),
        recurrent=recurrent.pointers(),
        projection=Matrix() if projection is None else projection.pointers(),
        bias=bias.ctypes.data,
        cell_clip=math.inf if weights.clips.cell is None else weights.clips.cell,
        projection_clip=math.inf if weights.clips.projection is None else weights.clips.projection,
    )
    return PackedLstm(layer, (inputs, recurrent, projection, bias))


def _pack_projection(projection: StoredArray, precision: Precision, lanes: int) -> PackedMatrix:
    # As many rows as the gates have cells, which are padded to whole vectors.
    if isinstance(projection, Int8Array):
        padded: StoredArray = projection._replace(values=pad_to_multiple(projection.values, 1, lanes))
    else:
        padded = pad_to_multiple(projection, 1, lanes)
    return pack(padded, precision, lanes, block=CELLS_PER_BLOCK)


class _WordEncoder:
    """Character CNN, highways and projection."""

    def __init__(self, checkpoint: Checkpoint, precision: Precision, library: NativeLibrary) -> None:
        weights = word_weights(checkpoint)
        lanes = library.lanes(precision)
        characters = weights.characters
        self._library, self._precision = library, precision
        self._table = None if weights.table is None else as_float(weights.table)
        self._filters = None if characters is None else _pack_filters(characters, library)
        highways = [] if characters is None else characters.highways
        self._highways = [_pack_highway(*highway, precision, lanes) for highway in highways]
        self._projection = None if weights.projection is None else _pack_dense(weights.projection, precision, lanes)

    def encode(self, ids: WordIds) -> Array:  # W words -> (W, P)
        features = []
        if self._table is not None:
            assert ids.word_ids is not None  # checked by the engine
            features.append(self._table[ids.word_ids])
        if self._filters is not None:
            assert ids.character_ids is not None
            features.append(self._character_features(ids.character_ids, self._filters))
        x = features[0] if len(features) == 1 else np.concatenate(features, axis=1)
        if self._projection is None:
            return np.ascontiguousarray(x)
        vectors = np.empty((len(x), self._projection.columns), dtype=np.float32)
        self._library.run_dense(self._precision, self._projection.layer, x, vectors)
        return vectors

    def _character_features(self, ids: NDArray[np.int64], filters: "_PackedFilters") -> Array:  # (W, M) -> (W, F)
        # Rows of whole vectors: a highway loads them whole.
        rows = np.zeros((len(ids), filters.columns + -filters.columns % 16), dtype=np.float32)
        self._library.pool_characters(filters.filters, np.ascontiguousarray(ids), rows)
        for highway in self._highways:
            after = np.zeros_like(rows)
            self._library.run_dense(self._precision, highway.layer, rows, after)
            rows = after
        return rows[:, : filters.columns]


class _PackedDense(NamedTuple):
    """A dense layer or a highway for the library, and the arrays that its pointers lead to."""

    layer: Dense
    columns: int
    arrays: tuple[object, ...]


class _PackedFilters(NamedTuple):
    """A character CNN for the library, and the arrays that its pointers lead to."""

    filters: FilterTables
    columns: int
    arrays: tuple[object, ...]


def _pack_dense(linear: Linear, precision: Precision, lanes: int) -> _PackedDense:
    matrix = pack(_as_stack(_transposed(linear.weight)), precision, lanes)
    return _as_dense(matrix, pad_to_multiple(linear.bias, 0, 4 * lanes), linear.weight.shape, highway=False)


def _pack_highway(transform: Linear, gate: Linear, precision: Precision, lanes: int) -> _PackedDense:
    matrix = pack_pair(_transposed(transform.weight), _transposed(gate.weight), precision, lanes)
    biases = [pad_to_multiple(one.bias, 0, 2 * lanes).reshape(-1, 2 * lanes) for one in (transform, gate)]
    return _as_dense(matrix, np.stack(biases, axis=1).ravel(), transform.weight.shape, highway=True)


def _as_dense(matrix: PackedMatrix, bias: Array, shape: tuple[int, ...], *, highway: bool) -> _PackedDense:
    columns, depth = shape
    layer = Dense(depth=depth, columns=columns, matrix=matrix.pointers(), bias=bias.ctypes.data, highway=int(highway))
    return _PackedDense(layer, columns, (matrix, bias))


def _transposed(weight: StoredArray) -> StoredArray:
    """(out, in) becomes (in, out)."""
    return Int8Array(weight.values.T, weight.scale.T) if isinstance(weight, Int8Array) else weight.T


def _as_stack(weight: StoredArray) -> StoredArray:
    """(K, N) becomes (1, K, N)."""
    return Int8Array(weight.values[None], weight.scale[None]) if isinstance(weight, Int8Array) else weight[None]


def _pack_filters(weights: CharacterWeights, library: NativeLibrary) -> _PackedFilters:
    width = 4 * library.lanes(Precision.FLOAT32)
    tables, biases = _response_tables(weights, width)
    groups = len(weights.filters)
    widths = (c_int64 * groups)(*(weight.shape[2] for weight, _ in weights.filters))
    counts = (c_int64 * groups)(*(len(weight) for weight, _ in weights.filters))
    filters = FilterTables(
        characters=len(weights.table),
        groups=groups,
        widths=widths,
        counts=counts,
        tables=tables.ctypes.data,
        bias=biases.ctypes.data,
        tanh=int(weights.tanh),
    )
    return _PackedFilters(filters, sum(counts), (tables, biases, widths, counts))


def _response_tables(weights: CharacterWeights, width: int) -> tuple[Array, Array]:
    """The response of each filter to each character at each position, in chunks of `width` filters; and the biases."""
    characters = weights.table.astype(np.float64)
    filters = [pad_to_multiple(weight, 0, width) for weight, _ in weights.filters]  # (n, C, w)
    # Filled chunk by chunk: the tables are large, and float64 doubles them.
    tables = np.empty(len(characters) * sum(len(weight) * weight.shape[2] for weight in filters), dtype=np.float32)
    end = 0
    for weight in filters:
        for first in range(0, len(weight), width):
            chunk = weight[first : first + width].transpose(2, 1, 0).astype(np.float64)  # (w, C, width)
            # The sum over C is in float64, so each entry is rounded once.
            responses = characters @ chunk  # (w, characters, width)
            start, end = end, end + responses.size
            tables[start:end] = responses.ravel()
    return tables, np.concatenate([pad_to_multiple(bias, 0, width) for _, bias in weights.filters])
