"""Measure how long commands take in a new process, and how much memory they need, relative to `import torch`.

    python benchmarks/cold_start.py [--rounds 9]

In each round every command runs once. Ratios are medians of the ratios within a round. The first round is not counted,
because it fills the disk cache.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from circumstances import circumstances
from cold_start_figures import REFERENCE, report

RESULTS = Path(__file__).parent / "results" / "cold_start.json"
TEXT = "I took a bow.\nHe drew his bow and let the arrow fly.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        commands = commands_in(Path(folder))
        rounds = [{name: run(command) for name, command in commands.items()} for _ in range(arguments.rounds + 1)][1:]
    rows = {
        name: {
            "seconds": statistics.median(one[name]["seconds"] for one in rounds),
            "relative": statistics.median(one[name]["seconds"] / one[REFERENCE]["seconds"] for one in rounds),
            "processor_relative": statistics.median(
                one[name]["processor"] / one[REFERENCE]["processor"] for one in rounds
            ),
            "peak_mb": statistics.median(one[name]["peak_mb"] for one in rounds),
        }
        for name in commands
    }
    found = circumstances() | {"rounds": arguments.rounds, "rows": rows}
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    print(report(found))


def commands_in(folder: Path) -> dict[str, list[str]]:
    text = folder / "text.txt"
    text.write_text(TEXT)
    elmore = [sys.executable, "-m", "elmore"]
    embed = [*elmore, "-q", "embed", str(text), "--fresh", "--device", "cpu", "-o", str(folder / "vectors.npz")]
    return {
        REFERENCE: [sys.executable, "-c", "import torch"],
        "elmore embed, float32": embed,
        "elmore embed, int8": [*embed, "--compute", "int8"],
        "elmore --help": [*elmore, "--help"],
        "import elmore": [sys.executable, "-c", "import elmore"],
        "python -c pass": [sys.executable, "-c", "pass"],
    }


# A small process starts the command: a child inherits the peak memory of the process that starts it.
LAUNCHER = """
import json, os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
seconds = time.perf_counter() - start
processor = usage.ru_utime + usage.ru_stime
print(json.dumps({"seconds": seconds, "processor": processor, "peak_mb": usage.ru_maxrss * 1024 / 1e6}))
sys.exit(process.returncode)
"""


def run(command: list[str]) -> dict[str, float]:
    launcher = [sys.executable, "-S", "-c", LAUNCHER, *command]
    measured: dict[str, float] = json.loads(subprocess.run(launcher, check=True, stdout=subprocess.PIPE).stdout)
    return measured


if __name__ == "__main__":
    main()
