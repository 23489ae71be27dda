"""Before the trainings of a comparison: its data are read and checked, and ELMo's layers put into the cache."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmore.embedding.embedder import Embedder
from elmore.errors import InputError, error_context
from elmore.model import load
from elmore.sources.urls import without_credentials
from elmore.tasks.comparison.events import TextRead
from elmore.tasks.comparison.variants import Cell
from elmore.tasks.core.assembly import find_token_style
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.registry import find_task
from elmore.tasks.core.task import Labels, Task, token_sequences
from elmore.tasks.inputs.layer_cache import LayerCache, LayerReader
from elmore.training.graceful_stop import StoppableEvents

Files = Sequence[str | Path]


class ComparisonData(NamedTuple):
    """The examples of a comparison."""

    train: list[Any]
    dev: list[Any]
    tests: Mapping[str, list[Any]]
    labels: Labels
    notices: tuple[str, ...]


def read_data(
    task: Task[Any, Any], recipe: TaskRecipe, *, train: Files, dev: Files, tests: Mapping[str, Files]
) -> ComparisonData:
    """All examples; what could not be scored at the end is refused now, and not after hours of training."""
    notices: list[str] = []

    def read(name: str, files: Files, *, to_train: bool = False) -> list[Any]:
        data = task.read(files, recipe.task, to_train=to_train)
        if not data.examples:
            raise InputError(f"{', '.join(map(str, files))}: no examples")
        notices.extend(f"{name}: {text}" for text in data.notices)
        return data.examples

    examples = read("train", train, to_train=True)
    labels = task.labels(examples, recipe.task)
    # Pairs, for a test set may be called dev too.
    scored = [("dev", read("dev", dev)), *((name, read(name, files)) for name, files in tests.items())]
    for name, own in scored:
        with error_context(name):
            task.check(own, labels)
        notices.extend(f"{name}: {text}" for text in task.unseen(own, labels))
    (_, chosen_by), *rest = scored
    return ComparisonData(examples, chosen_by, dict(rest), labels, tuple(notices))


class BilmRead(NamedTuple):
    """A biLM is about to read."""

    name: str
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class FillCache:
    """The job of reading all text with every biLM that stays as it is, once, before the trainings that share it."""

    task: str | Task[Any, Any]  # a task itself cannot be sent to another process
    recipes: tuple[TaskRecipe, ...]
    train: Files
    dev: Files
    tests: Mapping[str, Files]
    cache: Path
    device: torch.device

    @staticmethod
    def recipes_of(cells: Sequence[Cell]) -> tuple[TaskRecipe, ...]:
        """One recipe for each biLM that some cells read with."""
        used = [cell.recipe for cell in cells if cell.recipe.elmo.is_used]
        return tuple({(recipe.elmo.model, recipe.elmo.training): recipe for recipe in used}.values())

    def start(self) -> StoppableEvents[BilmRead | TextRead]:
        return StoppableEvents(self._events)

    def _events(self, stop_asked: Callable[[], bool]) -> Iterator[BilmRead | TextRead]:
        task = find_task(self.task) if isinstance(self.task, str) else self.task
        for recipe in self.recipes:
            model = load(recipe.elmo.model)
            yield BilmRead(without_credentials(recipe.elmo.model), model.fingerprint())
            if recipe.elmo.training != "frozen":
                continue
            data = read_data(task, recipe, train=self.train, dev=self.dev, tests=self.tests)
            style = find_token_style(task, recipe, data.train)
            cache = LayerCache(LayerReader(Embedder(model, device=self.device), token_style=style), self.cache)
            # What is read in every epoch first, should there not be room for all.
            examples = [*data.train, *data.dev, *(example for own in data.tests.values() for example in own)]
            sentences = token_sequences(task, examples)
            done, total = 0, sum(map(len, sentences))
            for part in cache.add_in_parts(sentences):
                done += part.tokens
                yield TextRead(done, total)
                if stop_asked():
                    return
