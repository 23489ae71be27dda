"""The native CPU kernels for training in float32, except for the LSTM: products, character CNN, highways and softmax.

`native/` has the code. Weights change between passes, so each pass packs them again. Gradients are summed
in an order that depends only on shapes: they are bit-identical with any number of threads.
"""

from collections.abc import Sequence
from ctypes import c_int64
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from elmore.engine.array_checks import check_indices, check_shape
from elmore.engine.native_library import FilterTables, Precision
from elmore.engine.packing import pack, pad_to_multiple
from elmore.errors import InputError
from elmore.nn.character_cnn import Filters, Linear, pool_by_convolution
from elmore.nn.cross_entropy import CandidateLogits, LossGradients
from elmore.nn.native_training_library import HighwayParts, Product, Softmax, opened_training_library


def check_tensor(name: str, tensor: Tensor, shape: Sequence[int | None], dtype: torch.dtype = torch.float32) -> None:
    """Raise InputError unless this is a tensor on the CPU of this type and shape; None stands for any length.

    The library receives addresses, so it would read and write beyond the end of a tensor that is too small.
    """
    if tensor.device.type != "cpu":
        raise InputError(f"{name} is on {tensor.device}; the native kernels take tensors on the CPU")
    if tensor.dtype != dtype:
        raise InputError(f"{name} has dtype {tensor.dtype}; it must be {dtype}")
    check_shape(name, tensor.shape, shape)


def as_array(tensor: Tensor) -> NDArray[np.float32]:
    """The memory of a tensor as an array, for `elmore.engine.packing`."""
    array: NDArray[np.float32] = tensor.detach().numpy()
    return array


def multiply(left: Tensor, right: Tensor, out: Tensor, *, adds: bool = False) -> None:
    """Fill out (M, N) with left (M, K) @ right (K, N), or add the product to it.

    Left and right may have any strides. The numbers of a row of `out` are adjacent.
    """
    check_tensor("the left matrix of a product", left, (None, None))
    (rows, depth), columns = left.shape, right.shape[-1]
    check_tensor("the right matrix of a product", right, (depth, None))
    check_tensor("the result of a product", out, (rows, columns))
    if columns > 1 and out.stride(1) != 1:
        raise InputError(f"the result of a product has the strides {out.stride()}; numbers of a row must be adjacent")
    if depth == 0:
        if not adds:
            out.zero_()
        return
    strides = left.stride(), right.stride()
    opened_training_library().multiply(
        Product(
            rows=rows,
            depth=depth,
            columns=columns,
            left=left.data_ptr(),
            left_row_stride=strides[0][0],
            left_depth_stride=strides[0][1],
            right=right.data_ptr(),
            right_depth_stride=strides[1][0],
            right_column_stride=strides[1][1],
            out=out.data_ptr(),
            out_stride=out.stride(0),
            adds=int(adds),
        )
    )


# The character CNN. There are few characters, so the response of each filter to each character at each of its positions
# is computed once in every pass, as a table. A response to a word is then as many additions as the filter is wide. In
# the backward pass each response has one position, and adds its gradient to as many entries of the tables. Two small
# products give the gradients of filters and characters.
# W words, M characters of a word, V characters of the table, C size of a character, F filters, n of one width w.


def pool_by_table(characters: Tensor, table: Tensor, filters: Filters) -> Tensor:
    """(W, F) the largest responses, before any activation, for characters (W, M) and their table (V, C)."""
    check_tensor("characters", characters, (None, None), torch.int64)
    check_tensor("the table of characters", table, (None, None))
    for number, (weight, bias) in enumerate(filters):
        check_tensor(f"weight of filters {number}", weight, (None, table.shape[1], None))
        check_tensor(f"bias of filters {number}", bias, (len(weight),))
        if weight.shape[2] > characters.shape[1]:
            raise InputError(
                f"words have {characters.shape[1]} characters; filters {number} are {weight.shape[2]} wide"
            )
    parts = [part for pair in filters for part in pair]
    if not all(torch.isfinite(part).all() for part in (table, *parts)):
        # The kernel's maximum does not keep a NaN. This one shows that training has diverged.
        return pool_by_convolution(characters, table, filters)
    pooled: Tensor = _MaxOverTime.apply(characters.contiguous(), table, *parts)  # type: ignore[no-untyped-call]
    return pooled


class _MaxOverTime(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, characters: Tensor, table: Tensor, *parts: Tensor) -> Tensor:
        weights, biases = parts[::2], parts[1::2]
        width = 4 * opened_training_library().lanes
        tables = torch.cat([_responses(table, weight, width).flatten() for weight in weights])
        bias = torch.cat([pad(one, (0, -len(one) % width)) for one in biases])
        shape = len(characters), sum(map(len, biases))
        pooled, positions = (table.new_empty(shape) for _ in range(2))
        filters = _as_filters(table, weights, tables, bias)
        opened_training_library().pool_characters(filters, characters, pooled, positions)
        ctx.save_for_backward(characters, positions, table, *weights)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_pooled: Tensor) -> tuple[Tensor | None, ...]:
        characters, positions, table, *weights = ctx.saved_tensors
        width = 4 * opened_training_library().lanes
        shapes = [(-(-len(weight) // width), weight.shape[2], len(table), width) for weight in weights]
        d_pooled = d_pooled.contiguous()
        sizes = [chunks * positions * size * width for chunks, positions, size, _ in shapes]
        d_tables = table.new_zeros(sum(sizes))
        filters = _as_filters(table, weights, d_tables, d_pooled)
        opened_training_library().pool_characters_backward(filters, characters, d_pooled, positions, d_tables)
        d_table, d_parts = torch.zeros_like(table), []
        d_biases = torch.split(d_pooled.sum(0), [len(weight) for weight in weights])
        for weight, part, shape, d_bias in zip(weights, torch.split(d_tables, sizes), shapes, d_biases, strict=True):
            # (chunks, w, V, width) -> (V, n, w)
            d_responses = part.view(shape).permute(2, 0, 3, 1).flatten(1, 2)[:, : len(weight)].flatten(1)
            multiply(d_responses, weight.transpose(1, 2).flatten(0, 1), d_table, adds=True)
            d_weight = table.new_empty(d_responses.shape[1], table.shape[1])
            multiply(d_responses.t(), table, d_weight)
            d_parts += [d_weight.view(len(weight), weight.shape[2], -1).transpose(1, 2), d_bias]
        return None, d_table, *d_parts


def _responses(table: Tensor, weight: Tensor, width: int) -> Tensor:
    """(chunks of filters, w, V, width) the response of each filter to each character at each of its positions."""
    padded = pad(weight, (0, 0, 0, 0, 0, -len(weight) % width))  # (n, C, w)
    responses = table.new_empty(len(table), padded.shape[0] * padded.shape[2])
    multiply(table, padded.permute(1, 0, 2).flatten(1), responses)
    return responses.view(len(table), -1, width, weight.shape[2]).permute(1, 3, 0, 2)


def _as_filters(table: Tensor, weights: Sequence[Tensor], tables: Tensor, bias: Tensor) -> FilterTables:
    """The record for the library. The tensors must outlive it."""
    groups = len(weights)
    widths = (c_int64 * groups)(*(weight.shape[2] for weight in weights))
    counts = (c_int64 * groups)(*(len(weight) for weight in weights))
    return FilterTables(len(table), groups, widths, counts, tables.data_ptr(), bias.data_ptr(), 0)


# Highways. Their six products are most of the work of a training step of the small model. Activations and their
# gradients are computed in one pass each. W words, F features.


def run_native_highway(x: Tensor, transform: Linear, gate: Linear) -> Tensor:
    """(W, F) for x (W, F); see `character_cnn.run_highway`."""
    check_tensor("x of the highway", x, (None, None))
    features = x.shape[1]
    for name, (weight, bias) in (("transform", transform), ("gate", gate)):
        check_tensor(f"weight of the {name}", weight, (features, features))
        check_tensor(f"bias of the {name}", bias, (features,))
    out: Tensor = _Highway.apply(x, *transform, *gate)  # type: ignore[no-untyped-call]
    return out


class _Highway(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, transform: Tensor, transform_bias: Tensor, gate: Tensor, gate_bias: Tensor
    ) -> Tensor:
        words, features = x.shape
        x = x.contiguous()
        both = x.new_empty(words, 2, features)
        multiply(x, transform.t(), both[:, 0])
        multiply(x, gate.t(), both[:, 1])
        bias, out = torch.cat([transform_bias, gate_bias]), x.new_empty(words, features)
        parts = HighwayParts(words, features, *(part.data_ptr() for part in (x, bias, both, out)))
        opened_training_library().run_highway(parts)
        ctx.save_for_backward(x, both, transform, gate)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        x, both, transform, gate = ctx.saved_tensors
        words, features = x.shape
        d_x, d_both, d_bias = (x.new_empty(shape) for shape in (x.shape, both.shape, (2, features)))
        d_out = d_out.contiguous()
        gradients = (part.data_ptr() for part in (d_out, d_x, d_both, d_bias))
        parts = HighwayParts(words, features, x.data_ptr(), None, both.data_ptr(), None, *gradients)
        opened_training_library().run_highway(parts)
        d_transform, d_gate = torch.empty_like(transform), torch.empty_like(gate)
        for which, (weight, d_weight) in enumerate(((transform, d_transform), (gate, d_gate))):
            multiply(d_both[:, which], weight, d_x, adds=True)
            multiply(d_both[:, which].t(), x, d_weight)
        return d_x, d_transform, d_bias[0], d_gate, d_bias[1]


# The softmax: logits are computed, turned into exponentials and multiplied back while they are in the cache.
# G groups of positions (directions), N positions in each, P vector size, K candidates.


def differentiate_natively(hidden: Tensor, candidates: CandidateLogits) -> LossGradients:
    """See `cross_entropy.LossKernel`."""
    _check_loss(hidden, candidates)
    library = opened_training_library()
    width = 4 * library.lanes
    groups, positions, vector_dim = hidden.shape
    classes = len(candidates.offsets)
    # The product and its transpose, each in the form for multiplication.
    matrix = as_array(candidates.candidate_weight)
    weights, back_weights = (
        pack(part[None], Precision.FLOAT32, library.lanes) for part in (matrix.T, pad_to_multiple(matrix, 0, width))
    )
    offsets = pad(candidates.offsets, (0, -classes % width), value=float("-inf"))
    hidden, target_columns = hidden.contiguous(), candidates.target_columns.contiguous()
    target_logits = (hidden * candidates.target_weight).sum(-1) + candidates.target_offsets
    highest, sums = torch.empty_like(target_logits), torch.empty_like(target_logits)
    d_hidden, d_offsets = torch.empty_like(hidden), offsets.new_zeros(groups, len(offsets))
    d_weights = offsets.new_zeros(groups, len(offsets) // width, vector_dim, width)
    for group in range(groups):
        rows = (hidden, target_logits, target_columns, highest, sums, d_hidden, d_weights, d_offsets)
        hidden_rows, *others = (part[group].data_ptr() for part in rows)
        matrices = weights.panels.ctypes.data, back_weights.panels.ctypes.data, offsets.data_ptr()
        library.run_softmax(Softmax(positions, vector_dim, classes, hidden_rows, *matrices, *others))
    losses = highest + sums.log() - target_logits
    d_target = (-losses).exp() - 1
    d_candidates = d_weights.transpose(2, 3).flatten(1, 2)[:, :classes]
    d_hidden.addcmul_(d_target[..., None], candidates.target_weight)
    return LossGradients(losses.sum(1), d_hidden, d_target, d_candidates, d_offsets[:, :classes])


def _check_loss(hidden: Tensor, candidates: CandidateLogits) -> None:
    check_tensor("hidden", hidden, (None, None, None))
    classes = len(candidates.offsets)
    check_tensor("the candidates' weights", candidates.candidate_weight, (classes, hidden.shape[2]))
    check_tensor("the candidates' offsets", candidates.offsets, (classes,))
    check_tensor("the targets' weights", candidates.target_weight, hidden.shape)
    check_tensor("the targets' offsets", candidates.target_offsets, hidden.shape[:2])
    check_tensor("the targets' columns", candidates.target_columns, hidden.shape[:2], torch.int64)
    # The number of candidates stands for a target that is no candidate.
    check_indices("the targets' columns", candidates.target_columns.numpy(), classes + 1)
