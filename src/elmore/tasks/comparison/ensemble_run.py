"""The models of all seeds of a variant, scored together on all test sets; what a process of its own does."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from elmore.tasks.comparison.cell_run import score_tests
from elmore.tasks.comparison.result import EnsembleResult
from elmore.tasks.core.trained_model import load
from elmore.training.graceful_stop import StoppableEvents

Files = Sequence[str | Path]


@dataclass(frozen=True, kw_only=True)
class EnsembleJob:
    """All that a process needs to score an ensemble."""

    variant: str
    fraction: float  # of the training examples
    seeds: tuple[int, ...]
    members: tuple[Path, ...]  # the folders of their runs
    counts: Path  # file for what each test example counted
    tests: Mapping[str, Files]
    cache: Path | None
    device: torch.device

    def __str__(self) -> str:
        share = f", {self.fraction:.3g} of the data" if self.fraction != 1 else ""
        return f"{self.variant}{share}, ensemble of {len(self.seeds)}"

    def start(self) -> StoppableEvents[EnsembleResult]:
        return StoppableEvents(self._events)

    def _events(self, _: Callable[[], bool]) -> Iterator[EnsembleResult]:
        model = load(self.members, device=self.device)
        tests = score_tests(model, self.tests, counts=self.counts, cache=self.cache)
        yield EnsembleResult(variant=self.variant, fraction=self.fraction, seeds=self.seeds, tests=tests)
