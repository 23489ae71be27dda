"""How equal are the vectors of one sentence, whatever it is read with? Prints a table: the largest differences.

    python benchmarks/equality.py [--engine native] [SIZE ...]

By the numpy engine, whose differences the table shows, or by the native one, which has none. Each size (small,
medium, original, elmore-en; all unless some are named) reads the sentences of examples/senses.txt on the CPU in
float32, all at once on one thread, and then in other ways. The published sizes have random weights, always the same;
elmore-en is the model inside. Results go to results/equality.json, where sizes that were not asked for keep theirs.
"""

import argparse
import json
import platform
from collections.abc import Callable
from pathlib import Path

import kernel_figures
import numpy as np
import torch
from numpy.typing import NDArray

from elmore import Embedder, __version__, load
from elmore.config import MEDIUM, ORIGINAL, SMALL, ModelConfig
from elmore.defaults import EngineName
from elmore.engine.threads import set_threads
from elmore.formats import Checkpoint
from elmore.model import Model
from elmore.sources.tiny_random import random_tensors

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "equality.json"
SENTENCES = [line.split("\t")[-1] for line in (HERE.parent / "examples" / "senses.txt").read_text().splitlines()]
SIZES = {"small": SMALL, "medium": MEDIUM, "original": ORIGINAL}
MODELS = (*SIZES, "elmore-en")
KEPT_AS: dict[EngineName, str] = {"numpy": "largest_difference", "native": "largest_difference_native"}

Vectors = list[NDArray[np.floating]]


def all_at_once(model: Embedder) -> Vectors:
    return model.encode(SENTENCES, layers="all")


def alone(model: Embedder) -> Vectors:
    return [model.encode(sentence, layers="all") for sentence in SENTENCES]


def in_small_batches(model: Embedder) -> Vectors:
    return model.encode(SENTENCES, layers="all", batch_size=7)


def in_another_order(model: Embedder) -> Vectors:
    order = np.random.default_rng(1).permutation(len(SENTENCES))
    vectors = model.encode([SENTENCES[number] for number in order], layers="all", batch_size=7)
    return [vectors[place] for place in np.argsort(order)]


def on_two_threads(model: Embedder) -> Vectors:
    torch.set_num_threads(2)
    set_threads(2)
    try:
        return all_at_once(model)
    finally:
        torch.set_num_threads(1)
        set_threads(1)


WAYS: dict[str, Callable[[Embedder], Vectors]] = {
    "the same call twice": all_at_once,
    "alone": alone,
    "in batches of seven": in_small_batches,
    "in another order": in_another_order,
    "on two threads": on_two_threads,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--engine", choices=KEPT_AS, default="numpy")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    set_threads(1)
    measured = {size: measure(model_of_size(size), arguments.engine) for size in arguments.sizes or MODELS}
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    versions = {"elmore": __version__, "torch": torch.__version__, "machine": platform.machine()}
    key = KEPT_AS[arguments.engine]
    found = {size: row for size in MODELS if (row := (kept.get(key, {}) | measured).get(size))}
    RESULTS.write_text(json.dumps({**kept, **versions, key: found}, indent=2) + "\n")
    print(kernel_figures.equality() if arguments.engine == "numpy" else json.dumps(found, indent=2))


def measure(model: Model, engine: EngineName) -> dict[str, float]:
    """The largest differences from the vectors of one batch of all sentences; with an empty word store each time."""
    embedder = Embedder.from_source(lambda: model, device="cpu", engine=engine)
    first = all_at_once(embedder)
    found = {}
    for name, read in WAYS.items():
        embedder.clear_words()
        found[name] = largest_difference(first, read(embedder))
    return found


def largest_difference(one: Vectors, other: Vectors) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


def model_of_size(size: str) -> Model:
    return load(size) if size not in SIZES else Model(random_checkpoint(SIZES[size]))


def random_checkpoint(config: ModelConfig) -> Checkpoint:
    """Weights as wide as keeps a signal alive through a layer, so that rounding shows where context does."""
    return Checkpoint(config=config, tensors=random_tensors(config, seed=1, gain=1.0))


if __name__ == "__main__":
    main()
