"""What a pre-training does: the shape of the model, and all the rest.

Small corpora need no flags: where the vocabulary is too small to draw as many negatives from it as the recipe says, the
full softmax is trained, and where the text is too short for as many rows, fewer are read. Both are told, and what the
user asked for by name stays as it is, or is refused.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

from elmore.config import SMALL, ModelConfig
from elmore.fields import check_fields, checked_field
from elmore.recipe import LARGEST_SEED


@dataclass(frozen=True, kw_only=True)
class Training:
    """Everything about a training but the model's shape and its text."""

    epochs: float = checked_field(10.0, above=0, instead_of="steps")
    steps: int = checked_field(0, at_least=0)  # of the optimizer; if given, instead of epochs
    frozen_steps: int = checked_field(0, at_least=0)  # before these: steps of the softmax alone, for fine-tuning
    batch_size: int = checked_field(128, at_least=1)  # rows read side by side, by all processes together
    window: int = checked_field(20, at_least=1)  # words that a row reads at once
    negatives: int = checked_field(8192, at_least=0)  # classes drawn for the sampled softmax; 0 means the full one
    dropout: float = checked_field(0.1, at_least=0, at_most=0.95)

    optimizer: Literal["adamw", "adagrad"] = "adamw"
    learning_rate: float = checked_field(2e-3, above=0)
    warmup_steps: int = checked_field(500, at_least=0)  # steps over which the rate rises
    # The share of the rate that is left at the end of the cosine; 1 keeps it constant.
    final_rate: float = checked_field(0.02, at_least=0, at_most=1)
    weight_decay: float = checked_field(0.0, at_least=0, at_most=1)  # of AdamW; softmax and word table have none
    # The largest norm of all gradients together, of the loss of a row's whole window.
    gradient_clip: float = checked_field(10.0, above=0)
    gradient_accumulation: int = checked_field(1, at_least=1)  # windows whose gradients make one step

    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = checked_field(1, at_least=0, at_most=LARGEST_SEED)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A model's shape and how to train it; `elmore.recipe.read_recipe("small", Recipe)` reads one."""

    shipped_in: ClassVar[str] = "pretraining"  # a folder of elmore/recipes

    model: ModelConfig = SMALL
    training: Training = Training()


class FittedRecipe(NamedTuple):
    """A recipe that a corpus can be trained by, and what was changed for that."""

    recipe: Recipe
    notices: tuple[str, ...]


def fit_to_corpus(
    recipe: Recipe, *, tokens: int, vocabulary_size: int, processes: int = 1, given: Collection[str] = ()
) -> FittedRecipe:
    """Take the full softmax, and fewer rows, where the corpus is too small; `given` are names of fields to leave alone.

    >>> fit_to_corpus(Recipe(), tokens=500, vocabulary_size=24).notices[0]
    'a vocabulary of 24 words is too small to draw 8,192 negatives from; the full softmax is trained'
    """
    training = recipe.training
    changes: dict[str, Any] = {}
    notices = []
    if training.negatives > vocabulary_size // 2 and "training.negatives" not in given:
        changes["negatives"] = 0
        notices.append(
            f"a vocabulary of {vocabulary_size:,} words is too small to draw {training.negatives:,} negatives from; "
            "the full softmax is trained"
        )
    # A pair of input and target spans two tokens, so there is one pair less than tokens.
    rows = (tokens - 1) // training.window
    rows -= rows % processes
    if 0 < rows < training.batch_size and "training.batch_size" not in given:
        changes["batch_size"] = rows
        notices.append(
            f"a corpus of {tokens:,} tokens is too short for {training.batch_size:,} rows of {training.window}; "
            f"it is read in {rows:,}"
        )
    return FittedRecipe(replace(recipe, training=replace(training, **changes)), tuple(notices))
