"""How fast tasks are: an epoch of training with ELMo and without, predictions, and names found in text, beside flair.

    python benchmarks/tasks.py training [--device cpu] [--tasks ner squad srl …] [--rounds 7] [--steps 12]
    python benchmarks/tasks.py rates [--tasks ner squad srl …] [--rounds 3] [--examples 64]
    python benchmarks/tasks.py prediction [--rounds 7] [--sentences 96]

**training** compares an epoch with ELMo from the cache and one without ELMo. Both models take turns over the same
batches of real data, the first of a training, so that what else the machine does slows down both. Both have GloVe's
vectors; all else is as the task's recipe says. The biLM has read the sentences beforehand: how long that took is told
beside, and is in no ratio. Nor is the scoring of the dev set. Beside the time that has passed, that of the processor is
kept, which other programs disturb less.

**rates** has models of every task predict on a CPU; `tasks_rates.py` tells how.

**prediction** has taggers of names with random weights read the same sentences on a CPU: Elmore's, of the sizes of its
recipe, and flair's biLSTM-CRF tagger of the same sizes (word vectors of 100, two layers of 200 in both directions, as
many tags). flair is installed into build/flair first, with the torch that runs here. All taggers stay up and take
turns. Sentences are tokens already, and flair's own objects, when the clock starts; no tagger finds a name, so that
none is slowed down by what random weights would see. Elmore batches by tokens, flair takes 32 sentences, its default.
With ELMo it is Elmore alone: flair no longer has embeddings of that kind. Beside the time that has passed, that of the
processor is kept, and what others had of the machine.

Each prints a table, and appends a JSON line to benchmarks/results/tasks_training.jsonl, tasks_rates.jsonl or
tasks_prediction.jsonl. A task that was measured again on the same device is shown as the last time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import tasks_figures
import torch
from circumstances import circumstances
from quiet_machine import Clock, wait_until_quiet
from tasks_rates import FILES, measure_rates, rates_table
from waiting_program import WaitingProgram

from elmore import load
from elmore.defaults import DEFAULT_MODEL
from elmore.engine.threads import set_threads
from elmore.model import Model
from elmore.tasks.core.assembly import find_token_style, new_model
from elmore.tasks.core.registry import find_task
from elmore.tasks.core.trainer import TaskTraining
from elmore.tasks.core.training_run import resolve_recipe

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
TRAINING_RESULTS, PREDICTION_RESULTS = RESULTS / "tasks_training.jsonl", RESULTS / "tasks_prediction.jsonl"
RATES_RESULTS = RESULTS / "tasks_rates.jsonl"
FLAIR, FLAIR_VERSION = ROOT / "build" / "flair", "0.15.1"
FLAIR_BATCH_SIZE = 32
TAGGERS = (  # programs, and the taggers that each has up
    ("elmore", "words"),
    ("flair", "words"),
    ("elmore", "characters"),
    ("flair", "characters"),
    ("elmore", "elmo, cold"),
    ("elmore", "elmo, warm"),
    ("elmore", "elmo, int8, cold"),
    ("elmore", "elmo, int8, warm"),
)
DATA = Path(os.path.relpath(ROOT.parent / "shared" / "data" / "tasks"))
VECTORS = Path("vectors", "glove.6B.100d.cut.txt.xz")
STEPS = {"cpu": 12, "cuda": 200}  # of a round
TASKS: dict[str, tuple[Path, dict[str, Any]]] = {  # what each learns from, and what its recipe is changed by
    "ner": (Path("ner", "wikineural-train.conll.xz"), {}),
    "sentiment": (Path("sentiment", "sst-train.txt.xz"), {}),
    "pos": (Path("pos", "en_ewt-ud-train.conllu.xz"), {}),
    "wic": (Path("wic", "mclwic-en-train.jsonl.xz"), {"task.method": "classifier"}),
    "entailment": (Path("entailment", "snli-train-cut.jsonl.xz"), {}),
    "squad": (Path("squad", "squad-v1.1-train-cut.json.xz"), {}),
    "srl": (Path("srl", "ewt-train.conll.xz"), {}),
    "coref": (Path("coref", "ontogum-train.conll.xz"), {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(required=True)
    training = parts.add_parser("training", help="an epoch with ELMo from the cache, and without")
    training.set_defaults(measure=measure_training, table=training_table, results=TRAINING_RESULTS)
    training.add_argument("--tasks", nargs="+", choices=TASKS, default=["ner", "sentiment", "pos"])
    training.add_argument("--device", choices=STEPS, default="cpu")
    training.add_argument("--steps", type=int, help=f"of each model in a round; by default {STEPS}")
    training.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    training.add_argument("--threads", type=int, default=os.cpu_count())
    rates = parts.add_parser("rates", help="predictions a second of every task on a CPU")
    rates.set_defaults(measure=measure_rates, table=rates_table, results=RATES_RESULTS)
    rates.add_argument("--tasks", nargs="+", choices=FILES, default=list(FILES))
    rates.add_argument("--examples", type=int, default=64)
    rates.add_argument("--threads", type=int, default=1)
    prediction = parts.add_parser("prediction", help="sentences a second of taggers of names, beside flair's")
    prediction.set_defaults(
        measure=measure_prediction, table=tasks_figures.prediction_table, results=PREDICTION_RESULTS
    )
    prediction.add_argument("--sentences", type=int, default=96)
    prediction.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    prediction.add_argument(
        "--wait", type=float, default=0.0, help="seconds for the machine to become quiet, each turn"
    )
    for part in (training, rates, prediction):
        part.add_argument("--rounds", type=int, default=7)
        part.add_argument("--data", type=Path, default=DATA, help="the folder with the tasks' data")
    arguments = parser.parse_args()
    result = {**arguments.measure(arguments), **circumstances()}
    print(arguments.table(result))
    RESULTS.mkdir(exist_ok=True)
    with arguments.results.open("a") as file:
        file.write(json.dumps(result) + "\n")


# Training.


def measure_training(arguments: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(arguments.threads)
    set_threads(arguments.threads)
    device = torch.device(arguments.device)
    bilm = load(DEFAULT_MODEL)
    return {
        "benchmark": "tasks_training",
        "model": DEFAULT_MODEL,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "threads": arguments.threads,
        "precision": arguments.precision,
        "rounds": arguments.rounds,
        "steps_per_round": arguments.steps or STEPS[device.type],
        "tasks": {name: measure_task(name, bilm, arguments) for name in arguments.tasks},
    }


def measure_task(name: str, bilm: Model, arguments: argparse.Namespace) -> dict[str, Any]:
    """The seconds of an epoch of both models, as each round had them."""
    file, changes = TASKS[name]
    task = find_task(name)
    changes = {**changes, "words.vectors": str(arguments.data / VECTORS), "training.precision": arguments.precision}
    recipes = {
        "with": resolve_recipe(task, changes),
        "without": resolve_recipe(task, {**changes, "elmo.where": "none"}),
    }
    examples = task.read([arguments.data / file], recipes["with"].task, to_train=True).examples
    labels = task.labels(examples, recipes["with"].task)
    style = find_token_style(task, recipes["with"], examples)
    device = torch.device(arguments.device)
    with tempfile.TemporaryDirectory() as cache:
        trainings = {
            model: TaskTraining(
                new_model(
                    task,
                    recipe,
                    labels,
                    examples,
                    bilm=bilm if recipe.elmo.is_used else None,
                    token_style=style,
                    cache=Path(cache),
                    device=device,
                ),
                train=examples,
                dev=[],
            )
            for model, recipe in recipes.items()
        }
        steps = arguments.steps or STEPS[device.type]
        first = trainings["with"]
        read = sorted({number for step in range(steps) for number in first.batches.batch(step)})
        began = time.perf_counter()
        first.maker.fill_cache([examples[number] for number in read])
        filled = time.perf_counter() - began
        rounds = take_turns(trainings, rounds=arguments.rounds, steps=steps)
    epochs = {model: [clock.wall * first.steps_per_epoch / steps for clock in rounds[model]] for model in rounds}
    pairs = list(zip(rounds["with"], rounds["without"], strict=True))
    ratios = [ours.wall / bare.wall for ours, bare in pairs]
    tokens = sum(len(tokens) for number in read for tokens in task.sentences(examples[number]))
    result = {
        "seconds_per_epoch": {model: round(median(several), 2) for model, several in epochs.items()},
        "each_round": {model: [round(one, 2) for one in several] for model, several in epochs.items()},
        "ratio": round(median(ratios), 2),
        "ratio_each_round": [round(ratio, 2) for ratio in ratios],
        "processor_ratio": round(median(ours.processor / bare.processor for ours, bare in pairs), 2),
        "steps_per_epoch": round(first.steps_per_epoch),
        "batch_size": first.options.batch_size,
        "tokens_per_step": round(tokens / steps),
        "seconds_to_fill": round(filled, 1),
        "filled_tokens": tokens,
        "seed": recipes["with"].training.seed,
    }
    print(f"{name}: {result['ratio']} times as long", flush=True)
    return result


class Seconds(NamedTuple):
    """How long something took."""

    wall: float
    processor: float  # of all threads of this process


def take_turns(trainings: Mapping[str, TaskTraining[Any, Any]], *, rounds: int, steps: int) -> dict[str, list[Seconds]]:
    """What the same steps take each training in each round, after a round that does not count."""
    found: dict[str, list[Seconds]] = {model: [] for model in trainings}
    for _ in range(rounds + 1):
        for model, training in trainings.items():
            wall, processor = time.perf_counter(), time.process_time()
            # The last of their losses comes when the device has made them all.
            for step in training.train(0, steps):
                if not step.is_finite:
                    raise SystemExit(f"{model}, step {step.number}: the loss is not finite")
            found[model].append(Seconds(time.perf_counter() - wall, time.process_time() - processor))
    return {model: several[1:] for model, several in found.items()}


def training_table(result: dict[str, Any]) -> str:
    head = ["task", "s an epoch without ELMo", "with", "ratio", "rounds", "of processor time", "cache, tokens a second"]
    rows = [
        [
            name,
            f"{one['seconds_per_epoch']['without']:.1f}",
            f"{one['seconds_per_epoch']['with']:.1f}",
            f"{one['ratio']:.2f}",
            f"{min(one['ratio_each_round']):.2f} to {max(one['ratio_each_round']):.2f}",
            f"{one['processor_ratio']:.2f}",
            f"{one['filled_tokens'] / one['seconds_to_fill']:,.0f}",
        ]
        for name, one in result["tasks"].items()
    ]
    return lines_of(head, rows)


# Prediction.


def measure_prediction(arguments: argparse.Namespace) -> dict[str, Any]:
    install_flair()
    here = Path(__file__).resolve().parent
    with ExitStack() as up:
        folder = up.enter_context(tempfile.TemporaryDirectory())
        own = [str(here / "tasks_ner_elmore.py"), folder, str(arguments.data), str(arguments.sentences)]
        ours = up.enter_context(WaitingProgram([sys.executable, *own]))
        other = [str(here / "tasks_ner_flair.py"), folder, str(FLAIR_BATCH_SIZE)]
        theirs = up.enter_context(WaitingProgram([str(flair_python()), *other]))
        if ours.versions["tags"] != theirs.versions["tags"]:
            raise SystemExit(f"the taggers differ in their tags: {ours.versions}, {theirs.versions}")
        programs = {"elmore": ours, "flair": theirs}
        taggers = [(program, tagger) for program, tagger in TAGGERS if tagger in programs[program].versions["taggers"]]
        found: dict[str, dict[str, list[dict[str, float]]]] = {}
        for number in range(arguments.rounds + 1):
            for threads in arguments.threads:
                for program, tagger in taggers:
                    turn = take_turn(programs[program], {"tagger": tagger, "threads": threads}, arguments.wait)
                    if number:  # the first round is to warm up
                        found.setdefault(str(threads), {}).setdefault(f"{program}, {tagger}", []).append(turn)
        count = arguments.sentences
        rates = of_each(found, lambda turns: [round(count / turn["seconds"], 1) for turn in turns])
        of_processor = of_each(found, lambda turns: median(round(count / turn["processor"], 1) for turn in turns))
        return {
            "benchmark": "tasks_prediction",
            "model": DEFAULT_MODEL,
            "sentences_per_second": of_each(rates, median),
            "sentences_per_processor_second": of_processor,
            "each_round": rates,
            "others": of_each(found, lambda turns: [round(turn["others"], 2) for turn in turns]),
            "niced": of_each(found, lambda turns: [round(turn["niced"], 2) for turn in turns]),
            "rounds": arguments.rounds,
            "sentences": arguments.sentences,
            "tokens": ours.versions["tokens"],
            "tags": ours.versions["tags"],
            "flair": theirs.versions["flair"],
            "flair_batch_size": FLAIR_BATCH_SIZE,
        }


def take_turn(program: WaitingProgram, turn: dict[str, Any], wait: float) -> dict[str, float]:
    wait_until_quiet(wait)
    clock = Clock.now()
    answer = program.take(json.dumps(turn))
    others = clock.others(answer["processor"])
    return {**answer, "others": others.usual, "niced": others.niced}


def of_each(found: Mapping[str, Mapping[str, Any]], make: Callable[[Any], Any]) -> dict[str, dict[str, Any]]:
    """For each number of threads and each tagger."""
    return {threads: {who: make(of) for who, of in one.items()} for threads, one in found.items()}


def install_flair() -> None:
    """Put flair into an environment of its own; its torch is the version that runs here, without CUDA."""
    if flair_python().exists():
        return
    venv.create(FLAIR, with_pip=True)
    wanted = [f"torch=={torch.__version__}", f"flair=={FLAIR_VERSION}"]
    subprocess.run([flair_python(), "-m", "pip", "install", *wanted], check=True)


def flair_python() -> Path:
    return FLAIR / "bin" / "python"


def lines_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("\t".join(cells) for cells in (head, *rows))


if __name__ == "__main__":
    main()
