"""The biLM with a softmax on top: what is trained.

Forward and backward share the word encoder and the softmax. A window is read from the state the one before left, and no
gradient flows back into it.

G directions, T steps, R rows, W distinct words, P vector size, V classes.
"""

from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop_out

from elmore.config import ModelConfig
from elmore.kernels.cross_entropy import Candidates, cross_entropy
from elmore.kernels.reference import LstmWeights
from elmore.kernels.window import recur_window
from elmore.network.bilm import BiLM, LstmLayer
from elmore.network.state import State
from elmore.text.spelling import WordInputs


class LanguageModel(nn.Module):
    """Predicts the next and the previous word."""

    def __init__(self, config: ModelConfig, *, classes: int) -> None:
        super().__init__()
        self.config = config
        self.network = BiLM(config)
        self.softmax_weight = nn.Parameter(torch.empty(classes, config.vector_dim))
        self.softmax_bias = nn.Parameter(torch.zeros(classes))

    def forward(
        self,
        words: WordInputs,  # of the W distinct words
        inputs: Tensor,  # (G, T, R) which of them stands where
        targets: Tensor,  # (G, T, R)
        state: State,
        *,
        candidates: Candidates | None = None,
        dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Tensor, State]:
        """(G,) the mean loss of each direction, and the state after the window."""
        rounding = (
            torch.autocast(inputs.device.type, dtype, cache_enabled=False) if dtype == torch.bfloat16 else nullcontext()
        )
        with rounding:
            vectors = self.network.words(words)
        # Gathered in float32, because the gradients of frequent words are sums over thousands of places.
        exact = vectors.to(torch.promote_types(dtype, torch.float32))
        x = exact.index_select(0, inputs.flatten()).to(dtype).view(*inputs.shape, -1)
        top, after = self._read(x, state, dropout=dropout)
        losses = cross_entropy(
            top.flatten(1, 2), targets.flatten(1, 2), self.softmax_weight, self.softmax_bias, candidates
        )
        return losses / targets[0].numel(), after

    def _read(self, x: Tensor, state: State, *, dropout: float) -> tuple[Tensor, State]:  # (G, T, R, P) -> the same
        ends = []
        for number, layer in enumerate(self.network.lstm):
            assert isinstance(layer, LstmLayer)  # a ModuleList does not tell
            x = drop_out(x, dropout, training=self.training and dropout > 0)
            weights = _rounded(layer.weights(), x.dtype)
            y, end = recur_window(x, (state.h[number].to(x.dtype), state.c[number]), weights, layer.clips)
            # The skip connection adds the input as it was after dropout.
            x = x + y if self.config.skip_connections and number > 0 else y
            ends.append(end)
        after = State(torch.stack([h for h, _ in ends]), torch.stack([c for _, c in ends]))
        return drop_out(x, dropout, training=self.training and dropout > 0), after


def _rounded(weights: LstmWeights, dtype: torch.dtype) -> LstmWeights:
    projection = None if weights.projection is None else weights.projection.to(dtype)
    return LstmWeights(weights.input.to(dtype), weights.recurrent.to(dtype), weights.bias, projection)
