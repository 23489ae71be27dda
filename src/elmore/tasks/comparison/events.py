"""The events of a comparison. Each prints as text for people."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from elmore.display import pluralize
from elmore.tasks.comparison.plan import ComparisonRun
from elmore.tasks.comparison.store import EnsembleResult, RunResult
from elmore.tasks.comparison.table import Comparison
from elmore.training.events import Message, Progressed, duration


class Planned(NamedTuple):
    """The first event."""

    task: str
    variants: int
    seeds: int
    runs: int
    done: int  # by earlier calls
    jobs: int
    notices: tuple[str, ...]  # on the data

    def __str__(self) -> str:
        done = f", {self.done} of them already done" if self.done else ""
        parallel = f", {self.jobs} in parallel" if self.jobs > 1 else ""
        variants, seeds = pluralize(self.variants, "variant"), pluralize(self.seeds, "seed")
        runs = pluralize(self.runs, "training run")
        return "\n".join([f"{self.task}: {variants}, {seeds}: {runs}{done}{parallel}", *self.notices])


class TextEncoded(NamedTuple):
    """The biLM has encoded a part of the text, for all runs."""

    tokens: int
    total: int

    def __str__(self) -> str:
        return f"encoded {self.tokens:,} of {self.total:,} tokens with ELMo"


class RunStarted(NamedTuple):
    """A training run starts or resumes."""

    run: ComparisonRun
    resumes: bool

    def __str__(self) -> str:
        return f"{self.run}: {'resumes' if self.resumes else 'starts'}"


class RunProgressed(NamedTuple):
    """Progress of a training run, every few seconds."""

    run: ComparisonRun
    progress: Progressed

    def __str__(self) -> str:
        return f"{self.run}: {self.progress}"


class RunEvaluated(NamedTuple):
    """A training run has finished an epoch."""

    run: ComparisonRun
    epoch: int
    metric: str
    value: float

    def __str__(self) -> str:
        return f"{self.run}: epoch {self.epoch}, {self.metric} {self.value:.2f}"


class RunFinished(NamedTuple):
    """A training run is finished, and its result is stored."""

    run: ComparisonRun
    result: RunResult
    done: int
    runs: int
    seconds_left: float | None  # None: unknown

    def __str__(self) -> str:
        result = self.result
        tests = ", ".join(f"{name} {score.value:.2f}" for name, score in result.tests.items())
        left = "" if self.seconds_left is None else f", about {duration(self.seconds_left)} left"
        return (
            f"{self.run}: {result.metric} {tests}; dev {result.dev:.2f} after epoch {result.best_epoch} of "
            f"{result.epochs} ({self.done} of {self.runs} runs done{left})"
        )


class EnsembleScored(NamedTuple):
    """The ensemble of a variant is scored, and its result is stored."""

    name: str
    result: EnsembleResult

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(f'{name} {score.value:.2f}' for name, score in self.result.tests.items())}"


class RunFailed(NamedTuple):
    """A training run failed. The other runs continue."""

    run: ComparisonRun
    error: str
    details: Path  # the traceback

    def __str__(self) -> str:
        return f"{self.run}: failed: {self.error} (details in {self.details})"


class Interrupted(NamedTuple):
    """The last event after a stop request. All runs are saved."""

    done: int
    runs: int

    def __str__(self) -> str:
        return f"stopped; {self.done} of {self.runs} runs are done, and the others are saved"


class Reported(NamedTuple):
    """The last event of a complete comparison."""

    comparison: Comparison
    files: Mapping[str, Path]
    failed: int
    is_drawn: bool  # False without matplotlib

    def __str__(self) -> str:
        lines = [f"wrote {', '.join(str(path) for path in self.files.values())}"]
        if not self.is_drawn:
            lines.append("for plots, run pip install 'elmore[plots]' and the same command again")
        if self.failed:
            them = "it" if self.failed == 1 else "them"
            lines.append(f"{pluralize(self.failed, 'run')} failed; to repeat {them}, run the same command again")
        return "\n".join(lines)


Event = (
    Planned
    | Message
    | TextEncoded
    | RunStarted
    | RunProgressed
    | RunEvaluated
    | RunFinished
    | RunFailed
    | EnsembleScored
    | Interrupted
    | Reported
)
