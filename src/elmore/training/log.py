"""The log of a run: one JSON object a line, and a picture of the loss at the end."""

import json
import math
from pathlib import Path
from typing import Any

from elmore.errors import MissingExtra


class Log:
    """Appends to `log.jsonl`; when a run goes on from a checkpoint, what came after it is cut off first."""

    def __init__(self, path: Path, *, keep_until: int = 0) -> None:
        self.path = path
        kept = [entry for entry in read_log(path) if entry.get("step", 0) <= keep_until] if keep_until else []
        path.write_text("".join(json.dumps(entry) + "\n" for entry in kept))
        self._file = path.open("a", buffering=1)

    def write(self, **values: Any) -> None:
        """Add one object; numbers that JSON cannot hold become null."""
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
        self._file.write(json.dumps(finite) + "\n")

    def close(self) -> None:
        self._file.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """All entries of a log; a last line that was cut short is left out."""
    entries = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return entries


def plot_log(log: Path, picture: Path) -> None:
    """Draw the loss, and the perplexity on the held-out part, against the words read."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("the picture of the loss", library="matplotlib", extra="plots") from None
    entries = read_log(log)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    steps = [entry for entry in entries if "loss" in entry]
    axes.plot([e["tokens"] / 1e6 for e in steps], [e["loss"] for e in steps], color="#4477aa", linewidth=1)
    axes.set(xlabel="million words read", ylabel="training loss (sampled)")
    axes.spines[["top", "right"]].set_visible(False)
    if held_out := [entry for entry in entries if "heldout" in entry]:
        right = axes.twinx()
        right.plot([e["tokens"] / 1e6 for e in held_out], [e["heldout"] for e in held_out], "o-", color="#cc6677")
        right.set_yscale("log")
        right.set_ylabel("perplexity on the held-out part (full softmax)", color="#cc6677")
        right.spines["top"].set_visible(False)
    figure.savefig(picture, dpi=150)
