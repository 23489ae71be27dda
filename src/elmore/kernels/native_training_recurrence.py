"""The recurrence and its backward pass by the native CPU kernels: what trains on a CPU in float32.

Forward it is what reads, but for the gates and cells, which are kept. On the way back the gradients of some steps at a
time are made, and added to those of the weights while they are in the cache. Gradients are summed in an order that
depends on the shape of a batch only: they have the same bits with any number of threads.
`native/lstm_backward.h` has the code.

G directions, T steps, B rows, P vector size, D cells, W float32 in a vector.
"""

import math
from collections.abc import Sequence
from ctypes import c_int64
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.errors import InputError
from elmore.kernels import native_recurrence
from elmore.kernels.native_library import LstmGradients, Number, native_obstacle, opened_native_library
from elmore.kernels.native_packing import PackedMatrix, fill, pack, unpack, unpack_gates
from elmore.kernels.recurrence import Clips, HiddenState, LstmWeights, Recurrence


def native_training_recurrence() -> Recurrence:
    """The recurrence; an error says what is missing for it here."""
    if obstacle := native_obstacle(Number.FLOAT32):
        raise InputError(f"the native kernels for float32 cannot run here: {obstacle}")
    return Recurrence(prepare, recur)


def prepare(weights: LstmWeights, dtype: torch.dtype) -> LstmWeights:  # noqa: ARG001  # chosen for float32
    """The weights as they are: gradients lead to them, and in training they are packed anew for every pass."""
    return weights


def recur(
    weights: LstmWeights,
    inputs: Tensor,  # (G, T, B, P)
    lengths: Sequence[int],
    state: HiddenState,
) -> tuple[Tensor, HiddenState]:
    """Read every row to its own end; see `Recurrence`."""
    outputs: Tensor
    outputs, last_h, last_c = _Recurrence.apply(  # type: ignore[no-untyped-call]
        _Reading(weights.clips, lengths), inputs, *state, *weights[:4]
    )
    return outputs, (last_h, last_c)


class _Reading(NamedTuple):
    """What is needed beside tensors."""

    clips: Clips
    lengths: Sequence[int]


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        reading: _Reading,
        inputs: Tensor,
        h: Tensor,  # (G, B, P)
        c: Tensor,  # (G, B, D)
        *weights: Any,  # the tensors of `LstmWeights`
    ) -> tuple[Tensor, Tensor, Tensor]:
        own_input, recurrent, bias, projection = weights
        layer = LstmWeights(own_input, recurrent, bias, projection, reading.clips)
        prepared = native_recurrence.prepare(layer, torch.float32, number=Number.FLOAT32)
        inputs, h, c = (part.contiguous() for part in (inputs, h, c))
        kept = _room_for_what_is_kept(inputs, c)
        outputs, after = native_recurrence.recur(prepared, inputs, reading.lengths, (h, c), kept=kept)
        ctx.save_for_backward(inputs, h, outputs, *kept, own_input, recurrent, projection)
        ctx.reading = reading
        ctx.set_materialize_grads(False)
        return outputs, *after

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_outputs: Tensor | None, d_last_h: Tensor | None, d_last_c: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        inputs, h, outputs, gates, cells, own_input, recurrent, projection = ctx.saved_tensors
        directions, steps, rows, vector_dim = inputs.shape
        cell_dim, lanes = own_input.shape[2] // 4, gates.shape[-1] // 4
        back_input, back_recurrent = (_turned_gates(part, lanes) for part in (own_input, recurrent))
        back_projection = None if projection is None else _pack(fill(projection, 1, lanes).transpose(1, 2), lanes)
        d_h = torch.zeros_like(h) if d_last_h is None else d_last_h.clone(memory_format=torch.contiguous_format)
        d_c = cells.new_zeros(directions, rows, cells.shape[-1])
        if d_last_c is not None:
            d_c[..., :cell_dim] = d_last_c
        d_outputs = None if d_outputs is None else d_outputs.contiguous()
        d_inputs = torch.empty_like(inputs) if ctx.needs_input_grad[1] else None
        room = _RoomForGradients(cells, own_input) if any(ctx.needs_input_grad[4:]) else None
        cell_clip, projection_clip = (math.inf if clip is None else clip for clip in ctx.reading.clips)
        opened_native_library().run_lstm_backward(
            LstmGradients(
                directions,
                vector_dim,
                cell_dim,
                *(_pointer(part) for part in (back_input, back_recurrent, back_projection)),
                cell_clip,
                projection_clip,
                steps,
                rows,
                (c_int64 * rows)(*ctx.reading.lengths),
                *(_pointer(part) for part in (inputs, h, outputs, gates, cells, d_outputs, d_inputs, d_h, d_c)),
                *((None,) * 4 if room is None else (_pointer(part) for part in room.packed)),
            )
        )
        d_weights = (None,) * 4 if room is None else room.unpacked(projected=projection is not None)
        return None, d_inputs, d_h, d_c[..., :cell_dim], *d_weights


class _RoomForGradients:
    """The gradients of a layer's weights, packed as the library fills them."""

    def __init__(self, cells: Tensor, weights: Tensor) -> None:
        directions, self._vector_dim, gates = weights.shape
        self._cell_dim, filled, lanes = gates // 4, cells.shape[-1], opened_native_library().lanes(Number.FLOAT32)
        for_gates = (directions, filled // lanes, self._vector_dim, 4, lanes)
        for_projection = (directions, -(-filled // (4 * lanes)), self._vector_dim, 4, lanes)
        shapes = (for_gates, for_gates, (directions, filled // lanes, 4, lanes), for_projection)
        self.packed = [cells.new_zeros(shape) for shape in shapes]

    def unpacked(self, *, projected: bool) -> tuple[Tensor | None, ...]:
        """Of the inputs' matrix, the recurrent one, the bias and the projection."""
        d_input, d_recurrent, d_bias, d_projection = self.packed
        turned = unpack(PackedMatrix(d_projection), self._vector_dim, self._cell_dim) if projected else None
        return (
            unpack_gates(PackedMatrix(d_input), self._cell_dim),
            unpack_gates(PackedMatrix(d_recurrent), self._cell_dim),
            d_bias.transpose(1, 2).flatten(2)[..., : self._cell_dim].flatten(1),
            None if turned is None else turned.transpose(1, 2),
        )


def _room_for_what_is_kept(inputs: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    directions, steps, rows, _ = inputs.shape
    lanes = opened_native_library().lanes(Number.FLOAT32)
    panels = -(-c.shape[-1] // lanes)
    gates = inputs.new_empty(directions, panels, steps, rows, 4 * lanes)
    return gates, inputs.new_empty(directions, steps + 1, rows, panels * lanes)


def _turned_gates(weights: Tensor, lanes: int) -> Tensor:
    """(G, P, 4D) as a matrix of 4D rows, in the order of the panels of gates, and P columns; packed."""
    directions, vector_dim, gates = weights.shape
    filled = fill(weights.reshape(directions, vector_dim, 4, gates // 4), 3, lanes)
    panels = filled.view(directions, vector_dim, 4, -1, lanes).permute(0, 3, 2, 4, 1)  # (G, D / W, 4, W, P)
    return _pack(panels.flatten(1, 3), lanes)


def _pack(matrix: Tensor, lanes: int) -> Tensor:
    return pack(matrix, Number.FLOAT32, lanes).panels


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
