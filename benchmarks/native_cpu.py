"""How fast are the native CPU kernels by themselves? Prints a table: one layer's recurrence, and the word encoder.

    python benchmarks/native_cpu.py

On one thread and in CPU time, the best of several runs, so that other work on the machine matters little. Weights are
random. Results go to results/native_cpu.json.
"""

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

import figures
import torch

from elmore import __version__
from elmore.config import MEDIUM, ORIGINAL, SMALL, ModelConfig
from elmore.kernels.native_library import Number, native_obstacle
from elmore.kernels.selection import kernels_named
from elmore.network.bilm import BiLM
from elmore.network.initialization import initialize
from elmore.text.spelling import Speller

RESULTS = Path(__file__).resolve().parent / "results" / "native_cpu.json"
SIZES = {"small": SMALL, "medium": MEDIUM, "original": ORIGINAL}
KERNELS = {"float32": "native", "bfloat16": "native-bfloat16", "int8": "native-int8"}
STEPS, WORDS, REPEATS = 24, 1024, 5


def main() -> None:
    torch.set_num_threads(1)
    usable = [number for number in KERNELS if native_obstacle(Number[number.upper()]) is None]
    found = {
        "elmore": __version__,
        "torch": torch.__version__,
        "machine": platform.machine(),
        "recurrence_gflops": {},
        "microseconds_a_word": {},
    }
    for size, config in SIZES.items():
        network = BiLM(config).eval().requires_grad_(False)
        initialize(network, torch.Generator().manual_seed(1))
        for rows in (80, 1):
            found["recurrence_gflops"][f"{size}, {rows} x {STEPS}"] = {
                number: recurrence_gflops(network, KERNELS[number], rows) for number in usable
            }
        found["microseconds_a_word"][size] = {
            number: microseconds_a_word(network, config, kernels)
            for number, kernels in {"torch": "reference", **{number: KERNELS[number] for number in usable}}.items()
        }
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    print(figures.native_recurrence(), figures.native_words(), sep="\n\n")


def recurrence_gflops(network: BiLM, kernels: str, rows: int) -> float:
    """Of one layer, both directions; products of the weights with inputs, outputs and cells are counted."""
    layer, config = network.lstm[0], network.config
    recurrence = kernels_named(kernels).recurrence
    x = torch.randn(2, STEPS, rows, config.vector_dim)
    state = (torch.zeros(2, rows, config.vector_dim), torch.zeros(2, rows, config.cell_dim))
    seconds = best_seconds(lambda: layer(x, [STEPS] * rows, state, recurrence=recurrence))
    products = 2 * STEPS * rows * 9 * config.vector_dim * config.cell_dim
    return round(2 * products / seconds / 1e9)


def microseconds_a_word(network: BiLM, config: ModelConfig, kernels: str) -> float:
    words = [f"{number * number}th-word"[-6 - number % 5 :] for number in range(WORDS)]
    inputs = Speller(config).spell(words)
    network.use_kernels(kernels)
    return round(best_seconds(lambda: network.words(inputs)) / WORDS * 1e6)


def best_seconds(run: Callable[[], object]) -> float:
    run()
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)


if __name__ == "__main__":
    main()
