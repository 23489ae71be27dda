"""Any labels for any texts, from a table with a text and a label in each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmore.tasks.classification.task import ClassifierOptions, LabeledTokens, classification_task
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.task import Dataset
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.readers.labeled_text import read_labeled_text


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(ClassifierOptions):
    """[task] of classification."""

    text_column: int | str | None = None  # by name or number; found out where it is left out
    label_column: int | str | None = None
    tokenized: bool = False  # the texts are tokens with blanks between them


@dataclass(frozen=True, kw_only=True)
class ClassifyRecipe(TaskRecipe):
    """How labels are learnt."""

    task: ClassifyOptions = ClassifyOptions()


def read(paths: Sequence[str | Path], options: ClassifyOptions, *, to_train: bool) -> Dataset[LabeledTokens]:  # noqa: ARG001
    """All rows of some tables; every text is one sequence of tokens."""
    tokenizer = StyledTokenizer("moses")
    examples = []
    for path in paths:
        for row in read_labeled_text(path, text_column=options.text_column, label_column=options.label_column):
            tokens = row.text.split(" ") if options.tokenized else tokenizer.tokens(row.text).tokens
            examples.append(LabeledTokens([token for token in tokens if token], row.label, f"{path}, line {row.line}"))
    return Dataset(examples)


CLASSIFY = classification_task(
    "classify",
    "one label for a text, from a table of texts and labels",
    ClassifyRecipe,
    read,
)
