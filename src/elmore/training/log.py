"""The log of a run: one JSON object per line for each logged step and each evaluation."""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from elmore.files.atomic_files import atomic_write
from elmore.files.os_errors import cannot_be_written
from elmore.training.events import Evaluated, Progressed


class Log(Protocol):
    """Stores numbers by step."""

    def rewind(self, step: int) -> None: ...

    def write(self, *, step: int, **values: Any) -> None: ...

    def close(self) -> None: ...


class JsonLog:
    """Appends to `log.jsonl`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def rewind(self, step: int) -> None:
        """Remove the entries after a step, because the run rolls back to it; -1 removes all."""
        self.close()
        entries = [entry for entry in read_log(self.path) if entry.get("step", 0) <= step]
        with atomic_write(self.path) as unfinished:
            unfinished.write_text("".join(json.dumps(entry) + "\n" for entry in entries))

    def write(self, *, step: int, **values: Any) -> None:
        """Append one object; NaN and infinity become null."""
        try:
            if self._file is None:
                self._file = self.path.open("a", buffering=1)
            self._file.write(json.dumps(_as_json({"step": step, **values})) + "\n")
        except OSError as error:
            raise cannot_be_written(self.path, error) from error

    def close(self) -> None:
        if self._file is not None:
            # After a failed write to a full disk, close() would fail again.
            with suppress(OSError):
                self._file.close()
            self._file = None


class RunLog:
    """Writes steps and evaluations to all logs of a run; only rank 0 has logs."""

    def __init__(self, logs: Sequence[Log], *, tokens_per_step: float) -> None:
        self._logs, self._tokens_per_step = logs, tokens_per_step

    def rewind(self, step: int) -> None:
        """Remove the entries after a step; -1 removes all."""
        for log in self._logs:
            log.rewind(step)

    def write_step(self, progress: Progressed) -> None:
        """Add the numbers of one step."""
        step = progress.step
        self._write(
            step.number,
            epoch=round(progress.epoch, 4),
            tokens=self._tokens_at(step.number),
            loss=step.loss,
            **progress.metrics,
            gradient_norm=step.gradient_norm,
            learning_rate=step.learning_rate,
            tokens_per_second=round(progress.tokens_per_second),
        )

    def write_evaluation(self, evaluated: Evaluated) -> None:
        """Add an evaluation with the name of its metric."""
        step, evaluation = evaluated.number, evaluated.evaluation
        self._write(
            step,
            tokens=self._tokens_at(step),
            metric=evaluation.metric,
            heldout=evaluation.score,
            heldout_each=evaluation.parts,
        )

    def close(self) -> None:
        for log in self._logs:
            log.close()

    def _write(self, step: int, **values: Any) -> None:
        for log in self._logs:
            log.write(step=step, **values)

    def _tokens_at(self, step: int) -> int:
        return round(step * self._tokens_per_step)


def read_log(path: Path) -> list[dict[str, Any]]:
    """All entries of a log, without an incomplete last line."""
    entries = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return entries


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _as_json(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
