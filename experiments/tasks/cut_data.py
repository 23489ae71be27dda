"""Training, dev and test sets of data that comes without: SQuAD by article, MultiNLI by halves.

    python experiments/tasks/cut_data.py [--data FOLDER] [--output FOLDER]

SQuAD's test set is hidden, and of its training set a tenth is at hand. Its dev set has 48 articles: in the order of
their titles the first 32 are trained on too, 33 to 36 are the dev set, 37 to 48 the test set. Of the last one, on the
Yuan dynasty, the text that elmore-en was trained on has an older version, so there is a test set without it. Settings
are chosen by the first 36, with none of them in training.

MultiNLI's pairs that are not to be trained on become dev and test set: they are shuffled by a fixed seed, and the first
half is the dev set. `run.py` makes what it needs by itself.
"""

import argparse
import json
import lzma
import random
from pathlib import Path

from elmore.files.atomic_files import atomic_write

DATA = Path("../shared/data/tasks")  # from the root of the repository
OUTPUT = Path(".cache/experiments/tasks/cuts")
ARTICLES = {"01-32": (1, 32), "33-36": (33, 36), "01-36": (1, 36), "37-48": (37, 48), "37-47": (37, 47)}
LAST_ARTICLE = "Yuan_dynasty"
SEED = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    for name in cut_names():
        print(make_cut(name, arguments.data, arguments.output))


def cut_names() -> list[str]:
    return [*(f"squad-articles-{name}.json" for name in ARTICLES), "mnli-dev.jsonl", "mnli-test.jsonl"]


def make_cut(name: str, data: Path, output: Path) -> Path:
    """The file of this name; made, if it is not there yet."""
    path = output / name
    if not path.is_file():
        text = squad_articles(name, data) if name.startswith("squad") else mnli_half(name, data)
        output.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    return path


def squad_articles(name: str, data: Path) -> str:
    with lzma.open(data / "squad" / "squad-v1.1-dev.json.xz", "rt", encoding="utf-8") as file:
        content = json.load(file)
    articles = content["data"]
    titles = [article["title"] for article in articles]
    if titles != sorted(titles) or len(titles) != 48 or titles[-1] != LAST_ARTICLE:
        raise SystemExit("SQuAD's dev set should have 48 articles in the order of their titles, Yuan_dynasty the last")
    first, last = ARTICLES[name.removeprefix("squad-articles-").removesuffix(".json")]
    return json.dumps({**content, "data": articles[first - 1 : last]}, ensure_ascii=False)


def mnli_half(name: str, data: Path) -> str:
    with lzma.open(data / "entailment" / "mnli-val-cut.jsonl.xz", "rt", encoding="utf-8") as file:
        lines = file.read().rstrip("\n").split("\n")
    random.Random(SEED).shuffle(lines)
    half = len(lines) // 2
    return "".join(f"{line}\n" for line in (lines[:half] if name == "mnli-dev.jsonl" else lines[half:]))


if __name__ == "__main__":
    main()
