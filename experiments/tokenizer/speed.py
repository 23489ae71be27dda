"""What does version 2 of the tokeniser cost in time? Words a second of each version, on one core.

    python experiments/tokenizer/speed.py [--texts FOLDER] [--characters 100000]

Splits and tokenises the beginning of every evaluation text that comes raw, as `elmore prepare` does in each of its
processes, three times with each version in turn, and takes the fastest; the time is the processor's, so that others
on the machine matter little. Writes results/speed.json.
"""

import argparse
import json
from pathlib import Path
from time import process_time

import numpy as np

from elmore.corpus.numbering import number_block
from elmore.text.style import TextStyle
from elmore.text_files import read_lines

RESULTS = Path(__file__).parent / "results" / "speed.json"
TEXTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "text" / "eval"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=Path, default=TEXTS)
    parser.add_argument("--characters", type=int, default=100_000)
    arguments = parser.parse_args()
    styles = {f"version_{version}": TextStyle(tokenizer_version=version) for version in (1, 2)}
    for style in styles.values():
        number_block("The fïrst text reads tables.", style=style)
    found = {}
    for path in sorted(arguments.texts.glob("own-*.txt.xz")):
        block = "\n".join(read_lines(path))[: arguments.characters]
        best: dict[str, float] = {}
        for _ in range(3):
            for name, style in styles.items():
                start = process_time()
                stream = number_block(block, style=style).stream
                best[name] = max(best.get(name, 0.0), np.count_nonzero(stream > 1) / (process_time() - start))
        found[path.name.removesuffix(".txt.xz")] = {name: round(speed) for name, speed in best.items()}
        print(f"{path.name:<24}", json.dumps(found[path.name.removesuffix(".txt.xz")]), flush=True)
    RESULTS.write_text(json.dumps({"characters": arguments.characters, "words_per_second": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
