"""How much training suffers when other processes use the cores, with threads that spin, sleep, or are one.

    python benchmarks/parallel_training.py [--rounds 3] [--work pos sentiment pretrain] [--shared ../shared]

Measures whole commands: `elmore train pos` without ELMo on UD Coptic, `elmore train sentiment` without ELMo on a part
of SST, and `elmore pretrain` with the recipe tiny on a part of the Coptic text. Each command runs alone, next to a
program that keeps one core busy, and twice in parallel. The threads of OpenMP spin while they wait, as they do by
default, sleep, as `elmore` makes them do, or there is one thread. All combinations take turns, round after round. Each
run starts when other programs leave the machine idle; runs in which other programs took a tenth of the machine or more
are repeated, at most `--repeats` times.

Prints a table and appends a JSON line to results/parallel_training.jsonl for each kind of work.
"""

import argparse
import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import NamedTuple

from busy_core import BusyCore
from circumstances import circumstances
from quiet_machine import QUIET, Clock, wait_until_quiet

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "parallel_training.jsonl"
# The number of rounds for which GNU's OpenMP spins if no variable is set.
FORMS = {"spinning": {"GOMP_SPINCOUNT": "300000"}, "sleeping": {}, "one thread": {"OMP_NUM_THREADS": "1"}}
SITUATIONS = {"alone": 1, "busy core": 1, "two": 2}
SET_BY_USER = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "OMP_NUM_THREADS", "ELMORE_THREADS")
PRETRAINING_WORDS, LIMIT = 100_000, 600  # seconds


class Run(NamedTuple):
    """One or two commands that ran at the same time."""

    seconds: float  # until the last ended
    processor: float  # seconds of processor time of each, on average
    system: float  # of these, in the kernel
    others: float  # the part of the machine that other programs took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--wait", type=float, default=60.0, help="seconds to wait for an idle machine")
    parser.add_argument("--work", nargs="+", default=["pos", "sentiment", "pretrain"])
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for work in arguments.work:
            command = COMMANDS[work](arguments.shared / "data", Path(scratch))
            found = measured(command, Path(scratch), arguments)
            result = {"benchmark": "parallel_training", "work": work, "rounds": arguments.rounds, **circumstances()}
            result["runs"] = {
                form: {situation: [run._asdict() for run in runs] for situation, runs in of.items()}
                for form, of in found.items()
            }
            show(work, found)
            with RESULTS.open("a") as file:
                file.write(json.dumps(result) + "\n")


def pos(data: Path, _: Path) -> list[str]:
    treebank = data / "coptic" / "cop_scriptorium-ud"
    files = ["--train", f"{treebank}-train.conllu.xz", "--dev", f"{treebank}-dev.conllu.xz"]
    return ["train", "pos", *files, "--no-elmo", "--training.epochs", "3"]


def sentiment(data: Path, _: Path) -> list[str]:
    files = [word for part in ("train", "dev") for word in (f"--{part}", f"{data}/tasks/sentiment/sst-{part}.txt.xz")]
    return ["train", "sentiment", *files, "--no-elmo", "--training.epochs", "1", "--training.fraction", "0.02"]


def pretrain(data: Path, scratch: Path) -> list[str]:
    text, corpus = scratch / "coptic.txt", scratch / "corpus"
    words = 0
    with lzma.open(data / "coptic" / "sahidic-words.txt.xz", "rt", encoding="utf-8") as source, text.open("w") as file:
        for line in source:
            words += len(line.split())
            if words > PRETRAINING_WORDS:
                break
            file.write(line)
    prepare = ["prepare", str(text), "-o", str(corpus), "--tokenized", "--language", "cop"]
    subprocess.run([sys.executable, "-m", "elmore", "-q", *prepare], check=True, timeout=LIMIT)
    return ["pretrain", str(corpus), "--recipe", "tiny", "--epochs", "1"]


COMMANDS = {"pos": pos, "sentiment": sentiment, "pretrain": pretrain}


def measured(command: list[str], scratch: Path, arguments: argparse.Namespace) -> dict[str, dict[str, list[Run]]]:
    found: dict[str, dict[str, list[Run]]] = {form: {situation: [] for situation in SITUATIONS} for form in FORMS}
    run_once(command, "sleeping", "alone", scratch)  # fills the caches of files
    for number in range(arguments.rounds):
        for situation in SITUATIONS:
            for form in FORMS:
                tries = []
                for _ in range(arguments.repeats):
                    wait_until_quiet(arguments.wait)
                    tries.append(run_once(command, form, situation, scratch))
                    if tries[-1].others < QUIET:
                        break
                run = min(tries, key=lambda one: one.others)
                found[form][situation].append(run)
                print(f"round {number + 1}  {situation:10} {form:11} {run}", file=sys.stderr, flush=True)
    return found


def run_once(command: list[str], form: str, situation: str, scratch: Path) -> Run:
    """One command, or two at the same time, with a folder of its own each."""
    environment = {name: value for name, value in os.environ.items() if name not in SET_BY_USER} | FORMS[form]
    with BusyCore() if situation == "busy core" else nullcontext() as busy:
        clock, before = Clock.now(), busy.processor_time() if busy else 0.0
        began = time.perf_counter()
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "elmore", "-q", *command, "-o", tempfile.mkdtemp(dir=scratch)], env=environment
            )
            for _ in range(SITUATIONS[situation])
        ]
        used = [os.wait4(process.pid, 0) for process in started]
        seconds = time.perf_counter() - began
        if any(status for _, status, _ in used):
            raise SystemExit(f"elmore {' '.join(command)} failed")
        processor = sum(usage.ru_utime + usage.ru_stime for *_, usage in used)
        own = processor + (busy.processor_time() - before if busy else 0.0)
        others = clock.others(own).usual
    system = sum(usage.ru_stime for *_, usage in used)
    count = len(used)
    return Run(round(seconds, 1), round(processor / count, 1), round(system / count, 1), round(others, 3))


def show(work: str, found: dict[str, dict[str, list[Run]]]) -> None:
    print("\t".join([work, *(f"{situation}, s" for situation in SITUATIONS), "two/alone", "CPU alone, s"]))
    for form, of in found.items():
        seconds = {situation: median(run.seconds for run in runs) for situation, runs in of.items()}
        processor = median(run.processor for run in of["alone"])
        cells = [*(f"{value:.1f}" for value in seconds.values()), f"{seconds['alone'] / seconds['two']:.0%}"]
        print("\t".join([form, *cells, f"{processor:.1f}"]))


if __name__ == "__main__":
    main()
