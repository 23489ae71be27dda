"""The recipe of a task: options of the model and of its training.

    [task]          options of the task's model; each task has a subclass of `TaskOptions`
    [words]         word vectors and a character CNN: the inputs besides ELMo
    [elmo]          where the biLM's layers enter the model, and how they are mixed
    [training]      optimizer, epochs, seed

The default recipe of a task is the file with its name in `recipes/tasks/`.
"""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from elmore.defaults import DEFAULT_MODEL
from elmore.errors import InputError
from elmore.fields import check_fields, checked_field
from elmore.recipe import LARGEST_SEED

ElmoPlace = Literal["none", "input", "output", "both"]


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """[task]: the options that all tasks have."""

    token_style: Literal["auto", "moses", "penn", "nltk", "plain", "ud"] = "auto"  # of the data; "auto": detected

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class WordOptions:
    """[words]: word vectors and characters, which do not depend on the context."""

    # A file in GloVe's format, plain or compressed; "random" vectors; or "none".
    vectors: str = "random"
    dim: int = checked_field(50, at_least=1)  # of random vectors; vectors from a file have the dimension of the file
    trained: bool = True  # whether vectors from a file are trained; the vectors of other words always are
    lowercase: bool = True  # most files of word vectors are lowercase
    min_count: int = checked_field(2, at_least=1)  # rarer words without a vector in the file are unknown
    character_filters: int = checked_field(0, at_least=0)  # of the model's character CNN; 0: no CNN
    character_dim: int = checked_field(16, at_least=1)
    character_width: int = checked_field(3, at_least=1)
    character_dropout: float = checked_field(0.0, at_least=0, at_most=0.95)  # on the character vectors

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class ElmoOptions:
    """[elmo]: where the layers of a biLM enter the model, and how they are mixed."""

    where: ElmoPlace = "input"  # with the word vectors, at the output of the model's first RNN, or both
    model: str = DEFAULT_MODEL  # a name or a path
    # "all": a trained mix of all layers; "average"; "last", as in TagLM; or the number of a layer, 0: context-free.
    layers: int | str = "all"
    penalty: float = checked_field(0.001, at_least=0)  # on the mix weights: lambda of the paper
    # The initial scale of the mix. Normalized layers have larger values than word vectors.
    gamma: float = checked_field(1.0, above=0)
    train_gamma: bool = True
    normalize: bool = False  # each layer of each token to mean 0 and variance 1
    dropout: float = checked_field(0.5, at_least=0, at_most=0.95)
    # Frozen; fine-tuned as a language model on the task's text, then frozen; or trained with the task.
    training: Literal["frozen", "fine-tuned", "joint"] = "frozen"
    fine_tuning_epochs: float = checked_field(1.0, above=0)
    learning_rate: float = checked_field(1e-4, above=0)  # of the biLM in joint training
    inside: bool = False  # store the biLM in the model's folder; if False, the folder stores a reference
    # Epochs until the next lower layer of the biLM is unfrozen; 0: all layers are trained from the start.
    unfreeze_every: float = checked_field(1.0, at_least=0)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.layers not in ("all", "average", "last") and not isinstance(self.layers, int):
            raise InputError(f"layers is {self.layers!r}; it must be all, average, last, or the number of a layer")

    @property
    def is_used(self) -> bool:
        return self.where != "none"


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """[training]: how a task's model is trained."""

    epochs: int = checked_field(75, at_least=1)  # at most
    # The minimum number of steps per epoch. An epoch repeats a small training set; the dev set is scored once.
    min_epoch_steps: int = checked_field(1, at_least=1)
    patience: int = checked_field(10, at_least=0)  # epochs without a better score before training stops; 0: no limit
    batch_size: int = checked_field(32, at_least=1)  # examples
    optimizer: Literal["adam", "adamw", "adadelta", "sgd"] = "adam"
    learning_rate: float = checked_field(1e-3, above=0)
    weight_decay: float = checked_field(0.0, at_least=0, at_most=1)
    clip: float = checked_field(5.0, above=0)  # the maximum norm of all gradients
    # The factor of the learning rate after `plateau_patience` epochs without a better score; 1: no change.
    plateau_factor: float = checked_field(1.0, above=0, at_most=1)
    plateau_patience: int = checked_field(2, at_least=1)
    # The decay of a moving average of the weights, which is scored and saved; 0: the weights are scored and saved.
    average_decay: float = checked_field(0.0, at_least=0, at_most=0.999999)
    precision: Literal["float32", "bfloat16"] = "float32"  # of products on a GPU; sums are float32
    fraction: float = checked_field(1.0, above=0, at_most=1)  # of the training examples, sampled with the seed
    seed: int = checked_field(1, at_least=0, at_most=LARGEST_SEED)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class TaskRecipe:
    """The sections of all recipes. The recipe of a task has the options of the task as `task`."""

    shipped_in: ClassVar[str] = "tasks"  # a folder of elmore/recipes

    task: TaskOptions = TaskOptions()
    words: WordOptions = WordOptions()
    elmo: ElmoOptions = ElmoOptions()
    training: TrainingOptions = TrainingOptions()


def changed_fields(before: TaskRecipe, after: TaskRecipe) -> dict[str, Any]:
    """The fields of `after` that differ from `before`.

    >>> from elmore.recipe import apply_overrides
    >>> changed_fields(TaskRecipe(), apply_overrides(TaskRecipe(), {"training.seed": 3}))
    {'training.seed': 3}
    """
    old, new = asdict(before), asdict(after)
    return {
        f"{section}.{name}": value
        for section, values in new.items()
        for name, value in values.items()
        if value != old[section][name]
    }
