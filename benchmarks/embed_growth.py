"""How the cost of embedding grows on a CPU: with the length of sentences, the batch, the text, and its distinct words.

    python benchmarks/embed_growth.py [--size small] [--compute float32] [--threads 2] [--rounds 3]
    python benchmarks/embed_growth.py --quick
    python benchmarks/embed_growth.py --plot

Text is SemCor's, the model has random weights, all layers come out. Each series has a process of its own, which goes
through its steps in rising order, round after round. Memory is the most that the process had in a step beyond what it
had before its first one, model loaded and used.

- length: sentences of one length each, cut from running text, words seen before; and one such sentence alone
- batch: the first sentences of the text in batches of so many, words seen before
- text: more and more of the text, all words new at its start
- words: as much text each time, its words drawn from the so many most frequent ones, all of them new
- stream: the longest text in one go, told in the stretches that the Embedder reads ahead

Prints tables, and appends a JSON line to benchmarks/results/embed_growth.jsonl; --quick keeps nothing, --plot draws
what is kept.
"""

import argparse
import ctypes
import gc
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import embed_growth_figures
import numpy as np
import torch
from circumstances import circumstances
from embed_cpu import TEXT
from embed_cpu_turns import answer, forget_peak, peak_mb
from equality import SIZES, random_checkpoint
from quiet_machine import Clock, wait_until_quiet
from waiting_program import WaitingProgram

from elmore import Embedder
from elmore.engine.threads import set_threads
from elmore.model import Model
from elmore.tasks.senses.wsd_reader import read_wsd

HERE = Path(__file__).resolve().parent
RESULTS, PLOT = HERE / "results" / "embed_growth.jsonl", HERE / "results" / "embed_growth.png"
LENGTHS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000]
BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
TEXTS = [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000]
WORDS = [100, 300, 1_000, 3_000, 10_000]
TOKENS = 10_000  # of a step in which they are to be the same
SEED = 1

Sentences = list[list[str]]


class Step(NamedTuple):
    """Something that is read and timed."""

    value: int  # where it stands in its series
    sentences: Sentences
    options: dict[str, Any] = {}  # noqa: RUF012  # nobody changes it
    cold: bool = False
    part: str = "tokens_per_second"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--compute", choices=["float32", "bfloat16", "int8"], default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--series", nargs="+", choices=SERIES, default=list(SERIES))
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of a step of the series length and words")
    parser.add_argument("--text-tokens", type=int, default=max(TEXTS), help="of the longest text, and the stream")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds for the machine to become quiet, each step")
    parser.add_argument("--quick", action="store_true", help="little text, to see that it works")
    parser.add_argument("--plot", action="store_true", help=f"draw {PLOT.name} of what is kept, and measure nothing")
    parser.add_argument("--serve", help=argparse.SUPPRESS)  # the process of one series
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments)
        return
    if arguments.plot:
        embed_growth_figures.plot(PLOT)
        return
    result = {**measure(arguments), **circumstances()}
    print(embed_growth_figures.report(result))
    if not arguments.quick:
        with RESULTS.open("a") as file:
            file.write(json.dumps(result) + "\n")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.quick:
        arguments.rounds, arguments.tokens, arguments.text_tokens = 1, 500, 2_000
    text = [sentence.tokens for sentence in read_wsd(arguments.text)]
    text = list(first_tokens(text, max(arguments.tokens, arguments.text_tokens, *LENGTHS)))
    found = {}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(text, file)
        file.flush()
        for series in arguments.series:
            own = [sys.executable, str(HERE / "embed_growth.py"), "--serve", series, "--text", file.name]
            own += ["--tokens", str(arguments.tokens), "--text-tokens", str(arguments.text_tokens)]
            own += ["--size", arguments.size, "--compute", arguments.compute, "--threads", str(arguments.threads)]
            with WaitingProgram(own) as program:
                turns = range(program.versions["turns"])
                found[series] = summed_up(
                    [one_turn(program, turn, arguments.wait) for _ in range(arguments.rounds) for turn in turns]
                )
    return {
        "benchmark": "embed_growth",
        "size": arguments.size,
        "compute": arguments.compute,
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "tokens": arguments.tokens,
        "text_tokens": arguments.text_tokens,
        "wait": arguments.wait,
        "seed": SEED,
        "series": found,
    }


def one_turn(program: WaitingProgram, turn: int, wait: float) -> dict[str, Any]:
    wait_until_quiet(wait)
    clock = Clock.now()
    told = program.take(turn)
    others = clock.others(told["processor"])
    return {**told, "others": others.usual, "niced": others.niced}


def summed_up(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds, by step."""
    steps: dict[int, dict[str, Any]] = {}
    for value in dict.fromkeys(point["value"] for told in answers for point in told["points"]):
        points = [
            {**point, "others": told["others"], "niced": told["niced"]}
            for told in answers
            for point in told["points"]
            if point["value"] == value
        ]
        step = steps.setdefault(value, {"value": value})
        for part in dict.fromkeys(point["part"] for point in points):
            own = [point for point in points if point["part"] == part]
            rates = [point["tokens"] / point["seconds"] for point in own]
            step[part] = round(median(rates), 1)
            step[f"{part}_each_round"] = [round(rate, 1) for rate in rates]
            step[f"{part}_of_processor"] = round(median(point["tokens"] / point["processor"] for point in own), 1)
        step["tokens"] = max(point["tokens"] for point in points)
        step["peak_mb"] = round(max(point["peak_mb"] for point in points), 1)
        step["others"] = round(max(point["others"] for point in points), 2)
        step["niced"] = round(max(point["niced"] for point in points), 2)
    return {"steps": list(steps.values())}


# The process of one series.


def serve(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(arguments.threads)
    set_threads(arguments.threads)
    text: Sentences = json.loads(arguments.text.read_text(encoding="utf-8"))
    embedder = Embedder(Model(random_checkpoint(SIZES[arguments.size])), compute=arguments.compute)
    list(embedder.encode_iter(text[:20], layers="all"))
    if arguments.serve == "stream":
        serve_stream(embedder, list(first_tokens(text, arguments.text_tokens)))
        return
    steps = SERIES[arguments.serve](text, arguments)
    before = resident_mb()
    answer(turns=len(steps))
    answer(ready=True)
    for line in sys.stdin:
        step = steps[int(line)]
        began = time.process_time()
        if not step.cold:
            read(embedder, step)
        else:
            embedder.clear_words()
        resident_mb()
        wall, spent = time.perf_counter(), time.process_time()
        read(embedder, step)
        point = {
            "value": step.value,
            "part": step.part,
            "seconds": time.perf_counter() - wall,
            "processor": time.process_time() - spent,
            "tokens": sum(map(len, step.sentences)),
            "peak_mb": peak_mb() - before,
        }
        answer(points=[point], processor=time.process_time() - began)


def read(embedder: Embedder, step: Step) -> None:
    for _ in embedder.encode_iter(step.sentences, layers="all", **step.options):
        pass  # nothing is kept


def serve_stream(embedder: Embedder, text: Sentences) -> None:
    """One turn reads everything, and tells of each stretch that the Embedder reads ahead."""
    before = resident_mb()
    answer(turns=1)
    answer(ready=True)
    for _ in sys.stdin:
        embedder.clear_words()
        points: list[dict[str, Any]] = []
        taken = given = pending = 0

        def sentences() -> Iterator[list[str]]:
            nonlocal taken
            for sentence in text:
                taken += len(sentence)
                yield sentence

        resident_mb()
        began = spent = time.process_time()
        wall = time.perf_counter()
        for vectors in embedder.encode_iter(sentences(), layers="all"):
            pending += vectors.shape[1]
            if given + pending < taken:
                continue
            given += pending
            now, used = time.perf_counter(), time.process_time()
            points.append(
                {
                    "value": given,
                    "part": "tokens_per_second",
                    "seconds": now - wall,
                    "processor": used - spent,
                    "tokens": pending,
                    "peak_mb": peak_mb() - before,
                }
            )
            forget_peak()
            wall, spent, pending = now, used, 0
        answer(points=points, processor=time.process_time() - began)


def resident_mb() -> float:
    """What the process has now, after giving back what it does not need."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    forget_peak()
    return peak_mb()


# What is read.


def of_each_length(text: Sentences, arguments: argparse.Namespace) -> list[Step]:
    running = list(chain.from_iterable(text))
    steps = []
    for length in LENGTHS:
        cut = [running[start : start + length] for start in range(0, max(arguments.tokens, length), length)]
        steps.append(Step(length, [one for one in cut if len(one) == length]))
        steps.append(Step(length, [cut[0]] if length > 50 else cut[:20], {"batch_size": 1}, part="alone"))
    return steps


def in_batches(text: Sentences, arguments: argparse.Namespace) -> list[Step]:
    sentences = list(first_tokens(text, arguments.tokens))
    return [
        Step(rows, sentences, {"batch_size": rows, "batch_tokens": 10**6}) for rows in BATCHES if rows <= len(sentences)
    ]


def of_growing_text(text: Sentences, arguments: argparse.Namespace) -> list[Step]:
    longest = arguments.text_tokens
    return [Step(tokens, list(first_tokens(text, tokens)), cold=True) for tokens in TEXTS if tokens <= longest]


def of_distinct_words(text: Sentences, arguments: argparse.Namespace) -> list[Step]:
    """Sentences as long each time, filled with words drawn from the most frequent so many, each at least once."""
    lengths = [len(sentence) for sentence in first_tokens(text, arguments.tokens)]
    frequent = [word for word, _ in Counter(chain.from_iterable(text)).most_common()]
    draw = np.random.default_rng(SEED)
    steps = []
    for count in (count for count in WORDS if count <= sum(lengths)):
        words = frequent[:count]
        tokens = [*words, *draw.choice(words, sum(lengths) - count).tolist()]
        draw.shuffle(tokens)
        drawn = iter(tokens)
        steps.append(Step(count, [list(islice(drawn, length)) for length in lengths], cold=True))
    return steps


def first_tokens(text: Sentences, tokens: int) -> Iterator[list[str]]:
    for sentence in text:
        if tokens <= 0:
            return
        tokens -= len(sentence)
        yield sentence


SERIES: dict[str, Callable[[Sentences, argparse.Namespace], list[Step]]] = {
    "length": of_each_length,
    "batch": in_batches,
    "text": of_growing_text,
    "words": of_distinct_words,
    "stream": lambda _text, _arguments: [],  # not in steps
}


if __name__ == "__main__":
    main()
