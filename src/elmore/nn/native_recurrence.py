"""An LSTM layer and its backward pass by the native CPU kernels, for training on a CPU in float32.

The forward pass runs the kernel of inference, and stores gates and cells if gradients are required. The backward pass
computes the gradients of a few steps at a time, and adds them to the weights' gradients while they are in the cache.
Gradients are summed in an order that depends only on the shape of a batch: they are bit-identical with any number of
threads. `native/lstm_backward.h` contains the code. Weights change between passes, so each pass packs them again.

G directions, T steps, B rows, P vector size, D cells, W float32 in a vector.
"""

import math
from collections.abc import Sequence
from ctypes import c_int64
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.engine.array_checks import check_lengths
from elmore.engine.native_engine import PackedLstm, pack_lstm
from elmore.engine.native_library import LstmRun, Precision, opened_native_library
from elmore.engine.packing import PackedMatrix, pack, pad_to_multiple
from elmore.engine.weights import Clips, LstmWeights
from elmore.errors import InputError
from elmore.nn.native_training import as_array, check_tensor
from elmore.nn.native_training_library import LstmGradients, opened_training_library, why_training_unavailable
from elmore.nn.recurrence import HiddenTensors, LstmKernel, LstmTensors


def native_lstm() -> LstmKernel:
    """The kernel; InputError if the library cannot be used here."""
    if reason := why_training_unavailable():
        raise InputError(f"the native kernels cannot run here: {reason}")
    return LstmKernel(prepare, run_lstm)


def prepare(weights: LstmTensors, dtype: torch.dtype) -> LstmTensors:  # noqa: ARG001  # chosen for float32
    """The weights unchanged: gradients flow to them, and each pass packs them."""
    return weights


def run_lstm(
    weights: LstmTensors,
    inputs: Tensor,  # (G, T, B, P)
    lengths: Sequence[int],
    state: HiddenTensors,
) -> tuple[Tensor, HiddenTensors]:
    """See `LstmKernel.run`."""
    _check(weights, inputs, lengths, state)
    outputs: Tensor
    outputs, last_h, last_c = _Layer.apply(  # type: ignore[no-untyped-call]
        _LayerOptions(weights.clips, lengths), inputs, *state, *weights[:4]
    )
    return outputs, (last_h, last_c)


def _check(weights: LstmTensors, inputs: Tensor, lengths: Sequence[int], state: HiddenTensors) -> None:
    """The library trusts shapes and types."""
    check_tensor("the LSTM's input weights", weights.input, (None, None, None))
    directions, vector_dim, gates = weights.input.shape
    check_tensor("the LSTM's recurrent weights", weights.recurrent, (directions, vector_dim, gates))
    check_tensor("the LSTM's bias", weights.bias, (directions, gates))
    if weights.projection is not None:
        check_tensor("the LSTM's projection", weights.projection, (directions, gates // 4, vector_dim))
    check_tensor("inputs", inputs, (directions, None, len(lengths), vector_dim))
    check_lengths("lengths", np.array(lengths, dtype=np.int64), inputs.shape[1])
    for name, part, size in (("state.h", state[0], vector_dim), ("state.c", state[1], gates // 4)):
        check_tensor(name, part, (directions, len(lengths), size))


class _LayerOptions(NamedTuple):
    """The arguments of a layer that are not tensors."""

    clips: Clips
    lengths: Sequence[int]


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        options: _LayerOptions,
        inputs: Tensor,
        h: Tensor,  # (G, B, P)
        c: Tensor,  # (G, B, D)
        *weights: Any,  # the tensors of `LstmTensors`
    ) -> tuple[Tensor, Tensor, Tensor]:
        input_weights, recurrent, bias, projection = weights
        arrays = LstmWeights(
            as_array(input_weights),
            as_array(recurrent),
            as_array(bias),
            None if projection is None else as_array(projection),
            options.clips,
        )
        layer = pack_lstm(arrays, Precision.FLOAT32, opened_training_library().lanes)
        inputs, h, c = (part.contiguous() for part in (inputs, h, c))
        saved = _gates_and_cells(inputs, c) if any(ctx.needs_input_grad) else ()
        outputs, after = _run(layer, inputs, options.lengths, (h, c), saved)
        if saved:
            ctx.save_for_backward(inputs, h, outputs, *saved, input_weights, recurrent, projection)
        ctx.options = options
        ctx.set_materialize_grads(False)
        return outputs, *after

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_outputs: Tensor | None, d_last_h: Tensor | None, d_last_c: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        inputs, h, outputs, gates, cells, input_weights, recurrent, projection = ctx.saved_tensors
        directions, steps, rows, vector_dim = inputs.shape
        cell_dim, lanes = input_weights.shape[2] // 4, gates.shape[-1] // 4
        back_input, back_recurrent = (_transposed_gates(part, lanes) for part in (input_weights, recurrent))
        back_projection = None
        if projection is not None:
            padded = pad_to_multiple(as_array(projection), 1, lanes)
            back_projection = pack(padded.transpose(0, 2, 1), Precision.FLOAT32, lanes)
        d_h = torch.zeros_like(h) if d_last_h is None else d_last_h.clone(memory_format=torch.contiguous_format)
        d_c = cells.new_zeros(directions, rows, cells.shape[-1])
        if d_last_c is not None:
            d_c[..., :cell_dim] = d_last_c
        d_outputs = None if d_outputs is None else d_outputs.contiguous()
        d_inputs = torch.empty_like(inputs) if ctx.needs_input_grad[1] else None
        gradients = _WeightGradients(cells, input_weights) if any(ctx.needs_input_grad[4:]) else None
        cell_clip, projection_clip = (math.inf if clip is None else clip for clip in ctx.options.clips)
        opened_training_library().run_lstm_backward(
            LstmGradients(
                directions,
                vector_dim,
                cell_dim,
                back_input.panels.ctypes.data,
                back_recurrent.panels.ctypes.data,
                None if back_projection is None else back_projection.panels.ctypes.data,
                cell_clip,
                projection_clip,
                steps,
                rows,
                (c_int64 * rows)(*ctx.options.lengths),
                *(_pointer(part) for part in (inputs, h, outputs, gates, cells, d_outputs, d_inputs, d_h, d_c)),
                *((None,) * 4 if gradients is None else (_pointer(part) for part in gradients.packed)),
            )
        )
        d_weights = (None,) * 4 if gradients is None else gradients.unpacked(projected=projection is not None)
        return None, d_inputs, d_h, d_c[..., :cell_dim], *d_weights


def _run(
    layer: PackedLstm, inputs: Tensor, lengths: Sequence[int], state: HiddenTensors, saved: Sequence[Tensor]
) -> tuple[Tensor, HiddenTensors]:
    """The outputs and the state after them; `saved`, gates and cells, is filled for the backward pass."""
    h, c = state
    outputs, last_h, last_c = torch.empty_like(inputs), torch.empty_like(h), torch.empty_like(c)
    _, steps, rows, _ = inputs.shape
    pointers = (part.data_ptr() for part in (inputs, h, c, outputs, last_h, last_c, *saved))
    run = LstmRun(steps, rows, rows, (c_int64 * rows)(*lengths), None, *pointers)
    opened_native_library().run_lstm(Precision.FLOAT32, layer.layer, run)
    return outputs, (last_h, last_c)


class _WeightGradients:
    """The gradients of a layer's weights, packed as the library fills them."""

    def __init__(self, cells: Tensor, weights: Tensor) -> None:
        directions, self._vector_dim, gates = weights.shape
        self._cell_dim, padded, lanes = gates // 4, cells.shape[-1], opened_training_library().lanes
        for_gates = (directions, padded // lanes, self._vector_dim, 4, lanes)
        for_projection = (directions, -(-padded // (4 * lanes)), self._vector_dim, 4, lanes)
        shapes = (for_gates, for_gates, (directions, padded // lanes, 4, lanes), for_projection)
        self.packed = [cells.new_zeros(shape) for shape in shapes]

    def unpacked(self, *, projected: bool) -> tuple[Tensor | None, ...]:
        """In the order of `LstmTensors`."""
        d_input, d_recurrent, d_bias, d_projection = self.packed
        d_columns = d_projection.transpose(1, 2).flatten(2)[..., : self._cell_dim]  # (G, P, D)
        return (
            self._unpacked_gates(d_input),
            self._unpacked_gates(d_recurrent),
            d_bias.transpose(1, 2).flatten(2)[..., : self._cell_dim].flatten(1),
            d_columns.contiguous().transpose(1, 2) if projected else None,
        )

    def _unpacked_gates(self, panels: Tensor) -> Tensor:  # (G, D / W, P, 4, W) -> (G, P, 4D)
        return panels.permute(0, 2, 3, 1, 4).flatten(3)[..., : self._cell_dim].flatten(2)


def _gates_and_cells(inputs: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    directions, steps, rows, _ = inputs.shape
    lanes = opened_training_library().lanes
    panels = -(-c.shape[-1] // lanes)
    gates = inputs.new_empty(directions, panels, steps, rows, 4 * lanes)
    return gates, inputs.new_empty(directions, steps + 1, rows, panels * lanes)


def _transposed_gates(weights: Tensor, lanes: int) -> PackedMatrix:
    """(G, P, 4D) as a matrix of 4D rows, in the order of the panels of gates, and P columns; packed."""
    directions, vector_dim, gates = weights.shape
    padded = pad_to_multiple(as_array(weights).reshape(directions, vector_dim, 4, gates // 4), 3, lanes)
    panels = padded.reshape(directions, vector_dim, 4, -1, lanes).transpose(0, 3, 2, 4, 1)  # (G, D / W, 4, W, P)
    return pack(panels.reshape(directions, -1, vector_dim), Precision.FLOAT32, lanes)


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
