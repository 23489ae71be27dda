"""What every kernel that runs an LSTM layer takes and gives: one signature, for reading and for training.

    i, j, f, o = split(x @ input + h @ recurrent + bias)
    c = clip(σ(f) * c + σ(i) * tanh(j))
    h = clip((σ(o) * tanh(c)) @ projection)

The clipped c and h are both carried on and given out. Without a projection h = σ(o) * tanh(c), unclipped.
Not torch.nn.LSTM: it cannot clip, and the published weights were trained with clipping.

G directions, T steps, B rows, P vector size, D cells. Steps stand before rows, so that what a step reads lies together.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

HiddenState = tuple[Tensor, Tensor]  # h (G, B, P), and c (G, B, D) which may be more exact


class Clips(NamedTuple):
    """Bounds on the cell and on its projection; None means none."""

    cell: float | None
    projection: float | None


class LstmWeights(NamedTuple):
    """The weights of one layer for all directions; the bias is complete, forget bias included."""

    input: Tensor  # (G, P, 4D)
    recurrent: Tensor  # (G, P, 4D)
    bias: Tensor  # (G, 4D)
    projection: Tensor | None  # (G, D, P)
    clips: Clips


class LstmMatrices(NamedTuple):
    """The large ones among the weights of a layer."""

    input: Tensor
    recurrent: Tensor
    projection: Tensor | None


class Recurrence(NamedTuple):
    """A way to run a layer: in which form it wants the weights, and how it reads.

    `prepare(weights, dtype)` brings the weights into whatever form `run` wants, for inputs that are multiplied as
    `dtype`; it is called once, and again when the weights have changed.

    `run(prepared, inputs, lengths, state)` reads every row to its own end. Inputs are (G, T, B, P), each direction in
    its own reading order, finite even beyond a row's end; lengths (B,) never rise. It returns all outputs (G, T, B, P),
    zero beyond a row's end, and the state after each row's last step.

    `restore(prepared)` gives the matrices back as they were, to the bit, where the prepared form has all of them.

    `run_packed(prepared, inputs, lengths, start, starts, fixed_rows)` reads rows that hold several sentences, one after
    another, each from the one state `start`, (G, 1, P) and (G, 1, D): a row starts again where `starts` (G, T, B) is
    not 0, its first step included. It returns all outputs. Where `fixed_rows` is not None, every matrix product has as
    many rows, so that a row has the same bits whatever is read beside it. Not every kernel has it.
    """

    prepare: Callable[[LstmWeights, torch.dtype], Any]
    run: Callable[[Any, Tensor, Sequence[int], HiddenState], tuple[Tensor, HiddenState]]
    restore: Callable[[Any], LstmMatrices] | None = None
    run_packed: Callable[[Any, Tensor, Sequence[int], HiddenState, Tensor, int | None], Tensor] | None = None


def rows_at_each_step(lengths: Sequence[int], steps: int) -> list[int]:
    """How many rows, longest first, have not ended at each step.

    >>> rows_at_each_step([3, 1, 1], steps=3)
    [3, 1, 1]
    """
    return [bisect_left(lengths, -step, key=lambda length: -length) for step in range(steps)]
