"""How fast a biLM is trained: tokens a second at each published size, everything included.

    python benchmarks/pretrain.py PREPARED --size medium --rows 512 [--classes 793471] [--updates 200]

Reads real windows of a prepared corpus through the trainer itself: data loading, clipping and the optimizer's step are
in the figure. Prints one JSON line, and appends it to benchmarks/results/pretrain.jsonl.
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
import torch

from elmore.network.language_model import LanguageModel
from elmore.pretraining.corpus import Corpus
from elmore.pretraining.initial import initialize
from elmore.pretraining.loop import train
from elmore.pretraining.sampling import LogUniformSampler
from elmore.pretraining.stepping import Stepper
from elmore.pretraining.windows import WindowPlan, Windows
from elmore.recipe import SIZES, Training
from elmore.text.spelling import Speller

RESULTS = Path(__file__).parent / "results" / "pretrain.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prepared", type=Path)
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--classes", type=int, help="a softmax of another size than the corpus's vocabulary")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=30, help="updates that are not timed")
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--precision", default="bfloat16" if torch.cuda.is_available() else "float32")
    parser.add_argument("--profile", type=Path, help="write a table of kernels here")
    arguments = parser.parse_args()
    result = measure(arguments)
    print(json.dumps(result))
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(result) + "\n")


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    corpus = Corpus.open(arguments.prepared)
    classes = arguments.classes or len(corpus.vocabulary)
    config = SIZES[arguments.size]
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
    last = arguments.warmup + arguments.updates
    warming = list(train(stepper, windows, done=0, until=arguments.warmup, updates=last))
    _wait(device)
    began = time.perf_counter()
    timed = list(train(stepper, windows, done=arguments.warmup, until=last, updates=last))
    _wait(device)
    seconds = time.perf_counter() - began
    if arguments.profile:
        _profile(stepper, windows, last, arguments.profile)
    tokens = training.rows * training.window
    distinct = [len(windows[n].types) for n in range(0, last, max(last // 10, 1))]
    return {
        "benchmark": "pretrain",
        "size": arguments.size,
        "rows": training.rows,
        "classes": classes,
        "precision": training.precision,
        "optimizer": training.optimizer,
        "tokens_per_second": round(tokens * arguments.updates / seconds),
        "milliseconds_per_update": round(1000 * seconds / arguments.updates, 2),
        "distinct_words": int(np.median(distinct)),
        "graphs": sorted(map(list, stepper._graphs)),
        "first_loss": warming[0].loss,
        "last_loss": timed[-1].loss,
        "norms": [round(float(np.quantile([update.norm for update in timed], q)), 2) for q in (0.1, 0.5, 0.9)],
        "memory_gb": round(torch.cuda.max_memory_allocated() / 1e9, 1) if device.type == "cuda" else None,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor(),
        "torch": torch.__version__,
    }


def _profile(stepper: Stepper, windows: Windows, start: int, path: Path) -> None:
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA] if torch.cuda.is_available() else [ProfilerActivity.CPU]
    with profile(activities=activities) as profiler:
        list(train(stepper, windows, done=start, until=start + 5, updates=start + 5))
    order = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    path.write_text(profiler.key_averages().table(sort_by=order, row_limit=45, max_name_column_width=90))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
