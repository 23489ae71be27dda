"""The recurrence by the native CPU kernels: for reading, where no gradient is wanted.

A sentence has the same bits alone and in any batch, in any order, with any number of threads: every output is summed in
an order that depends on its own row only. `recurrence` has the equations and the signature; `native/lstm.h` the code.
"""

import math
from collections.abc import Sequence
from ctypes import c_int64
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from elmore.errors import InputError
from elmore.kernels.native_library import (
    CELLS_AT_ONCE,
    Lstm,
    Number,
    Reading,
    native_obstacle,
    opened_native_library,
)
from elmore.kernels.native_packing import PackedMatrix, fill, pack, pack_bias, pack_gates, unpack, unpack_gates
from elmore.kernels.recurrence import HiddenState, LstmMatrices, LstmWeights, Recurrence


class PreparedLstm(NamedTuple):
    """A layer as the library reads it, and the tensors that its pointers lead to."""

    number: Number
    layer: Lstm
    input: PackedMatrix
    recurrent: PackedMatrix
    projection: PackedMatrix | None
    bias: Tensor


def native_recurrence(number: Number) -> Recurrence:
    """The recurrence that multiplies numbers of this kind; an error says what is missing for it here."""
    if obstacle := native_obstacle(number):
        raise InputError(f"the native kernels for {number.name.lower()} cannot run here: {obstacle}")
    # Only float32 is kept as it was.
    return Recurrence(partial(prepare, number=number), recur, restore if number is Number.FLOAT32 else None)


def prepare(weights: LstmWeights, dtype: torch.dtype, *, number: Number) -> PreparedLstm:  # noqa: ARG001
    """Pack the weights; the kernel's kind of number, and not that of the inputs, decides in which form."""
    lanes = opened_native_library().lanes(number)
    directions, vector_dim, gates = weights.input.shape
    recurrent, own_input = (pack_gates(part, number, lanes) for part in (weights.recurrent, weights.input))
    projection = None if weights.projection is None else _pack_projection(weights.projection, number, lanes)
    bias = pack_bias(weights.bias, lanes)
    clips = (math.inf if clip is None else clip for clip in weights.clips)
    layer = Lstm(
        directions,
        vector_dim,
        gates // 4,
        own_input.pointers(),
        recurrent.pointers(),
        (projection or PackedMatrix(torch.empty(0))).pointers(),
        bias.data_ptr(),
        *clips,
    )
    return PreparedLstm(number, layer, own_input, recurrent, projection, bias)


def restore(prepared: PreparedLstm) -> LstmMatrices:
    """The matrices that were packed as float32."""
    vector_dim, cell_dim = prepared.layer.vector_dim, prepared.layer.cell_dim
    own_input, recurrent = (unpack_gates(part, cell_dim) for part in (prepared.input, prepared.recurrent))
    projection = None if prepared.projection is None else unpack(prepared.projection, cell_dim, vector_dim)
    return LstmMatrices(own_input, recurrent, projection)


def recur(
    prepared: PreparedLstm,
    inputs: Tensor,  # (G, T, B, P)
    lengths: Sequence[int],
    state: HiddenState,
    *,
    kept: Sequence[Tensor] = (),
) -> tuple[Tensor, HiddenState]:
    """Read every row to its own end; see `Recurrence`. `kept`, gates and cells, is filled for a backward pass."""
    inputs, h, c = (part.float().contiguous() for part in (inputs, *state))
    outputs, last_h, last_c = torch.empty_like(inputs), torch.empty_like(h), torch.empty_like(c)
    _, steps, rows, _ = inputs.shape
    reading = Reading(
        steps,
        rows,
        (c_int64 * rows)(*lengths),
        *(part.data_ptr() for part in (inputs, h, c, outputs, last_h, last_c, *kept)),
    )
    opened_native_library().run_lstm(prepared.number, prepared.layer, reading)
    return outputs, (last_h, last_c)


def _pack_projection(projection: Tensor, number: Number, lanes: int) -> PackedMatrix:  # (G, D, P)
    # As many rows as the gates have cells, which are filled up to whole vectors.
    return pack(fill(projection, 1, lanes), number, lanes, block=CELLS_AT_ONCE)
