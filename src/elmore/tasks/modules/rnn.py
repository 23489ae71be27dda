"""Bidirectional recurrent networks over batches of sentences, with variational dropout.

The result for a sentence does not depend on the other sentences of the batch.

B sentences, T tokens, N tokens of all sentences, D size of the input, H units in each direction, E size of extra
vectors.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from elmore.errors import InputError
from elmore.nn.devices import send
from elmore.tasks.modules.gru_recurrence import PackedSteps, fused_recurrence, fused_recurrence_runs_on


class EncoderInputs(NamedTuple):
    """The vectors of a batch of sentences, padded at the end."""

    x: Tensor  # (B, T, D)
    mask: Tensor  # (B, T) true at tokens
    lengths: tuple[int, ...]
    extra: Tensor | None = None  # (B, T, E) to concatenate to the output of the first RNN


def append_extra(x: Tensor, extra: Tensor | None, extra_dim: int) -> Tensor:  # (B, T, D), (B, T, E) -> (B, T, D + E)
    """Concatenate extra vectors, such as a second mix of ELMo's layers, to the output of an RNN."""
    size = 0 if extra is None else extra.shape[2]
    if size != extra_dim:
        raise InputError(f"this network takes extra vectors of size {extra_dim}; these have size {size}")
    return x if extra is None else torch.cat([x, extra.to(x.dtype)], dim=2)


class VariationalDropout(nn.Module):
    """Dropout with one mask for all tokens of a sentence; remaining features are scaled up (Gal and Ghahramani, 2016).

    >>> dropped = VariationalDropout(0.5)(torch.ones(2, 3, 4))
    >>> torch.equal(dropped[:, 0], dropped[:, 2])
    True
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        if not 0 <= probability <= 1:
            raise InputError(f"the dropout probability is {probability}; it must be from 0 to 1")
        self.probability = probability

    def extra_repr(self) -> str:
        return f"{self.probability:g}"

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        if not self.training or self.probability == 0:
            return x
        return x * nn.functional.dropout(x.new_ones(len(x), 1, x.shape[2]), self.probability)


class _BiRnn(nn.Module):
    """Layers of a recurrent network in both directions, with variational dropout on the input of each.

    `rnn` is torch's module; `gates` is the number of blocks in its matrices.
    """

    def __init__(
        self, rnn: type[nn.LSTM | nn.GRU], gates: int, input_dim: int, hidden: int, layers: int, input_dropout: float
    ) -> None:
        super().__init__()
        self.output_dim = 2 * hidden
        sizes = [input_dim] + [self.output_dim] * (layers - 1)
        # One module for each layer: torch's module of several layers has no variational dropout between them.
        self.layers = nn.ModuleList(rnn(size, hidden, batch_first=True, bidirectional=True) for size in sizes)
        self.dropout = VariationalDropout(input_dropout)
        for layer in self.layers:
            _initialize(layer, gates)

    def forward(self, x: Tensor, lengths: Sequence[int] | Tensor) -> Tensor:  # (B, T, D), B -> (B, T, 2 H)
        """The states of the last layer at each token, forward then backward; zeros at padding.

        `lengths` are Python integers or a tensor on the CPU: reading lengths from a GPU would wait for the GPU.
        """
        counts = torch.as_tensor(lengths, dtype=torch.int64)
        assert counts.device.type == "cpu", "lengths must be on the CPU"
        assert len(counts) == len(x), "lengths has another number of sentences than x"
        assert not (counts > x.shape[1]).any(), "lengths has a sentence that is longer than x"
        if x.shape[1] == 0:
            return x.new_zeros(len(x), 0, self.output_dim)
        if (counts > 0).all():
            return self._run_layers(x, counts)
        # Torch cannot pack an empty sentence. One padding token stands for it, and its output is set to 0.
        empty = send(counts == 0, x.device).view(-1, 1, 1)
        return self._run_layers(x, counts.clamp_min(1)).masked_fill(empty, 0)

    def _run_layers(self, x: Tensor, counts: Tensor) -> Tensor:
        packing = packing_of(tuple(counts.tolist()), width=x.shape[1], device=x.device)
        packed = packing.pack(self.dropout(x))
        for number, layer in enumerate(self.layers):
            if number and self.training and self.dropout.probability > 0:
                packed = packing.pack(self.dropout(packing.pad(packed)))
            packed = _run_layer(layer, packed, packing)
        return packing.pad(packed)


class BiLstm(_BiRnn):
    """Layers of bidirectional LSTMs.

    Initial values, gate by gate: recurrent weights orthogonal, input weights after Glorot and Bengio, 2010, the bias of
    the forget gate 1, other biases 0.

    >>> BiLstm(4, 3, layers=2)(torch.ones(2, 5, 4), [5, 1]).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, input_dim: int, hidden: int, *, layers: int = 1, input_dropout: float = 0.0) -> None:
        super().__init__(nn.LSTM, 4, input_dim, hidden, layers, input_dropout)
        for name, parameter in self.named_parameters():
            # Torch adds two biases; one of them contains the 1. Its gates are input, forget, cell, output.
            if "bias_ih" in name:
                nn.init.ones_(parameter.detach()[hidden : 2 * hidden])


class BiGru(_BiRnn):
    """Layers of bidirectional GRUs; weights are initialized as in `BiLstm`, biases with 0.

    >>> BiGru(4, 3)(torch.ones(2, 5, 4), [5, 0]).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, input_dim: int, hidden: int, *, layers: int = 1, input_dropout: float = 0.0) -> None:
        super().__init__(nn.GRU, 3, input_dim, hidden, layers, input_dropout)


def _initialize(rnn: nn.Module, gates: int) -> None:
    for name, parameter in rnn.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(parameter)
            continue
        for gate in parameter.detach().chunk(gates):
            if name.startswith("weight_hh"):
                nn.init.orthogonal_(gate)
            else:
                nn.init.xavier_uniform_(gate)


def _run_layer(layer: nn.Module, packed: PackedSequence, packing: "Packing") -> PackedSequence:
    """Both directions of one layer: with Elmore's kernel if it supports the layer, else with torch."""
    weight = next(layer.parameters())
    if isinstance(layer, nn.GRU) and fused_recurrence_runs_on(weight.device, weight.dtype, layer.hidden_size):
        return packed._replace(data=_run_fused(layer, packed.data, packing.steps))
    states: PackedSequence = layer(packed)[0]
    return states


def _run_fused(gru: nn.GRU, tokens: Tensor, steps: PackedSteps) -> Tensor:  # (N, D) -> (N, 2 H)
    input_weight, recurrent, input_bias, bias = (torch.stack(both) for both in zip(*gru.all_weights, strict=True))
    products = nn.functional.linear(tokens, input_weight.flatten(0, 1), input_bias.flatten())  # of all steps at once
    return fused_recurrence(products.view(len(tokens), *bias.shape), recurrent, bias, steps)


class Packing:
    """Converts padded sentences, none empty, to torch's packed form and back.

    Torch's `pack_padded_sequence` copies one piece for each distinct length. This class gathers all tokens at once,
    with indices that are computed on the CPU.
    """

    def __init__(self, lengths: Sequence[int], *, width: int, device: torch.device) -> None:
        counts = np.array(lengths, dtype=np.int64)
        self._sentences, self._width = len(counts), width
        order = np.argsort(-counts, kind="stable")  # packed sentences are sorted, longest first
        times = np.arange(counts.max(initial=0)).reshape(-1, 1)
        is_token = times < counts[order]  # (T, B)
        self._is_token, self._device = is_token, device
        self._batch_sizes = torch.from_numpy(is_token.sum(axis=1))
        self._rows = send(torch.from_numpy((order * width + times)[is_token]), device)

    def pack(self, padded: Tensor) -> PackedSequence:  # (B, T, D)
        return PackedSequence(padded.flatten(0, 1).index_select(0, self._rows), self._batch_sizes)

    def reversed_rows(self) -> Tensor:  # (N,)
        """The index that reverses each sentence: row i of the result is packed row index[i]."""
        sizes = self._is_token.sum(axis=1)
        firsts = np.cumsum(sizes) - sizes  # the first row of each step
        times, sentences = np.nonzero(self._is_token)
        lengths = self._is_token.sum(axis=0)
        rows = firsts[lengths[sentences] - 1 - times] + sentences
        return send(torch.from_numpy(rows), self._device)

    @cached_property
    def steps(self) -> PackedSteps:
        """The positions of the packed tokens, for a kernel."""
        return PackedSteps.of(self._batch_sizes.tolist(), self._device)

    def pad(self, packed: PackedSequence) -> Tensor:  # (B, T, D), zeros at padding
        empty = packed.data.new_zeros(self._sentences * self._width, packed.data.shape[1])
        padded = empty.index_copy(0, self._rows, packed.data)
        return padded.view(self._sentences, self._width, padded.shape[1])


# A model may run several RNNs over the same sentences; they share the indices.
@lru_cache(maxsize=4)
def packing_of(lengths: tuple[int, ...], *, width: int, device: torch.device) -> Packing:
    """The packing of sentences of these lengths, padded to `width` tokens."""
    # Prediction caches objects that training may reuse, and training rejects tensors of inference mode.
    with torch.inference_mode(mode=False):
        return Packing(lengths, width=width, device=device)
