"""Training next to other processes, by how threads wait. `figures.py` puts the table into its page."""

from pathlib import Path
from statistics import median

from kept_results import read_lines, table

RESULTS = Path(__file__).resolve().parent / "results" / "parallel_training.jsonl"
HEAD = ["", "alone", "next to a busy core", "two at once", "speed of each of two", "processor time alone", "others"]


def shown() -> str:
    """A row for each kind of work and of waiting; of each kind of work the last measurement."""
    last = {line["work"]: line for line in read_lines(RESULTS)}
    rows = []
    for work, line in last.items():
        for form, runs in line["runs"].items():
            alone, busy, two = (median(run["seconds"] for run in runs[name]) for name in ("alone", "busy core", "two"))
            processor = median(run["processor"] for run in runs["alone"])
            others = max(run["others"] for of in runs.values() for run in of)
            seconds = [f"{value:.1f}" for value in (alone, busy, two)]
            rows.append([f"{work}, {form}", *seconds, f"{alone / two:.0%}", f"{processor:.1f}", f"{others:.0%}"])
    return table(HEAD, rows) if rows else ""
