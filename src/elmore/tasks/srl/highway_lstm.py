"""A deep LSTM whose layers read in alternating directions, with a highway around each cell.

He et al., 2017: the first layer reads forward, the second backward over what the first gave, and so on; nothing is
concatenated. Recurrent dropout is variational: one mask for a sentence and layer, on the output, which also recurs.
B sentences, T tokens, D size of what is read, H units.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmore.tasks.modules.rnn import packing_of
from elmore.tasks.srl.highway_recurrence import GATES, highway_recurrence


class AlternatingHighwayLstm(nn.Module):
    """Layers of highway LSTMs.

    Weights begin orthogonal, gate by gate; the bias of the forget gate at 1, every other at 0.

    >>> AlternatingHighwayLstm(4, 3, layers=2)(torch.ones(2, 5, 4), [5, 0]).shape
    torch.Size([2, 5, 3])
    """

    def __init__(self, input_dim: int, hidden: int, *, layers: int = 8, dropout: float = 0.0) -> None:
        super().__init__()
        self.output_dim = hidden
        self.dropout = dropout
        self.layers = nn.ModuleList(
            HighwayLstmLayer(hidden if number else input_dim, hidden) for number in range(layers)
        )

    def forward(self, x: Tensor, lengths: Sequence[int] | Tensor) -> Tensor:  # (B, T, D), B on the CPU -> (B, T, H)
        """The outputs of the last layer at each token; zeros at padding."""
        packing = packing_of(tuple(torch.as_tensor(lengths).tolist()), places=x.shape[1], device=x.device)
        packed = packing.pack(x)
        sizes, tokens = packed.batch_sizes.tolist(), packed.data
        # A layer that reads backward reads forward over sentences that were turned round, each within its own tokens.
        turned = packing.reversed_rows()
        for number, layer in enumerate(self.layers):
            if number:
                tokens = tokens.index_select(0, turned)
            tokens = layer(tokens, sizes, dropout=self.dropout if self.training else 0.0)
        if len(self.layers) % 2 == 0:
            tokens = tokens.index_select(0, turned)
        return packing.pad(packed._replace(data=tokens))


class HighwayLstmLayer(nn.Module):
    """One layer, over packed sentences, forward."""

    def __init__(self, input_dim: int, hidden: int) -> None:
        super().__init__()
        # Those of the gates o, t, i, f, g, and of what is carried past the cell.
        self.input_weight = nn.Parameter(torch.empty((GATES + 1) * hidden, input_dim))
        self.recurrent_weight = nn.Parameter(torch.empty(GATES * hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(GATES * hidden))
        with torch.no_grad():
            for weight in (self.input_weight, self.recurrent_weight):
                for gate in torch.split(weight, hidden):
                    nn.init.orthogonal_(gate)
            self.bias[3 * hidden : 4 * hidden] = 1

    def forward(
        self, tokens: Tensor, batch_sizes: Sequence[int], *, dropout: float = 0.0
    ) -> Tensor:  # (N, D) -> (N, H)
        products = nn.functional.linear(tokens, self.input_weight)  # of all steps at once
        gates, carried = products[:, : len(self.bias)], products[:, len(self.bias) :]
        kept = None
        if dropout and batch_sizes:
            kept = nn.functional.dropout(self.bias.new_ones(batch_sizes[0], carried.shape[1]), dropout)
        return highway_recurrence(gates + self.bias, carried, self.recurrent_weight, kept, batch_sizes)
