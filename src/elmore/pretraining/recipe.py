"""What a pre-training does: the shape of the model, and all the rest."""

from dataclasses import dataclass
from typing import Literal

from elmore.config import SMALL, ModelConfig
from elmore.fields import check_fields, checked_field

LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class Training:
    """Everything about a training but the model's shape and its text."""

    epochs: float = checked_field(10.0, above=0, instead_of="steps")
    steps: int = checked_field(0, at_least=0)  # updates of the weights; if given, instead of epochs
    frozen_steps: int = checked_field(0, at_least=0)  # before these: steps of the softmax alone, for fine-tuning
    rows: int = checked_field(128, at_least=1)  # read side by side, by all processes together
    window: int = checked_field(20, at_least=1)  # words that a row reads at once
    negatives: int = checked_field(8192, at_least=0)  # classes drawn for the sampled softmax; 0 means the full one
    dropout: float = checked_field(0.1, at_least=0, at_most=0.95)

    optimizer: Literal["adamw", "adagrad"] = "adamw"
    learning_rate: float = checked_field(2e-3, above=0)
    warmup: int = checked_field(500, at_least=0)  # steps over which the rate rises
    # The share of the rate that is left at the end of the cosine; 1 keeps it constant.
    final_rate: float = checked_field(0.02, at_least=0, at_most=1)
    weight_decay: float = checked_field(0.0, at_least=0, at_most=1)  # of AdamW; softmax and word table have none
    # The largest norm of all gradients together, of the loss of a row's whole window.
    clip: float = checked_field(10.0, above=0)
    accumulate: int = checked_field(1, at_least=1)  # windows whose gradients make one step

    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = checked_field(1, at_least=0, at_most=LARGEST_SEED)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A model's shape and how to train it; `elmore.recipe.read_recipe("small", Recipe)` reads one."""

    model: ModelConfig = SMALL
    training: Training = Training()
