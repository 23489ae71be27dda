"""What `experiments/ablations` measured, for its page and for `docs/results.md`."""

from pathlib import Path
from typing import Any

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


def tagger_errors() -> list[str]:
    """By how many per cent a tagger's errors become more: without characters, residual connection, direction, layer."""
    lacking = ("words instead of characters", "no residual connection", "forward only", "backward only", "one layer")
    return [f"{-100 * _gains('ewt-upos')[variant]['EWT']['error_reduction']:.1f}" for variant in lacking]


def sentiment_gain() -> list[str]:
    return [f"{_gains('sst')['full biLM']['SST-5']['gain']:.1f}"]


def _gains(name: str) -> dict[str, dict[str, Any]]:
    return {row["variant"]: row["gains"] for row in read(RESULTS / name / "table.json")["rows"]}
