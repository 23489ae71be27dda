"""The network in plain NumPy: the specification of every engine, and the engine where the C++ library is missing.

    word vector   characters -> table -> convolutions -> maximum over positions -> activation -> highways -> projection
    highway       x = g * relu(transform(x)) + (1 - g) * x, with g = σ(gate(x))

    i, j, f, o = split(x @ input + h @ recurrent + bias)
    c = clip(σ(f) * c + σ(i) * tanh(j))
    h = clip((σ(o) * tanh(c)) @ projection)

The clipped c and h are both the state and the output. Without a projection h = σ(o) * tanh(c), unclipped. From the
second layer on, a skip connection adds the input of a layer to its output, but not to the h of its next step.

Peters et al. 2018, "Deep contextualized word representations".
Kim et al. 2015, "Character-Aware Neural Language Models".

W words, M characters, C character size, F filters, G directions, T steps, R rows, P vector size, D cells.
"""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from elmore.engine.cpu_engine import CpuEngine, HiddenState
from elmore.engine.rows import RowSteps
from elmore.engine.weights import (
    CharacterWeights,
    Clips,
    Linear,
    LstmWeights,
    as_float,
    lstm_weights,
    word_weights,
)
from elmore.formats.checkpoint import Checkpoint
from elmore.text.word_ids import WordIds

Array = NDArray[np.float32]

# Input products of this many steps are computed in one matrix product.
STEPS_AT_ONCE = 16
# Convolutions unfold the characters of this many words at a time.
WORDS_AT_ONCE = 128


class NumpyEngine(CpuEngine):
    """float32 by NumPy. The same call gives the same bits; another batch differs by rounding, at most about 1e-5."""

    name = "numpy"

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint.config, "float32")
        self._words = word_weights(checkpoint)
        if self._words.table is not None:
            self._words = self._words._replace(table=as_float(self._words.table))
        self._lstm = [_float_weights(lstm_weights(checkpoint, number)) for number in range(self.config.lstm_layers)]

    def _encode_words(self, ids: WordIds) -> Array:
        features = []
        if ids.word_ids is not None and self._words.table is not None:
            features.append(as_float(self._words.table)[ids.word_ids])
        if ids.character_ids is not None and self._words.characters is not None:
            features.append(_encode_characters(ids.character_ids, self._words.characters))
        x = np.concatenate(features, axis=1)
        return x if self._words.projection is None else _apply(self._words.projection, x)

    def _run_layer(self, number: int, x: Array, steps: RowSteps, state: HiddenState) -> tuple[Array, HiddenState]:
        runs = [self._run_direction(number, direction, x[direction], steps, state) for direction in range(len(x))]
        outputs, hs, cs = zip(*runs, strict=True)
        return np.stack(outputs), HiddenState(np.stack(hs), np.stack(cs))

    def _run_direction(
        self, number: int, direction: int, x: Array, steps: RowSteps, state: HiddenState
    ) -> tuple[Array, Array, Array]:
        """One direction of one layer: outputs (T, R, P), last h (R, P), last c (R, D)."""
        layer = _direction_of(self._lstm[number], direction)
        num_steps, num_rows, _ = x.shape
        start_h, start_c = state.h[direction], state.c[direction]
        h, c = (
            np.repeat(part, num_rows, axis=0) if len(part) != num_rows else part.copy() for part in (start_h, start_c)
        )
        outputs = np.zeros((num_steps, num_rows, h.shape[1]), dtype=np.float32)
        for first in range(0, num_steps, STEPS_AT_ONCE):
            chunk = x[first : first + STEPS_AT_ONCE]
            # Rows are sorted by length, so finished rows are the last.
            active = int(np.count_nonzero(steps.lengths > first))
            products = chunk[:, :active] @ layer.input + layer.bias
            for step, product in enumerate(products, start=first):
                n = int(np.count_nonzero(steps.lengths > step))
                if steps.starts is not None:
                    starting = np.flatnonzero(steps.starts[direction, step, :n])
                    h[starting], c[starting] = start_h, start_c
                h[:n], c[:n] = _lstm_step(product[:n], h[:n], c[:n], layer)
                outputs[step, :n] = h[:n]
        return outputs, h, c


class _Direction(NamedTuple):
    """One direction of `LstmWeights`, as float32 arrays."""

    input: Array  # (P, 4D)
    recurrent: Array  # (P, 4D)
    bias: Array  # (4D,)
    projection: Array | None  # (D, P)
    clips: Clips


def _lstm_step(product: Array, h: Array, c: Array, layer: _Direction) -> tuple[Array, Array]:
    """The next h and c from x @ input + bias (R, 4D)."""
    i, j, f, o = np.split(product + h @ layer.recurrent, 4, axis=1)
    c = _clip(_sigmoid(f) * c + _sigmoid(i) * np.tanh(j), layer.clips.cell)
    m = _sigmoid(o) * np.tanh(c)
    if layer.projection is None:
        return m, c
    return _clip(m @ layer.projection, layer.clips.projection), c


def _encode_characters(ids: NDArray[np.int64], weights: CharacterWeights) -> Array:  # (W, M) -> (W, F)
    x = np.concatenate([_convolve(group, weights) for group in _groups(ids)]) if len(ids) else _convolve(ids, weights)
    x = np.tanh(x) if weights.tanh else np.maximum(x, 0)
    for transform, gate in weights.highways:
        g = _sigmoid(_apply(gate, x))
        x = g * np.maximum(_apply(transform, x), 0) + (1 - g) * x
    return np.asarray(x)


def _convolve(ids: NDArray[np.int64], weights: CharacterWeights) -> Array:  # (W, M) -> (W, F)
    """The largest response of each filter over each word. Padding characters count: they did in training."""
    embedded = weights.table[ids]  # (W, M, C)
    responses = []
    for weight, bias in weights.filters:
        filters, size, width = weight.shape
        windows = sliding_window_view(embedded, width, axis=1)  # (W, positions, C, width)
        products = windows.reshape(*windows.shape[:2], size * width) @ weight.reshape(filters, -1).T
        responses.append(products.max(axis=1) + bias)
    return np.concatenate(responses, axis=1)


def _groups(ids: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [ids[first : first + WORDS_AT_ONCE] for first in range(0, len(ids), WORDS_AT_ONCE)]


def _apply(layer: Linear, x: Array) -> Array:
    return np.asarray(x @ as_float(layer.weight).T + layer.bias)


def _clip(x: Array, bound: float | None) -> Array:
    return x if bound is None else np.clip(x, -np.float32(bound), np.float32(bound))


def _sigmoid(x: Array) -> Array:
    # In this form nothing overflows.
    return np.asarray(0.5 * np.tanh(0.5 * x) + 0.5)


def _float_weights(weights: LstmWeights) -> LstmWeights:
    projection = None if weights.projection is None else as_float(weights.projection)
    return weights._replace(input=as_float(weights.input), recurrent=as_float(weights.recurrent), projection=projection)


def _direction_of(weights: LstmWeights, direction: int) -> _Direction:
    projection = None if weights.projection is None else as_float(weights.projection)[direction]
    return _Direction(
        as_float(weights.input)[direction],
        as_float(weights.recurrent)[direction],
        weights.bias[direction],
        projection,
        weights.clips,
    )
