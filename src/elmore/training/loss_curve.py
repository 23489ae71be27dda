"""The loss curve of a run: the loss and the score on held-out data, drawn from the log."""

from pathlib import Path
from typing import Literal

from elmore.errors import MissingExtra
from elmore.files.atomic_files import atomic_write
from elmore.training.log import read_log


def plot_log(
    log: Path,
    image: Path,
    *,
    loss_name: str = "training loss",
    score_scale: Literal["linear", "log"] = "linear",
) -> None:
    """Draw the loss and the score on held-out data against the number of tokens."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter
    except ImportError:
        raise MissingExtra("the loss curve", library="matplotlib", extra="plots") from None
    entries = read_log(log)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    steps = [entry for entry in entries if "loss" in entry]
    axes.plot([e["tokens"] / 1e6 for e in steps], [e["loss"] for e in steps], color="#4477aa", linewidth=1)
    axes.set(xlabel="million tokens", ylabel=loss_name)
    axes.spines[["top", "right"]].set_visible(False)
    if heldout := [entry for entry in entries if "heldout" in entry]:
        right = axes.twinx()
        right.plot([e["tokens"] / 1e6 for e in heldout], [e["heldout"] for e in heldout], "o-", color="#cc6677")
        if score_scale == "log":
            right.set_yscale("log")
            # Ticks such as 40 and 60: all scores may lie between two powers of ten.
            right.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 6, 8)))
            right.yaxis.set_major_formatter(ScalarFormatter())
            right.yaxis.set_minor_formatter(NullFormatter())
        right.set_ylabel(heldout[-1]["metric"], color="#cc6677")
        right.spines["top"].set_visible(False)
    with atomic_write(image) as unfinished:
        figure.savefig(unfinished, dpi=150)
