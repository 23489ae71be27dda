"""Figure 2 of the paper: the weights of the layers that the models with ELMo learnt, of all tasks in one plot.

    python experiments/tasks/draw_mixes.py

Reads the results that are kept, and writes results/mixes.png.
"""

import argparse
import json
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from elmore.tasks.comparison.plan import WITH
from elmore.tasks.core.mix_plot import STYLE, plot_mixes

RESULTS = Path(__file__).parent / "results"
NAMES = ("squad", "snli", "mnli", "srl", "litbank", "ontogum", "wikineural", "wnut17", "sst", "ewt-upos", "ewt-xpos")


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    mixes = learned_mixes(RESULTS)
    if not mixes:
        raise SystemExit(f"{RESULTS}: no trainings with ELMo are kept; python experiments/tasks/run.py makes them")
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.5 + 0.85 * len(mixes), 2.8), layout="constrained")
        plot_mixes(figure.subplots(), mixes)
        figure.savefig(RESULTS / "mixes.png", dpi=200)
    print(f"wrote {RESULTS / 'mixes.png'}")


def learned_mixes(results: Path) -> dict[str, list[tuple[float, ...]]]:
    """By task and place, what each seed learnt on all of the data."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for name in NAMES:
        path = results / name / "results.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        for line in map(json.loads, lines):
            if (line["variant"], line["fraction"]) == (WITH, 1.0):
                for place, mix in line["mixes"].items():
                    found.setdefault(f"{name}\n{place}", []).append(tuple(mix["weights"]))
    return found


if __name__ == "__main__":
    main()
