"""Sentiment of sentences, as the Stanford Sentiment Treebank has it: five classes, from very negative to very positive.

Every phrase of a training sentence has its own label, and phrases of four or more tokens are trained on; scored are
whole sentences alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmore.display import pluralize
from elmore.fields import checked_field
from elmore.tasks.classification.task import ClassifierOptions, LabeledTokens, classification_task
from elmore.tasks.classification.trees import read_trees
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.task import Dataset


@dataclass(frozen=True, kw_only=True)
class SentimentOptions(ClassifierOptions):
    """[task] of sentiment."""

    phrases: bool = True  # train on the phrases of a sentence too, not on whole sentences alone
    shortest_phrase: int = checked_field(4, at_least=1)  # in tokens; 1 takes all subtrees
    binary: bool = False  # positive and negative only, neutral phrases left out


@dataclass(frozen=True, kw_only=True)
class SentimentRecipe(TaskRecipe):
    """How sentiment is learnt."""

    task: SentimentOptions = SentimentOptions()


def read(paths: Sequence[str | Path], options: SentimentOptions, *, to_train: bool) -> Dataset[LabeledTokens]:
    examples: list[LabeledTokens] = []
    short = neutral = 0
    for path in paths:
        for tree in read_trees(path):
            for phrase in tree.phrases:
                if not phrase.is_root and not (to_train and options.phrases):
                    continue
                if not phrase.is_root and len(phrase.tokens) < options.shortest_phrase:
                    short += 1
                    continue
                label = _binary(phrase.label) if options.binary else phrase.label
                if label is None:
                    neutral += 1
                    continue
                examples.append(LabeledTokens(phrase.tokens, label, f"{path}, line {tree.line}", phrase.is_root))
    notices = []
    if short:
        notices.append(f"{pluralize(short, 'phrase')} of fewer than {options.shortest_phrase} tokens left out")
    if neutral:
        notices.append(f"{pluralize(neutral, 'neutral phrase')} left out")
    return Dataset(examples, tuple(notices))


def _binary(label: str) -> str | None:
    return {"0": "negative", "1": "negative", "3": "positive", "4": "positive"}.get(label)


SENTIMENT = classification_task(
    "sentiment",
    "sentiment of sentences, from trees of the Stanford Sentiment Treebank",
    SentimentRecipe,
    read,
)
