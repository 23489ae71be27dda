"""What `embed_growth.py` measured, as tables and a plot; `figures.py` fills a page from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kept_results import read_lines, table

RESULTS = Path(__file__).resolve().parent / "results" / "embed_growth.jsonl"
HEADS = {
    "length": "words of a sentence",
    "batch": "sentences of a batch",
    "text": "words of the text",
    "words": "distinct words",
    "stream": "words of the stream so far",
}


def series_table(name: str, steps: Sequence[dict[str, Any]]) -> str:
    alone = any("alone" in step for step in steps)
    head = [
        HEADS[name],
        "words a second",
        "a second of processor time",
        *(["alone, ms of it"] if alone else []),
        "MB more",
    ]
    rows = []
    for step in steps:
        rows.append(
            [
                f"{step['value']:,}",
                f"{step['tokens_per_second']:,.0f}",
                f"{step['tokens_per_second_of_processor']:,.0f}",
                *([f"{1000 * step['value'] / step['alone_of_processor']:,.1f}"] if alone else []),
                f"{step['peak_mb']:,.0f}",
                f"{step['others']:.0%} + {step['niced']:.0%}",
            ]
        )
    return table([*head, "others had up to"], rows)


def report(line: dict[str, Any]) -> str:
    return "\n\n".join(series_table(name, found["steps"]) for name, found in line["series"].items())


def kept() -> dict[str, dict[str, Any]]:
    """The last line that has each series."""
    lines = read_lines(RESULTS)
    return {name: line for name in HEADS for line in lines if name in line["series"]}


def shown() -> str:
    return report({"series": {name: line["series"][name] for name, line in kept().items()}})


def conditions() -> list[str]:
    """Those of the first series."""
    line = next(iter(kept().values()))
    return [line["size"], line["compute"], str(line["threads"]), str(line["rounds"])]


def plot(path: Path) -> None:
    """A row of speed and a row of memory, a column for each series."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    series = {name: line["series"][name] for name, line in kept().items()}
    figure, axes = pyplot.subplots(
        2, len(series), figsize=(3.2 * len(series), 5.5), layout="constrained", squeeze=False
    )
    for column, (name, found) in enumerate(series.items()):
        steps = found["steps"]
        values = [step["value"] for step in steps]
        speed, memory = axes[:, column]
        speed.plot(values, [step["tokens_per_second_of_processor"] for step in steps], "o-")
        memory.plot(values, [step["peak_mb"] for step in steps], "o-", color="tab:red")
        memory.set_xlabel(HEADS[name])
        for one in (speed, memory):
            one.set_ylim(bottom=0)
            if name == "stream":
                one.locator_params(axis="x", nbins=4)
            else:
                one.set_xscale("log")
    axes[0, 0].set_ylabel("words a second of processor time")
    axes[1, 0].set_ylabel("MB more than at rest")
    figure.savefig(path, dpi=110)
