"""How fast a biLM is trained: tokens a second at each published size.

    python benchmarks/pretrain.py PREPARED --size medium --batch-size 512
        [--classes 793471] [--rounds 7] [--profile FILE]

Reads real windows of a prepared corpus through the trainer itself: data loading, clipping and the optimizer's step are
in the figure, which is the median of several rounds; rounds in which a CUDA graph is captured, once for each shape of
window, are left out. On a GPU it also says what share of the measured peak of matrix products that is, and where the
time goes. Prints one JSON line, and appends it to benchmarks/results/pretrain.jsonl.
"""

import argparse
import json
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from elmore.corpus.corpus import Corpus
from elmore.nn.devices import choose_device
from elmore.pretraining.initial_model import new_model
from elmore.pretraining.language_model_training import LanguageModelTraining
from elmore.pretraining.recipe import Recipe, Training
from elmore.recipe import read_recipe
from elmore.text.vocabulary import Vocabulary

RESULTS = Path(__file__).parent / "results" / "pretrain.jsonl"

# Parts of the names of GPU kernels, and what such a kernel does; the first that fits counts.
KINDS = {
    "character CNN": ("_pool_",),
    "matrix products": ("gemm", "nvjet", "cutlass", "cublas", "splitKreduce"),
    "recurrence, pointwise": ("_cell_", "_clip_"),
    "softmax": ("_normalize",),
    "optimizer": ("_move", "Adam", "norm", "lpnorm", "multi_tensor"),
    "gather and scatter": ("index", "scatter", "gather"),
    "copies": ("Memcpy", "copy", "Memset", "Fill"),
}
OTHER = "other pointwise"
SIZES = ("tiny", "small", "medium", "original")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prepared", type=Path)
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--classes", type=int, help="a softmax of another size than the corpus's vocabulary")
    parser.add_argument("--steps", type=int, default=50, help="of one round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--precision", default="bfloat16" if torch.cuda.is_available() else "float32")
    parser.add_argument("--profile", type=Path, help="write a table of all kernels here")
    arguments = parser.parse_args()
    result = measure(arguments)
    print(json.dumps(result))
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(result) + "\n")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    training = language_model_training(arguments)
    clock = _Clock(training)
    clock.run(arguments.steps)
    # A round in which a new shape of window came up has captured a graph, once for a whole training: not counted.
    rounds: list[float] = []
    while len(rounds) < arguments.rounds and clock.done < 10 * arguments.rounds * arguments.steps:
        before = len(clock.graphs)
        seconds = clock.run(arguments.steps)
        if len(clock.graphs) == before:
            rounds.append(seconds / arguments.steps)
    if not rounds:
        raise SystemExit("every round met a new shape of window; give more --steps to a round")
    seconds = statistics.median(rounds)
    tokens, device = training.tokens_per_step, training.stepper.device
    sample = [training.windows[number].types for number in range(0, clock.done, max(clock.done // 20, 1))]
    operations = _operations(training, words=statistics.mean(map(len, sample)))
    result: dict[str, Any] = {
        "benchmark": "pretrain",
        "size": arguments.size,
        "batch_size": arguments.batch_size,
        "classes": len(training.initial.vocabulary),
        "precision": arguments.precision,
        "optimizer": arguments.optimizer,
        "tokens_per_second": round(tokens / seconds),
        "rounds": [round(tokens / one) for one in rounds],
        "milliseconds_per_step": round(1000 * seconds, 2),
        "distinct_words": round(statistics.mean(map(len, sample))),
        "graphs": sorted(map(list, clock.graphs)),
        "tera_operations_per_second": round(operations / seconds / 1e12, 1),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor(),
        "torch": torch.__version__,
    }
    if device.type == "cuda":
        peak = _peak()
        result["memory_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
        result["peak_tera_operations_per_second"] = round(peak / 1e12)
        result["share_of_peak"] = round(operations / seconds / peak, 3)
        result["milliseconds_by_kind"] = _profile(clock, arguments.profile)
        result["milliseconds_of_kernels"] = round(sum(result["milliseconds_by_kind"].values()), 2)
    return result


def language_model_training(arguments: argparse.Namespace) -> LanguageModelTraining:
    """A training as a run would make it, from the first step on."""
    corpus = Corpus.open(arguments.prepared)
    more = (arguments.classes or 0) - len(corpus.vocabulary)
    if more > 0:
        longer = Vocabulary([*corpus.vocabulary.words, *(f"<class {number}>" for number in range(more))])
        corpus = replace(corpus, vocabulary=longer)
    settings = Training(
        steps=1_000_000,
        batch_size=arguments.batch_size,
        optimizer=arguments.optimizer,
        precision=arguments.precision,
        learning_rate=1e-3,
        warmup_steps=0,
    )
    initial = new_model(Recipe(model=read_recipe(arguments.size, Recipe).model, training=settings), corpus)
    return LanguageModelTraining(corpus, initial, device=choose_device())


class _Clock:
    """Goes on with a training, a number of steps at a time."""

    def __init__(self, training: LanguageModelTraining) -> None:
        self.training, self.done = training, 0

    @property
    def graphs(self) -> Mapping[Any, object]:
        """The captured graphs, by the shape of window they are for."""
        return self.training.stepper._graphs

    def run(self, steps: int) -> float:
        """The seconds that so many further steps take."""
        _wait(self.training.stepper.device)
        began = time.perf_counter()
        until = self.done + steps
        for step in self.training.train(self.done, until):
            if not step.is_finite:
                raise SystemExit(f"step {step.number}: the loss is not finite")
        _wait(self.training.stepper.device)
        self.done = until
        return time.perf_counter() - began


def _operations(training: LanguageModelTraining, *, words: float) -> float:
    """The multiplications and additions that the matrix products of one step need: forward once, backward twice."""
    config = training.initial.recipe.model
    assert config.characters
    letters = config.characters
    convolved = sum(width * number for width, number in letters.filters) * letters.embedding_dim
    # As if every word had eight letters and two marks; what a GPU spends on padding is no use to anyone.
    word = 10 * convolved + letters.num_highways * 2 * letters.num_filters**2 + letters.num_filters * config.vector_dim
    cell = 2 * config.vector_dim * 4 * config.cell_dim + config.cell_dim * config.vector_dim
    token = config.num_directions * (config.lstm_layers * cell + training.training.negatives * config.vector_dim)
    return 3 * 2 * (words * word + training.tokens_per_step * token)


def _peak(size: int = 8192, times: int = 20) -> float:
    """Operations a second of one large product in bfloat16, the median of several."""
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    seconds = []
    for _ in range(times):
        _wait(a.device)
        began = time.perf_counter()
        torch.mm(a, b)
        _wait(a.device)
        seconds.append(time.perf_counter() - began)
    return 2 * size**3 / statistics.median(seconds)


def _profile(clock: _Clock, table: Path | None, steps: int = 5) -> dict[str, float]:
    """Milliseconds of a step on the GPU, by what they go to."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        clock.run(steps)
    averages = profiler.key_averages()
    if table:
        table.write_text(averages.table(sort_by="self_cuda_time_total", row_limit=60, max_name_column_width=90))
    totals: dict[str, float] = defaultdict(float)
    for event in averages:
        # Torch also puts its own operations on the GPU's line of time, over the kernels they launch.
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.key.startswith(("aten::", "Optimizer.")):
            kind = next((kind for kind, parts in KINDS.items() if any(p in event.key for p in parts)), OTHER)
            totals[kind] += event.self_device_time_total / 1000 / steps
    return {kind: round(spent, 2) for kind, spent in sorted(totals.items(), key=lambda item: -item[1])}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
