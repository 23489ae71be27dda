"""The log of a run: one JSON object a line, and the same for TensorBoard if asked for."""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from elmore.errors import MissingExtra
from elmore.files.atomic_files import atomic_write
from elmore.files.os_errors import cannot_be_written
from elmore.training.run_folder import RunFolder


class Log(Protocol):
    """Something that keeps numbers by step."""

    def rewind(self, step: int) -> None: ...

    def write(self, *, step: int, **values: Any) -> None: ...

    def close(self) -> None: ...


def open_logs(folder: RunFolder, *, tensorboard: bool) -> list[Log]:
    """All logs of a run; nothing is written yet."""
    logs: list[Log] = [JsonLog(folder.log)]
    if tensorboard:
        logs.append(TensorBoardLog(folder.tensorboard))
    return logs


class JsonLog:
    """Appends to `log.jsonl`, from which everything else can be drawn."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def rewind(self, step: int) -> None:
        """Forget what came after a step, because the run goes back to it; -1 forgets all."""
        self.close()
        kept = [entry for entry in read_log(self.path) if entry.get("step", 0) <= step]
        with atomic_write(self.path) as unfinished:
            unfinished.write_text("".join(json.dumps(entry) + "\n" for entry in kept))

    def write(self, *, step: int, **values: Any) -> None:
        """Add one object; numbers that JSON cannot hold become null."""
        try:
            if self._file is None:
                self._file = self.path.open("a", buffering=1)
            self._file.write(json.dumps(_storable({"step": step, **values})) + "\n")
        except OSError as error:
            raise cannot_be_written(self.path, error) from error

    def close(self) -> None:
        if self._file is not None:
            # What a full disk did not take must not fail again when the file is closed.
            with suppress(OSError):
                self._file.close()
            self._file = None


class TensorBoardLog:
    """The same for TensorBoard, in a folder of its own; the library is looked for at once."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("--tensorboard", library="tensorboard", extra="tensorboard") from None
        self.folder = folder
        self._open = SummaryWriter
        self._writer: SummaryWriter | None = None

    def rewind(self, step: int) -> None:
        """Have TensorBoard leave out what came after a step."""
        self.close()
        self._writer = self._open(str(self.folder), purge_step=step + 1)

    def write(self, *, step: int, **values: Any) -> None:
        """Add every number, and every number of a table by its name there."""
        assert self._writer is not None
        for name, value in values.items():
            if isinstance(value, Mapping):
                for part, single in value.items():
                    self._writer.add_scalar(f"{name}/{part}", single, step)
            elif isinstance(value, int | float):
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def read_log(path: Path) -> list[dict[str, Any]]:
    """All entries of a log; a last line that was cut short is left out."""
    entries = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return entries


def _storable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _storable(single) for name, single in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
