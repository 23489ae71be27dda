"""The values that training starts from, as in the original code: the one place that knows them."""

import torch
from torch import Tensor, nn

from elmore.network.bilm import BiLM
from elmore.network.language_model import LanguageModel


def initialize(model: LanguageModel | BiLM, generator: torch.Generator) -> None:
    """Give every parameter its first value."""
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
