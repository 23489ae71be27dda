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

import kernel_figures
import numpy as np

from elmore import __version__
from elmore.config import MEDIUM, ORIGINAL, SMALL
from elmore.defaults import ComputeName
from elmore.engine.cpu_engine import CpuEngine, HiddenState
from elmore.engine.native_engine import PRECISIONS, NativeEngine
from elmore.engine.native_library import why_unavailable
from elmore.engine.numpy_engine import NumpyEngine
from elmore.engine.rows import RowSteps
from elmore.engine.threads import set_threads
from elmore.formats.checkpoint import Checkpoint
from elmore.sources.tiny_random import random_tensors
from elmore.text.word_ids import WordIndexer

RESULTS = Path(__file__).resolve().parent / "results" / "native_cpu.json"
SIZES = {"small": SMALL, "medium": MEDIUM, "original": ORIGINAL}
STEPS, WORDS, REPEATS = 24, 1024, 5


def main() -> None:
    set_threads(1)
    usable: list[ComputeName] = [name for name, precision in PRECISIONS.items() if why_unavailable(precision) is None]
    found: dict[str, dict[str, object] | str] = {"elmore": __version__, "machine": platform.machine()}
    recurrence: dict[str, object] = {}
    words: dict[str, object] = {}
    for size, config in SIZES.items():
        checkpoint = Checkpoint(config=config, tensors=random_tensors(config, seed=1, gain=1.0))
        engines: dict[str, CpuEngine] = {name: NativeEngine(checkpoint, name) for name in usable}
        for rows in (80, 1):
            recurrence[f"{size}, {rows} x {STEPS}"] = {
                name: recurrence_gflops(engine, rows) for name, engine in engines.items()
            }
        words[size] = {
            name: microseconds_a_word(engine) for name, engine in {"numpy": NumpyEngine(checkpoint), **engines}.items()
        }
    found |= {"recurrence_gflops": recurrence, "microseconds_a_word": words}
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    print(kernel_figures.native_recurrence(), kernel_figures.native_words(), sep="\n\n")


def recurrence_gflops(engine: CpuEngine, rows: int) -> float:
    """Of one layer, both directions; products of the weights with inputs, outputs and cells are counted."""
    config, random = engine.config, np.random.default_rng(1)
    x = random.normal(size=(2, STEPS, rows, config.vector_dim)).astype(np.float32)
    sizes = (config.vector_dim, config.cell_dim)
    state = HiddenState(*(np.zeros((2, rows, size), np.float32) for size in sizes))
    steps = RowSteps(np.zeros((2, STEPS, rows), np.int64), np.full(rows, STEPS), None)
    seconds = best_seconds(lambda: engine._run_layer(0, x, steps, state))
    products = 2 * STEPS * rows * 9 * config.vector_dim * config.cell_dim
    return round(2 * products / seconds / 1e9)


def microseconds_a_word(engine: CpuEngine) -> float:
    words = [f"{number * number}th-word"[-6 - number % 5 :] for number in range(WORDS)]
    ids = WordIndexer(engine.config).index(words)
    return round(best_seconds(lambda: engine.encode_words(ids)) / WORDS * 1e6)


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
