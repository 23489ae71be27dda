"""What a task's training does: the sections that every task's recipe shares.

A task's own recipe adds `[task]` to them (see `ner` for one), and a file of its name in `recipes/tasks/` fills it in:

    [task]          the model, as the task has it
    [words]         vectors of word types, and characters: what the model has without ELMo
    [elmo]          where the biLM's layers enter, and how they are mixed
    [training]      everything about the training itself
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
    """[task]: what the options of all tasks begin with."""

    token_style: Literal["auto", "moses", "penn", "nltk", "plain", "ud"] = "auto"  # of the data; "auto" finds out

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class WordOptions:
    """[words]: what is known of a word whatever its neighbours are."""

    # A file of GloVe's format, plain or packed; "random" vectors; or "none".
    vectors: str = "random"
    dim: int = checked_field(50, at_least=1)  # of random vectors; a file has its own
    trained: bool = True  # vectors from a file too; words that a file lacks always are
    lowercase: bool = True  # as the words of most files of vectors are
    min_count: int = checked_field(2, at_least=1)  # words that are rarer, and have no vector, are unknown
    character_filters: int = checked_field(0, at_least=0)  # of a character CNN of the model's own; 0: none
    character_dim: int = checked_field(16, at_least=1)
    character_width: int = checked_field(3, at_least=1)
    character_dropout: float = checked_field(0.0, at_least=0, at_most=0.95)  # on the characters' vectors

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class ElmoOptions:
    """[elmo]: where the layers of a biLM enter a model, and how they are mixed."""

    where: ElmoPlace = "input"  # beside the words, at the output of the model's first RNN, or both
    model: str = DEFAULT_MODEL  # a name or a path
    layers: int | str = (
        "all"  # a learned mix of all; "average"; "last", as TagLM has it; or the number of one, 0 context-free
    )
    penalty: float = checked_field(0.001, at_least=0)  # on the weights of the mix: the paper's lambda
    gamma: float = checked_field(
        1.0, above=0
    )  # the scale of the mix at first: normalised layers are large beside words
    train_gamma: bool = True  # else it stays so
    normalize: bool = False  # every layer of every token to mean 0 and variance 1
    dropout: float = checked_field(0.5, at_least=0, at_most=0.95)
    # frozen; first fine-tuned on the task's text as a language model, then frozen; or trained with the task.
    training: Literal["frozen", "fine-tuned", "joint"] = "frozen"
    fine_tuning_epochs: float = checked_field(1.0, above=0)
    learning_rate: float = checked_field(1e-4, above=0)  # of the biLM in joint training
    inside: bool = False  # put the biLM into the model's folder; without it the folder says which one it needs
    unfreeze_every: float = checked_field(1.0, at_least=0)  # epochs from one layer to the next below; 0: all at once

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
    # An epoch has at least so many steps, and reads a small set several times: it is scored once an epoch.
    min_epoch_steps: int = checked_field(1, at_least=1)
    patience: int = checked_field(10, at_least=0)  # epochs without a better score before it ends; 0: never before all
    batch_size: int = checked_field(32, at_least=1)  # examples
    optimizer: Literal["adam", "adamw", "adadelta", "sgd"] = "adam"
    learning_rate: float = checked_field(1e-3, above=0)
    weight_decay: float = checked_field(0.0, at_least=0, at_most=1)
    clip: float = checked_field(5.0, above=0)  # the largest norm of all gradients together
    # Where the score has not risen for some epochs, the rate is multiplied; 1 keeps it.
    plateau_factor: float = checked_field(1.0, above=0, at_most=1)
    plateau_patience: int = checked_field(2, at_least=1)
    # Scored and kept is a moving average of the weights, as 0.999 of it and 0.001 of the new ones; 0: the weights.
    average_decay: float = checked_field(0.0, at_least=0, at_most=0.999999)
    precision: Literal["float32", "bfloat16"] = "float32"  # of products on a GPU; all sums are float32
    fraction: float = checked_field(1.0, above=0, at_most=1)  # of the training examples, drawn by the seed
    seed: int = checked_field(1, at_least=0, at_most=LARGEST_SEED)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class TaskRecipe:
    """What the recipes of all tasks have; each puts its own options in the place of `task`."""

    shipped_in: ClassVar[str] = "tasks"  # a folder of elmore/recipes

    task: TaskOptions = TaskOptions()
    words: WordOptions = WordOptions()
    elmo: ElmoOptions = ElmoOptions()
    training: TrainingOptions = TrainingOptions()


def changed_fields(before: TaskRecipe, after: TaskRecipe) -> dict[str, Any]:
    """The fields in which one recipe differs from another.

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
