"""The results of `cold_start.py` as a table for docs/performance.md."""

from pathlib import Path
from typing import Any

from kept_results import read, table

RESULTS = Path(__file__).resolve().parent / "results" / "cold_start.json"
REFERENCE = "import torch"


def report(found: dict[str, Any]) -> str:
    rows = [
        [name, f"{row['seconds']:.2f}", f"{row['relative']:.2f}", f"{row['peak_mb']:.0f}"]
        for name, row in found["rows"].items()
    ]
    return table(["command, new process", "seconds", "relative to `import torch`", "peak memory, MB"], rows)


def shown() -> str:
    return report(read(RESULTS))
