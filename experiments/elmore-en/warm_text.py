"""Write a text to warm the model up on: twelve paragraphs of each source of the training text.

    python experiments/elmore-en/warm_text.py OUTPUT [--texts FOLDER]

They are drawn with a fixed seed from the first 400 paragraphs of a source's first file (wikipedia-01.txt.xz, ...), in
../shared/data/text unless --texts says otherwise.
"""

import argparse
import random
from itertools import islice
from pathlib import Path

from elmore.files.text_files import read_lines

TEXTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "text"
PARAGRAPHS = 12
AMONG, SEED = 400, 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--texts", type=Path, default=TEXTS)
    arguments = parser.parse_args()
    files = sorted(arguments.texts.glob("*-01.txt.xz"))
    if not files:
        raise SystemExit(f"{arguments.texts}: no training text (*-01.txt.xz) there")
    chosen = random.Random(SEED)
    drawn = [paragraph for file in files for paragraph in chosen.sample(paragraphs(file), PARAGRAPHS)]
    arguments.output.write_text("".join(f"{paragraph}\n" for paragraph in drawn), encoding="utf-8")
    print(f"wrote {arguments.output}: {len(drawn)} paragraphs of {len(files)} sources")


def paragraphs(file: Path) -> list[str]:
    """The first paragraphs of a file: lines that are not blank."""
    return list(islice((line for line in read_lines(file) if line.strip()), AMONG))


if __name__ == "__main__":
    main()
