"""What `experiments/ablations` measured, for its page and for `docs/results.md`."""

from pathlib import Path

from kept_results import read, table
from task_comparison_figures import markdown_table

RESULTS = Path(__file__).resolve().parents[1] / "experiments" / "ablations" / "results"
WAYS = ("forward", "backward")


def pretraining() -> str:
    found = read(RESULTS / "pretraining.json")
    cells = [
        [
            name,
            f"{row['words_read'] / 1e6:.1f}",
            str(row["seconds"]),
            *(f"{row['perplexity']['each'][way]:.1f}" if way in row["perplexity"]["each"] else "" for way in WAYS),
        ]
        for name, row in found.items()
    ]
    head = ["biLM", "million words read", "seconds, side by side", *(f"perplexity, {way}" for way in WAYS)]
    return table(head, cells) if cells else ""


def comparison(name: str) -> str:
    return markdown_table(RESULTS / name / "table.md")
