"""How fast the small model is trained on a CPU, beside bilm-tf, the program that trained the first ELMo.

    python benchmarks/pretrain_cpu.py PREPARED --bilm-tf CHECKOUT --tensorflow-python PYTHON [--rounds 5] [--steps 3]

CHECKOUT is a plain checkout of github.com/allenai/bilm-tf; PYTHON an interpreter with tensorflow-cpu and tf_keras. Both
programs stay up and take turns, some steps each, so that what else the machine does slows down both; on a busy machine
the processor time of a step says more. They read the same windows of a prepared corpus, with Adagrad and the original's
rate, clip and dropout. Each does so in its own way: bilm-tf reads the characters of every token, Elmore those of every
distinct word of a window, in float32 as bilm-tf does, and in bfloat16.

Prints a table, and appends a JSON line to benchmarks/results/pretrain_cpu.jsonl.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from pretrain_cpu_elmore import CONFIG, TRAINING
from waiting_program import WaitingProgram

from elmore import __version__
from elmore.corpus.corpus import Corpus
from elmore.pretraining.windows import Window, WindowPlan, Windows
from elmore.text.word_ids import WordIndexer

HERE = Path(__file__).resolve().parent
BILM_TF = "bilm-tf"
PRECISIONS = ("float32", "bfloat16")
RESULTS = HERE / "results" / "pretrain_cpu.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prepared", type=Path)
    parser.add_argument("--bilm-tf", type=Path, required=True, help="a checkout of bilm-tf")
    parser.add_argument("--tensorflow-python", type=Path, required=True, help="an interpreter that has TensorFlow")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="of each program in a round")
    parser.add_argument("--warmup", type=int, default=3, help="steps that are not timed")
    parser.add_argument("--threads", type=int, default=2)
    result = measure(parser.parse_args())
    print(table(result))
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(result) + "\n")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    corpus = Corpus.open(arguments.prepared)
    plan = WindowPlan(batch_size=TRAINING.batch_size, length=TRAINING.window)
    reader = Windows(corpus.train, corpus.classes, plan)
    windows = [reader[number] for number in range(arguments.warmup + arguments.rounds * arguments.steps)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_windows(folder, corpus, windows)
        (folder / "options.json").write_text(json.dumps(peer_options(len(corpus.vocabulary), arguments.threads)))
        threads = str(arguments.threads)
        ours = [sys.executable, str(HERE / "pretrain_cpu_elmore.py"), str(arguments.prepared), threads]
        theirs = [str(arguments.tensorflow_python), str(HERE / "pretrain_cpu_bilm_tf.py"), str(arguments.bilm_tf), name]
        rates: dict[str, list[float]] = {BILM_TF: [], **{f"elmore, {precision}": [] for precision in PRECISIONS}}
        losses: dict[str, list[float]] = {who: [] for who in rates}
        processor_seconds: dict[str, list[float]] = {who: [] for who in rates}
        with ExitStack() as up:
            commands = [theirs, *([*ours, precision] for precision in PRECISIONS)]
            programs = {
                who: up.enter_context(WaitingProgram(command)) for who, command in zip(rates, commands, strict=True)
            }
            for program in programs.values():
                program.take(arguments.warmup)
            for _ in range(arguments.rounds):
                for who, program in programs.items():
                    answer = program.take(arguments.steps)
                    rates[who].append(plan.tokens * arguments.steps / answer["seconds"])
                    losses[who].append(round(answer["loss"], 3))
                    processor_seconds[who].append(round(answer["processor_seconds"] / arguments.steps, 3))
            tensorflow = programs[BILM_TF].versions["tensorflow"]
    medians = {who: round(median(several)) for who, several in rates.items()}
    return {
        "benchmark": "pretrain_cpu",
        "tokens_per_second": medians,
        "ratio": {
            who: round(median(several) / median(rates[BILM_TF]), 2) for who, several in rates.items() if who != BILM_TF
        },
        "each_round": {who: [round(rate) for rate in several] for who, several in rates.items()},
        "processor_seconds_per_step": processor_seconds,
        "losses": losses,
        "rounds": arguments.rounds,
        "steps_per_round": arguments.steps,
        "threads": arguments.threads,
        "cores": os.cpu_count(),
        "size": "small",
        "batch_size": plan.batch_size,
        "window": plan.length,
        "negatives": TRAINING.negatives,
        "classes": len(corpus.vocabulary),
        "distinct_words": int(median(len(window.types) for window in windows)),
        "optimizer": TRAINING.optimizer,
        "elmore": __version__,
        "torch": torch.__version__,
        "tensorflow": tensorflow,
        "machine": platform.machine(),
        "python": platform.python_version(),
    }


def write_windows(folder: Path, corpus: Corpus, windows: Sequence[Window]) -> None:
    """Write the windows as bilm-tf's side reads them."""
    read = np.stack([window.types[window.inputs] for window in windows])  # (N, G, T, R)
    types, where = np.unique(read, return_inverse=True)
    alphabet = WordIndexer(CONFIG).alphabet
    assert alphabet is not None
    np.save(folder / "characters.npy", alphabet.index([corpus.types[number] for number in types]))
    np.save(folder / "inputs.npy", where.reshape(read.shape))
    np.save(folder / "targets.npy", np.stack([window.targets for window in windows]))


def peer_options(classes: int, threads: int) -> dict[str, Any]:
    """The same model and training in bilm-tf's words."""
    characters = CONFIG.characters
    assert characters is not None
    return {
        "bidirectional": True,
        "char_cnn": {
            "activation": characters.activation,
            "embedding": {"dim": characters.embedding_dim},
            "filters": characters.filters,
            "max_characters_per_token": characters.max_characters,
            "n_characters": characters.n_characters,
            "n_highway": characters.num_highways,
        },
        "lstm": {
            "cell_clip": CONFIG.cell_clip,
            "dim": CONFIG.cell_dim,
            "n_layers": CONFIG.lstm_layers,
            "proj_clip": CONFIG.projection_clip,
            "projection_dim": CONFIG.vector_dim,
            "use_skip_connections": CONFIG.skip_connections,
        },
        "dropout": TRAINING.dropout,
        "all_clip_norm_val": TRAINING.max_grad_norm,
        "learning_rate": TRAINING.learning_rate,
        "n_epochs": 10,
        "batch_size": TRAINING.batch_size,
        "unroll_steps": TRAINING.window,
        "n_negative_samples_batch": TRAINING.negatives,
        "n_tokens_vocab": classes,
        "threads": threads,
    }


def table(result: dict[str, Any]) -> str:
    lines = ["| program | tokens/s, median | slowest and fastest round |", "|---|--:|--:|"]
    processor = result["processor_seconds_per_step"]
    for who, rate in result["tokens_per_second"].items():
        rounds = result["each_round"][who]
        lines.append(f"| {who} | {rate:,} | {min(rounds):,} to {max(rounds):,} |")
    lines += [f"\n{who}: {median(several):.2f} s of processor time a step" for who, several in processor.items()]
    lines += [f"\n{who}: {ratio} times as fast as {BILM_TF}" for who, ratio in result["ratio"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
