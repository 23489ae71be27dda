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
from elmore.kernels.selection import choose_kernels
from elmore.network.bilm import BiLM
from elmore.network.state import State
from elmore.text.spelling import WordInputs


class LanguageModel(nn.Module):
    """Predicts the next and the previous word."""

    def __init__(self, config: ModelConfig, *, classes: int) -> None:
        super().__init__()
        self.config = config
        self.network = BiLM(config)
        self.softmax_weight = nn.Parameter(torch.empty(classes, config.vector_dim))
        self.softmax_bias = nn.Parameter(torch.empty(classes))

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
        # What is trained is measured with the kernels of training too.
        kernels = choose_kernels(inputs.device, dtype, training=True, name=self.network.kernel_name)
        rounding = (
            torch.autocast(inputs.device.type, dtype, cache_enabled=False) if dtype == torch.bfloat16 else nullcontext()
        )
        with rounding:
            vectors = self.network.words(words, kernels=kernels)
        # Gathered in float32, because the gradients of frequent words are sums over thousands of places.
        exact = vectors.to(torch.promote_types(dtype, torch.float32))
        x = exact.index_select(0, inputs.flatten()).to(dtype).view(*inputs.shape, -1)
        _, steps, rows = inputs.shape
        dropout = dropout if self.training else 0.0
        outputs, after = self.network.run_lstm(x, [steps] * rows, state.detach(), dropout=dropout, kernels=kernels)
        top = drop_out(outputs[-1], dropout) if dropout > 0 else outputs[-1]
        losses = cross_entropy(
            top.flatten(1, 2),
            targets.flatten(1, 2),
            self.softmax_weight,
            self.softmax_bias,
            candidates,
            softmax=kernels.softmax,
            differentiate=kernels.differentiate_choice,
        )
        return losses / targets[0].numel(), after.detach()
