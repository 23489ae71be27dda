"""The biLM with a softmax on top, for training.

Forward and backward share the word encoder and the softmax. A window starts from the state after the previous one, and
no gradient flows back into that state.

G directions, T steps, R rows, W distinct words, P vector size, V classes.
"""

from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop_out

from elmore.config import ModelConfig
from elmore.nn.bilm import BiLM, StateTensors
from elmore.nn.cross_entropy import Candidates, cross_entropy
from elmore.nn.kernels import choose_kernels
from elmore.nn.word_encoder import WordIdTensors


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
        words: WordIdTensors,  # of the W distinct words
        inputs: Tensor,  # (G, T, R) the word at each step
        targets: Tensor,  # (G, T, R)
        state: StateTensors,
        *,
        candidates: Candidates | None = None,
        dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Tensor, StateTensors]:
        """(G,) the mean loss of each direction, and the state after the window."""
        kernels = choose_kernels(inputs.device, dtype, name=self.network.kernel_name)
        rounding = (
            torch.autocast(inputs.device.type, dtype, cache_enabled=False) if dtype == torch.bfloat16 else nullcontext()
        )
        with rounding:
            vectors = self.network.words.encode(words, kernels=kernels)
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
            loss_kernel=kernels.loss,
        )
        return losses / targets[0].numel(), after.detach()


def initialize(model: LanguageModel | BiLM, generator: torch.Generator) -> None:
    """Set every parameter to its first value, as the original code does."""
    characters = model.config.characters
    for name, parameter in model.named_parameters():
        _initialize(name, parameter, generator, tanh=characters is not None and characters.activation == "tanh")


def _initialize(name: str, parameter: Tensor, generator: torch.Generator, *, tanh: bool) -> None:
    def uniform(bound: float) -> None:
        nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def normal(fan_in: int) -> None:
        nn.init.normal_(parameter, std=fan_in**-0.5, generator=generator)

    match name.removeprefix("network.").split("."):
        case ["words", "characters"]:
            uniform(1.0)
        case ["words", "convolutions", _, "weight"]:
            if tanh:
                normal(parameter.shape[1] * parameter.shape[2])
            else:
                uniform(0.05)
        case ["words", "highways", _, "gate", "bias"]:
            nn.init.constant_(parameter, -2.0)
        case ["words", "table"]:
            uniform((6 / sum(parameter.shape)) ** 0.5)
        case ["words", *_, "weight"] | ["softmax_weight"]:
            normal(parameter.shape[1])
        case ["lstm", _, "input" | "recurrent"]:
            # One matrix of both parts in the original, so its bound counts the rows of both.
            uniform((6 / (2 * parameter.shape[1] + parameter.shape[2])) ** 0.5)
        case ["lstm", _, "projection"]:
            uniform((6 / (parameter.shape[1] + parameter.shape[2])) ** 0.5)
        case [*_, "bias"] | ["softmax_bias"]:
            nn.init.zeros_(parameter)
        case _:
            raise AssertionError(f"no initial value is known for {name}")
