"""How good the tagger inside is; `figures.py` puts it into pages."""

from pathlib import Path
from typing import Any

from kept_results import read

SCORES = Path(__file__).resolve().parents[1] / "experiments" / "pos-tagger" / "results" / "scores.json"


def scores() -> Any:
    return read(SCORES)


def accuracy() -> list[str]:
    return [f"{scores()['test']['value']:.1f}"]


def answer() -> list[str]:
    return [f"{scores()['bytes'] / 1e6:.1f}", *accuracy()]


def rounding() -> list[str]:
    found = scores()
    return [str(found["test_tags_changed_by_float16"]), f"{found['test']['gold']:,.0f}"]
