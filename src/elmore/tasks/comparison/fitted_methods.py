"""Methods that are fitted in one reading are refused: a comparison tells of epochs, seeds and gradients."""

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch

from elmore.errors import InputError
from elmore.tasks.core.config import ElmoOptions, TaskOptions, TaskRecipe, WordOptions
from elmore.tasks.core.task import FittedModel, Labels, Task
from elmore.tasks.inputs.embedder import BilmShape, TokenEmbedder
from elmore.tasks.inputs.vocabulary import TokenVocabulary


def refuse_fitted(task: Task[Any, Any], recipes: Iterable[TaskRecipe], labels: Labels) -> None:
    """An error if the model of one of these recipes is not trained in epochs; it names those that are."""
    for options in dict.fromkeys(recipe.task for recipe in recipes):
        if not _is_fitted(task, options, labels):
            continue
        trained = [
            (name, value)
            for name, value in _other_choices(options)
            if not _is_fitted(task, replace(options, **{name: value}), labels)
        ]
        chosen = "".join(f" with task.{name} {getattr(options, name)}" for name in dict.fromkeys(n for n, _ in trained))
        advice = "".join(f"compare --task.{name} {value}, or " for name, value in trained)
        raise InputError(
            f"{task.name}{chosen} is fitted in one reading, and what is compared is trained in epochs; {advice}measure "
            "it with elmore train and elmore evaluate"
        )


def _is_fitted(task: Task[Any, Any], options: TaskOptions, labels: Labels) -> bool:
    # What a method is, its model alone tells, so one is built: a small one, whatever biLM it will have.
    with torch.random.fork_rng(devices=[]):
        embedder = TokenEmbedder(WordOptions(vectors="none"), ElmoOptions(), TokenVocabulary(), bilm=BilmShape(2, 1))
        return isinstance(task.build(options, labels, embedder), FittedModel)


def _other_choices(options: TaskOptions) -> Iterator[tuple[str, Any]]:
    """What else the fields of [task] that are choices could be."""
    kinds = get_type_hints(type(options))
    for one in fields(options):
        if get_origin(kinds[one.name]) is Literal:
            own = getattr(options, one.name)
            yield from ((one.name, value) for value in get_args(kinds[one.name]) if value != own)
