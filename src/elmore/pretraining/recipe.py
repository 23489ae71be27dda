"""The recipe of a pre-training run: the shape of the model and its training. Also the settings of the run.

`fit_to_corpus` adapts a recipe to a small corpus: it replaces the sampled softmax by the full one if the vocabulary is
too small for the negatives, and reduces the number of rows if the text is too short. Fields that the user set are not
changed.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

from elmore.config import SMALL, ModelConfig
from elmore.fields import check_fields, checked_field
from elmore.recipe import LARGEST_SEED
from elmore.training.run_folder import RunSettings


@dataclass(frozen=True, kw_only=True)
class Training:
    """[training]: everything except the shape of the model and the text."""

    epochs: float = checked_field(10.0, above=0, instead_of="steps")
    steps: int = checked_field(0, at_least=0)  # of the optimizer; 0: as many as `epochs` requires
    frozen_steps: int = checked_field(0, at_least=0)  # first steps, which train only the softmax, for fine-tuning
    batch_size: int = checked_field(128, at_least=1)  # rows, of all processes together
    window: int = checked_field(20, at_least=1)  # words per row in one step
    negatives: int = checked_field(8192, at_least=0)  # classes of the sampled softmax; 0: the full softmax
    dropout: float = checked_field(0.1, at_least=0, at_most=0.95)

    optimizer: Literal["adamw", "adagrad"] = "adamw"
    learning_rate: float = checked_field(2e-3, above=0)
    warmup_steps: int = checked_field(500, at_least=0)
    # The rate at the end of the cosine, as a share of `learning_rate`; 1 keeps the rate constant.
    final_rate: float = checked_field(0.02, at_least=0, at_most=1)
    weight_decay: float = checked_field(0.0, at_least=0, at_most=1)  # of AdamW; none for softmax and word table
    # Gradients are clipped to this norm. They are of the loss of a row's whole window.
    max_grad_norm: float = checked_field(10.0, above=0, former_name="gradient_clip")
    gradient_accumulation: int = checked_field(1, at_least=1)  # windows per step

    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = checked_field(1, at_least=0, at_most=LARGEST_SEED)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The shape of a model and its training. `elmore.recipe.read_recipe("small", Recipe)` reads a recipe by name."""

    shipped_in: ClassVar[str] = "pretraining"  # a folder of elmore/recipes

    model: ModelConfig = SMALL
    training: Training = Training()


@dataclass(frozen=True, kw_only=True)
class PretrainingSettings(RunSettings):
    """The settings of a pre-training run."""

    tensorboard: bool = False  # also write a log for TensorBoard
    hdf5: bool = False  # also write options.json and weights.hdf5


class FittedRecipe(NamedTuple):
    """A recipe that fits to a corpus, and notices of the changes."""

    recipe: Recipe
    notices: tuple[str, ...]


def fit_to_corpus(
    recipe: Recipe, *, tokens: int, vocabulary_size: int, processes: int = 1, fixed: Collection[str] = ()
) -> FittedRecipe:
    """Adapt a recipe to a small corpus, without changes of the fields named in `fixed`.

    >>> fit_to_corpus(Recipe(), tokens=500, vocabulary_size=24).notices[0]
    'the vocabulary of 24 words is too small for 8,192 negatives; the full softmax is trained'
    """
    training = recipe.training
    changes: dict[str, Any] = {}
    notices = []
    if training.negatives > vocabulary_size // 2 and "training.negatives" not in fixed:
        changes["negatives"] = 0
        notices.append(
            f"the vocabulary of {vocabulary_size:,} words is too small for {training.negatives:,} negatives; "
            "the full softmax is trained"
        )
    # A pair of input and target has two tokens, so there is one pair less than tokens.
    rows = (tokens - 1) // training.window
    rows -= rows % processes
    if 0 < rows < training.batch_size and "training.batch_size" not in fixed:
        changes["batch_size"] = rows
        notices.append(
            f"the corpus of {tokens:,} tokens is too short for {training.batch_size:,} rows of {training.window}; "
            f"training.batch_size is {rows:,}"
        )
    return FittedRecipe(replace(recipe, training=replace(training, **changes)), tuple(notices))
