"""What a comparison tells while it runs. Each event prints as a line for people."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from elmore.display import pluralize
from elmore.tasks.comparison.result import CellResult, EnsembleResult
from elmore.tasks.comparison.table import Comparison
from elmore.tasks.comparison.variants import Cell
from elmore.training.events import Progressed, duration


class Planned(NamedTuple):
    """Before anything else."""

    task: str
    variants: int
    seeds: int
    cells: int
    done: int  # by an earlier try
    jobs: int
    notices: tuple[str, ...]  # what was left out of the data, and why

    def __str__(self) -> str:
        done = f", {self.done} of them done already" if self.done else ""
        beside = f", {self.jobs} at once" if self.jobs > 1 else ""
        variants, seeds = pluralize(self.variants, "variant"), pluralize(self.seeds, "seed")
        sizes = f"{variants}, {seeds}: {pluralize(self.cells, 'training')}"
        first = f"{self.task}: {sizes}{done}{beside}"
        return "\n".join([first, *self.notices])


class Told(NamedTuple):
    """Something that happened on the way, in words."""

    text: str

    def __str__(self) -> str:
        return self.text


class TextRead(NamedTuple):
    """ELMo has read a part of the text, for all trainings."""

    tokens: int
    total: int

    def __str__(self) -> str:
        return f"read {self.tokens:,} of {self.total:,} tokens with ELMo"


class CellStarted(NamedTuple):
    """A training begins, or goes on."""

    cell: Cell
    resumes: bool

    def __str__(self) -> str:
        return f"{self.cell}: {'goes on' if self.resumes else 'begins'}"


class CellProgressed(NamedTuple):
    """Now and then."""

    cell: Cell
    progress: Progressed

    def __str__(self) -> str:
        return f"{self.cell}: {self.progress}"


class CellEvaluated(NamedTuple):
    """A training has ended an epoch."""

    cell: Cell
    epoch: int
    metric: str
    value: float

    def __str__(self) -> str:
        return f"{self.cell}: epoch {self.epoch}, {self.metric} {self.value:.2f}"


class CellFinished(NamedTuple):
    """A training has ended, and its result is kept."""

    cell: Cell
    result: CellResult
    done: int
    cells: int
    seconds_left: float | None  # None: unknown

    def __str__(self) -> str:
        result = self.result
        tests = ", ".join(f"{name} {score.value:.2f}" for name, score in result.tests.items())
        left = "" if self.seconds_left is None else f", about {duration(self.seconds_left)} left"
        return (
            f"{self.cell}: {result.metric} {tests}; dev {result.dev:.2f} after epoch {result.best_epoch} of "
            f"{result.epochs} ({self.done} of {self.cells} trainings done{left})"
        )


class EnsembleScored(NamedTuple):
    """The models of all seeds of a variant have decided together, and what came of it is kept."""

    name: str
    result: EnsembleResult

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(f'{name} {score.value:.2f}' for name, score in self.result.tests.items())}"


class CellFailed(NamedTuple):
    """A training could not be ended; the others go on."""

    cell: Cell
    error: str
    details: Path  # the traceback

    def __str__(self) -> str:
        return f"{self.cell}: failed: {self.error} (more in {self.details})"


class Interrupted(NamedTuple):
    """After the user asked for it; all trainings are saved."""

    done: int
    cells: int

    def __str__(self) -> str:
        return f"stopped, with {self.done} of {self.cells} trainings done, and the others saved"


class Reported(NamedTuple):
    """At the end."""

    comparison: Comparison
    files: Mapping[str, Path]
    failed: int
    is_drawn: bool  # False without matplotlib

    def __str__(self) -> str:
        lines = [f"wrote {', '.join(str(path) for path in self.files.values())}"]
        if not self.is_drawn:
            lines.append("for plots: pip install 'elmore[plots]', and give the same command again")
        if self.failed:
            tries = "tries it" if self.failed == 1 else "tries them"
            lines.append(f"{pluralize(self.failed, 'training')} failed; the same command {tries} again")
        return "\n".join(lines)


Event = (
    Planned
    | Told
    | TextRead
    | CellStarted
    | CellProgressed
    | CellEvaluated
    | CellFinished
    | CellFailed
    | EnsembleScored
    | Interrupted
    | Reported
)
