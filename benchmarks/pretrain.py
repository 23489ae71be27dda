"""How fast a biLM is trained: tokens a second at each published size, everything included.

    python benchmarks/pretrain.py PREPARED --size medium --rows 512 [--classes 793471] [--rounds 7] [--profile FILE]

Reads real windows of a prepared corpus through the trainer itself: data loading, clipping and the optimizer's step are
in the figure, which is the median of several rounds. On a GPU it also says what share of the measured peak of matrix
products that is, and where the time goes. Prints one JSON line, and appends it to benchmarks/results/pretrain.jsonl.
"""

import argparse
import json
import platform
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from elmore.config import ModelConfig
from elmore.corpus.corpus import Corpus
from elmore.network.initialization import initialize
from elmore.network.language_model import LanguageModel
from elmore.pretraining.loop import train
from elmore.pretraining.recipe import Recipe, Training
from elmore.pretraining.sampling import LogUniformSampler
from elmore.pretraining.stepping import Stepper
from elmore.pretraining.windows import WindowPlan, Windows
from elmore.recipe import read_recipe
from elmore.text.spelling import Speller

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prepared", type=Path)
    parser.add_argument("--size", choices=("tiny", "small", "medium", "original"), default="medium")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--classes", type=int, help="a softmax of another size than the corpus's vocabulary")
    parser.add_argument("--updates", type=int, default=50, help="of one round")
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
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    corpus = Corpus.open(arguments.prepared)
    classes = arguments.classes or len(corpus.vocabulary)
    config = read_recipe(arguments.size, Recipe).model
    training = Training(
        rows=arguments.rows, optimizer=arguments.optimizer, precision=arguments.precision, learning_rate=1e-3, warmup=0
    )
    sampler = LogUniformSampler(classes=classes, number=training.negatives)
    windows = Windows(corpus.train, corpus.classes, WindowPlan(rows=training.rows), sampler=sampler)
    model = LanguageModel(config, classes=classes)
    initialize(model, torch.Generator().manual_seed(1))
    speller = Speller(config)
    words = speller.spell(corpus.types)
    stepper = Stepper(
        model.to(device),
        words._replace(characters=words.characters.short()),
        training,
        rows=training.rows,
        characters_needed=speller.characters_needed(words.characters).numpy(),
        class_probabilities=sampler.probabilities,
    )
    clock = _Clock(stepper, windows)
    clock.run(arguments.updates)
    # A round in which a new shape of window came up has captured a graph, once for a whole training: not counted.
    rounds: list[float] = []
    while len(rounds) < arguments.rounds and clock.done < 10 * arguments.rounds * arguments.updates:
        before = len(stepper._graphs)
        seconds = clock.run(arguments.updates)
        if len(stepper._graphs) == before:
            rounds.append(seconds / arguments.updates)
    if not rounds:
        raise SystemExit("every round met a new shape of window; give more --updates to a round")
    seconds = statistics.median(rounds)
    tokens = training.rows * training.window
    sample = [windows[number].types for number in range(0, clock.done, max(clock.done // 20, 1))]
    operations = _operations(config, words=statistics.mean(map(len, sample)), tokens=tokens, training=training)
    result: dict[str, Any] = {
        "benchmark": "pretrain",
        "size": arguments.size,
        "rows": training.rows,
        "classes": classes,
        "precision": training.precision,
        "optimizer": training.optimizer,
        "tokens_per_second": round(tokens / seconds),
        "rounds": [round(tokens / one) for one in rounds],
        "milliseconds_per_update": round(1000 * seconds, 2),
        "distinct_words": round(statistics.mean(map(len, sample))),
        "graphs": sorted(map(list, stepper._graphs)),
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


class _Clock:
    """Goes on with a training, a number of updates at a time."""

    def __init__(self, stepper: Stepper, windows: Windows) -> None:
        self.stepper, self.windows, self.done = stepper, windows, 0

    def run(self, updates: int) -> float:
        """The seconds that so many further updates take."""
        _wait(self.stepper.device)
        began = time.perf_counter()
        until = self.done + updates
        for update in train(self.stepper, self.windows, done=self.done, until=until, updates=until):
            if not update.finite:
                raise SystemExit(f"update {update.number}: the loss is not finite")
        _wait(self.stepper.device)
        self.done = until
        return time.perf_counter() - began


def _operations(config: ModelConfig, *, words: float, tokens: int, training: Training) -> float:
    """The multiplications and additions that the matrix products of one update need: forward once, backward twice."""
    assert config.characters
    letters = config.characters
    convolved = sum(width * number for width, number in letters.filters) * letters.embedding_dim
    # As if every word had eight letters and two marks; what a GPU spends on padding is no use to anyone.
    word = 10 * convolved + letters.n_highways * 2 * letters.features**2 + letters.features * config.vector_dim
    cell = 2 * config.vector_dim * 4 * config.cell_dim + config.cell_dim * config.vector_dim
    token = config.directions * (config.lstm_layers * cell + training.negatives * config.vector_dim)
    return 3 * 2 * (words * word + tokens * token)


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


def _profile(clock: _Clock, table: Path | None, updates: int = 5) -> dict[str, float]:
    """Milliseconds of an update on the GPU, by what they go to."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        clock.run(updates)
    averages = profiler.key_averages()
    if table:
        table.write_text(averages.table(sort_by="self_cuda_time_total", row_limit=60, max_name_column_width=90))
    totals: dict[str, float] = defaultdict(float)
    for event in averages:
        # Torch also puts its own operations on the GPU's line of time, over the kernels they launch.
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.key.startswith(("aten::", "Optimizer.")):
            kind = next((kind for kind, parts in KINDS.items() if any(p in event.key for p in parts)), OTHER)
            totals[kind] += event.self_device_time_total / 1000 / updates
    return {kind: round(spent, 2) for kind, spent in sorted(totals.items(), key=lambda item: -item[1])}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
