"""Recurrent networks that read a batch of sentences in both directions, each sentence as if it were alone.

B sentences, T tokens, D size of what is read, H units in each direction.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from elmore.nn.devices import send
from elmore.tasks.modules.dropout import VariationalDropout
from elmore.tasks.modules.gru_recurrence import PackedSteps, fused_recurrence, fused_recurrence_runs_on


class _BiRnn(nn.Module):
    """Layers of a recurrent network in both directions, with variational dropout on the input of each.

    `rnn` is torch's module; `gates` the number of blocks in its matrices.
    """

    def __init__(
        self, rnn: type[nn.LSTM | nn.GRU], gates: int, input_dim: int, hidden: int, layers: int, input_dropout: float
    ) -> None:
        super().__init__()
        self.output_dim = 2 * hidden
        sizes = [input_dim] + [self.output_dim] * (layers - 1)
        # One module for each layer: a module of several has no place for variational dropout between them.
        self.layers = nn.ModuleList(rnn(size, hidden, batch_first=True, bidirectional=True) for size in sizes)
        self.dropout = VariationalDropout(input_dropout)
        for layer in self.layers:
            _initialize(layer, gates)

    def forward(self, x: Tensor, lengths: Sequence[int] | Tensor) -> Tensor:  # (B, T, D), B -> (B, T, 2 H)
        """The states of the last layer at each token, forward then backward; zeros at padding.

        `lengths` are Python's numbers, or a tensor on the CPU: to ask a GPU for them is to wait for it.
        """
        counts = torch.as_tensor(lengths, dtype=torch.int64)
        assert counts.device.type == "cpu", "lengths must be on the CPU"
        assert len(counts) == len(x), "lengths are of another number of sentences"
        assert not (counts > x.shape[1]).any(), "lengths are of longer sentences"
        if x.shape[1] == 0:
            return x.new_zeros(len(x), 0, self.output_dim)
        if (counts > 0).all():
            return self._read(x, counts)
        # Torch packs no empty sentence, so of those a place of padding is read, and forgotten.
        empty = send(counts == 0, x.device).view(-1, 1, 1)
        return self._read(x, counts.clamp_min(1)).masked_fill(empty, 0)

    def _read(self, x: Tensor, counts: Tensor) -> Tensor:
        packing = packing_of(tuple(counts.tolist()), places=x.shape[1], device=x.device)
        packed = packing.pack(self.dropout(x))
        for number, layer in enumerate(self.layers):
            if number and self.training and self.dropout.probability > 0:
                packed = packing.pack(self.dropout(packing.pad(packed)))
            packed = _run(layer, packed, packing)
        return packing.pad(packed)


def _run(layer: nn.Module, packed: PackedSequence, packing: "Packing") -> PackedSequence:
    """Both directions of one layer; by a kernel of Elmore's own, with the layer's weights, where it can run."""
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
    """Brings padded sentences, all of some token, into the form that torch's recurrent networks read, and back.

    As torch's own `pack_padded_sequence`, which copies the sentences in a piece for each of their lengths; here all
    tokens are gathered at once, by indices that are found before the device is asked for anything.
    """

    def __init__(self, lengths: Sequence[int], *, places: int, device: torch.device) -> None:
        counts = np.array(lengths, dtype=np.int64)
        self._sentences, self._places = len(counts), places
        order = np.argsort(-counts, kind="stable")  # longest first, as packed sentences come
        times = np.arange(counts.max(initial=0)).reshape(-1, 1)
        is_token = times < counts[order]  # (T, B)
        self._is_token, self._device = is_token, device
        self._batch_sizes = torch.from_numpy(is_token.sum(axis=1))
        self._rows = send(torch.from_numpy((order * places + times)[is_token]), device)

    def pack(self, padded: Tensor) -> PackedSequence:  # (B, T, D)
        return PackedSequence(padded.flatten(0, 1).index_select(0, self._rows), self._batch_sizes)

    def reversed_rows(self) -> Tensor:  # (N,)
        """For every packed token, the row of the one that takes its place where each sentence is turned round."""
        sizes = self._is_token.sum(axis=1)
        firsts = np.cumsum(sizes) - sizes  # the first row of each step
        times, sentences = np.nonzero(self._is_token)
        lengths = self._is_token.sum(axis=0)
        rows = firsts[lengths[sentences] - 1 - times] + sentences
        return send(torch.from_numpy(rows), self._device)

    @cached_property
    def steps(self) -> PackedSteps:
        """Where the packed tokens stand, for a kernel."""
        return PackedSteps.of(self._batch_sizes.tolist(), self._device)

    def pad(self, packed: PackedSequence) -> Tensor:  # (B, T, D), zeros where there is no token
        empty = packed.data.new_zeros(self._sentences * self._places, packed.data.shape[1])
        padded = empty.index_copy(0, self._rows, packed.data)
        return padded.view(self._sentences, self._places, padded.shape[1])


# A reader has several networks for the same sentences, one after another; what they share is found once.
@lru_cache(maxsize=4)
def packing_of(lengths: tuple[int, ...], *, places: int, device: torch.device) -> Packing:
    """How sentences of these lengths are packed."""
    # What is made while predicting may come up again in training, which takes no tensor of inference mode.
    with torch.inference_mode(mode=False):
        return Packing(lengths, places=places, device=device)


class BiLstm(_BiRnn):
    """Layers of LSTMs in both directions.

    Recurrent weights begin orthogonal, input weights after Glorot and Bengio, 2010, gate by gate; the bias of the
    forget gate begins at 1, every other at 0.

    >>> BiLstm(4, 3, layers=2)(torch.ones(2, 5, 4), [5, 1]).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, input_dim: int, hidden: int, *, layers: int = 1, input_dropout: float = 0.0) -> None:
        super().__init__(nn.LSTM, 4, input_dim, hidden, layers, input_dropout)
        for name, parameter in self.named_parameters():
            # Torch has two biases, which are added: one of them holds the 1. Its gates are input, forget, cell, output.
            if "bias_ih" in name:
                nn.init.ones_(parameter.detach()[hidden : 2 * hidden])


class BiGru(_BiRnn):
    """Layers of gated recurrent units in both directions; recurrent and input weights begin as `BiLstm`'s.

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
