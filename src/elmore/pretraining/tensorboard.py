"""A log of a run for TensorBoard."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmore.errors import MissingExtra


class TensorBoardLog:
    """Writes the numbers of `log.jsonl` to a folder of TensorBoard; a `training.log.Log`.

    Raises MissingExtra at once if TensorBoard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("--tensorboard", library="tensorboard", extra="tensorboard") from None
        self.folder = folder
        self._open = SummaryWriter
        self._writer: SummaryWriter | None = None

    def rewind(self, step: int) -> None:
        """Make TensorBoard ignore the entries after a step."""
        self.close()
        self._writer = self._open(str(self.folder), purge_step=step + 1)

    def write(self, *, step: int, **values: Any) -> None:
        """Add every number, and the numbers of a table under its name."""
        assert self._writer is not None
        for name, value in values.items():
            if isinstance(value, Mapping):
                for part, number in value.items():
                    self._writer.add_scalar(f"{name}/{part}", number, step)
            elif isinstance(value, int | float):
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
