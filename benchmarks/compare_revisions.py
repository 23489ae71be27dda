"""Compare the speed of embedding on a CPU between an earlier revision and the working tree, in turns.

    python benchmarks/compare_revisions.py REVISION TEXT [--rounds 7] [--sizes small] [--computes int8] [--threads 1]

Each revision runs in a separate process, with a native library built from its sources. Models have random weights,
except for `elmore-en`, which each revision contains. TEXT is a file of raw text. "raw" embeds its sentences as strings,
"tokens" embeds lists of words. In each round both revisions embed the same sentences. The table shows the median rate
of the working tree and the median of the ratios.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from waiting_program import WaitingProgram

ROOT = Path(__file__).resolve().parents[1]
INPUTS = ("raw", "tokens")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision")
    parser.add_argument("text", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--words", type=int, default=20000, help="words of the text in each round")
    parser.add_argument("--sizes", nargs="*", default=["elmore-en", "small", "original"])
    parser.add_argument("--computes", nargs="*", default=["float32", "bfloat16", "int8"])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        earlier = build(arguments.revision, Path(folder))
        models = {size: model_folder(size, Path(folder)) for size in arguments.sizes}
        print("| model | compute | threads | input | words per second | relative to the earlier revision |")
        print("|---|---|--:|---|--:|--:|")
        for size, model in models.items():
            for compute in arguments.computes:
                for threads in arguments.threads:
                    options = [str(arguments.text), str(arguments.words), str(model), compute, str(threads)]
                    for row in compare(earlier, options, arguments.rounds):
                        print(f"| {size} | {compute} | {threads} | {row} |", flush=True)


def build(revision: str, folder: Path) -> Path:
    """The sources of a revision with its native library; returns the folder to import from."""
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=folder, check=True)
    return folder / "src"


def model_folder(size: str, folder: Path) -> Path | str:
    """A model of a size with random weights, in a format that every revision reads."""
    if size == "elmore-en":
        return size
    from elmore.config import ORIGINAL, SMALL
    from elmore.formats.checkpoint import Checkpoint
    from elmore.model import Model, save
    from elmore.sources.tiny_random import random_tensors

    config = {"small": SMALL, "original": ORIGINAL}[size]
    path = folder / f"model-{size}"
    save(Model(Checkpoint(config=config, tensors=random_tensors(config, seed=1, gain=1.0))), path, format="hdf5")
    return path


def compare(earlier: Path, options: list[str], rounds: int) -> list[str]:
    """The rows of one setting: input, rate, ratio."""
    script = str(ROOT / "benchmarks" / "embed_revision.py")
    commands = [[sys.executable, script, str(sources), *options] for sources in (earlier, ROOT / "src")]
    with WaitingProgram(commands[0]) as old, WaitingProgram(commands[1]) as new:
        rows = []
        for kind in INPUTS:
            old.take(kind), new.take(kind)  # the first turn of each is slower
            rates, ratios = [], []
            for number in range(rounds):
                order = (old, new) if number % 2 else (new, old)
                seconds = {program: program.take(kind) for program in order}
                rates.append(seconds[new]["words"] / seconds[new]["seconds"])
                ratios.append(seconds[old]["seconds"] / seconds[new]["seconds"])
            rows.append(f"{kind} | {statistics.median(rates):,.0f} | {statistics.median(ratios):.3f}")
        return rows


if __name__ == "__main__":
    main()
