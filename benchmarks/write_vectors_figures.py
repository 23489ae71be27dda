"""The results of `write_vectors.py` as a table for docs/performance.md."""

from pathlib import Path
from typing import Any

from kept_results import read, table

RESULTS = Path(__file__).resolve().parent / "results" / "write_vectors.json"
LAYERS = {"average": "one vector per word", "all": "three layers"}


def report(found: dict[str, Any]) -> str:
    kinds = [name for name, figures in found["average"].items() if isinstance(figures, dict)]
    heads = [f"{shown}, {what}" for shown in LAYERS.values() for what in ("relative speed", "CPU seconds per GB")]
    rows = []
    for kind in kinds:
        each = [found[layers][kind] for layers in LAYERS]
        cells = [(f"{one['of_sequential']:.2f}", f"{one['processor_seconds_per_gigabyte']:.2f}") for one in each]
        rows.append([kind, *(cell for pair in cells for cell in pair)])
    return table(["file", *heads], rows)


def shown() -> str:
    return report(read(RESULTS))
