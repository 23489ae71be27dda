"""How far vectors are from the original programs', from batch to batch and by rounding; rates of the native kernels.

`figures.py` puts them into pages.
"""

from pathlib import Path
from typing import Any

from kept_results import bound, constant, read, table

HERE = Path(__file__).resolve().parent
BENCHMARKS = HERE / "results"


def parity() -> str:
    rows = read(BENCHMARKS / "parity.json")["rows"]
    cells = [[row["program"], row["what"], f"{row['numbers']:,}", f"{row['largest_difference']:.0e}"] for row in rows]
    return table(["original program", "compared", "numbers", "largest difference"], cells, texts=2)


def parity_summary() -> str:
    """One row for each original program: all numbers compared, and the largest difference."""
    programs: dict[str, list[dict[str, Any]]] = {}
    for row in read(BENCHMARKS / "parity.json")["rows"]:
        for program in row["program"].split(", "):
            programs.setdefault(program.split()[0], []).append(row)
    cells = [
        [name, f"{sum(row['numbers'] for row in rows):,}", f"{max(row['largest_difference'] for row in rows):.0e}"]
        for name, rows in programs.items()
    ]
    return table(["original program", "numbers compared", "largest difference"], cells)


def equality() -> str:
    found = read(BENCHMARKS / "equality.json")["largest_difference"]
    ways = list(found["elmore-en"])
    return table(["", *ways], [[size, *(bound(row[way]) for way in ways)] for size, row in found.items()])


def largest_difference() -> list[str]:
    found = read(BENCHMARKS / "equality.json")["largest_difference"]
    return [bound(max(difference for row in found.values() for difference in row.values()))]


def native_recurrence() -> str:
    found = read(BENCHMARKS / "native_cpu.json")["recurrence_gflops"]
    numbers = list(next(iter(found.values())))
    return table(["size, rows x steps", *numbers], [[name, *map(str, row.values())] for name, row in found.items()])


def native_words() -> str:
    found = read(BENCHMARKS / "native_cpu.json")["microseconds_a_word"]
    numbers = list(next(iter(found.values())))
    return table(["size", *numbers], [[name, *map(str, row.values())] for name, row in found.items()])


def compute_error() -> str:
    found = read(BENCHMARKS / "compute_error.json")
    layers = [f"cosine, layer {number}" for number in range(len(found["cosine"]["float32"]))]
    rows = [
        [
            f"`{compute}`",
            *("1" if compute == "float32" else f"{cosine:.6f}" for cosine in cosines),
            f"{found['perplexity'][compute]:.2f}",
            f"{found['tagger'][compute]:.2f}",
            f"{found['word_in_context'][compute]:.2f}",
        ]
        for compute, cosines in found["cosine"].items()
    ]
    return table(["`compute`", *layers, "perplexity", "tagger, %", "words in context, %"], rows)


def compute_error_sizes() -> list[str]:
    script = HERE / "compute_error.py"
    return [constant(script, "COMPARED"), constant(script, "SCORED")]
