"""What `experiments/word-senses` measured, for its page; `figures.py` puts it there."""

from pathlib import Path
from typing import Any

from kept_results import read, table

RESULTS = Path(__file__).resolve().parents[1] / "experiments" / "word-senses" / "results"
TESTS = ("senseval2", "senseval3", "semeval2013", "semeval2015")
POS = {"noun": "four, NOUN", "verb": "four, VERB", "adj": "four, ADJ", "adv": "four, ADV"}


def rows(name: str) -> dict[str, Any]:
    found: dict[str, Any] = read(RESULTS / f"{name}.json")["rows"]
    return found


def senses() -> str:
    columns = [*TESTS, "four", *POS.values(), "semeval2007", "five"]
    cells = [[name, *(f"{row['scores'][column]:.1f}" for column in columns)] for name, row in rows("wsd").items()]
    return table(["vectors", *TESTS, "the four", *POS, "semeval2007 (dev)", "all five"], cells)


def pairs() -> str:
    cells = [
        [name, f"{row['dev']['dev accuracy']:.1f}", *(f"{row['scores'][part]:.1f}" for part in ("test", "scws"))]
        for name, row in rows("wic").items()
    ]
    return table(["vectors", "MCL-WiC dev", "test", "SCWS"], cells)


def answer() -> list[str]:
    found = rows("wsd")
    return [f"{found[name]['scores']['four']:.1f}" for name in ("layer 2", "layer 1", "first sense of WordNet")]


def pair_accuracies() -> list[str]:
    return [f"{rows('wic')[name]['scores']['test']:.1f}" for name in ("layer 2", "layer 1")]
