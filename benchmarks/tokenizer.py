"""Words per second of the tokenizer on raw English text, compared with the same tokenizer on sacremoses.

    python benchmarks/tokenizer.py [--texts FOLDER] [--characters 100000] [--rounds 7]

Of each raw evaluation text (own-*.txt.xz in ../shared/data/text/eval), both programs tokenize the first 100,000
characters in turn, in both versions of the tokenizer. "tokenize" is `Tokenizer.tokenize` on split sentences. "prepare"
splits, tokenizes and numbers the text, as each process of `elmore prepare` does. Times are processor times of one core,
medians of all rounds. A ratio is the median of the ratios of each round. The words and offsets of both must be equal.

"first sentence" is the time of a new Python process that imports the tokenizer and tokenizes one sentence, without the
time of an empty process. Results: results/tokenizer.json.
"""

import argparse
import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import sacremoses_tokenizer
from circumstances import circumstances

from elmore.corpus.draft import number_block
from elmore.files.text_files import read_lines
from elmore.text import moses, tokenizer
from elmore.text.splitting import split_sentences
from elmore.text.style import TokenizerConfig
from elmore.text.tokenizer import Tokenizer

RESULTS = Path(__file__).resolve().parent / "results" / "tokenizer.json"
TEXTS = Path(__file__).resolve().parents[2] / "shared" / "data" / "text" / "eval"
PROGRAMS = {"elmore": moses, "sacremoses": sacremoses_tokenizer}
VERSIONS = (1, 2)
FIRST_SENTENCE = {
    "empty process": "pass",
    "elmore": "from elmore.text.moses import tokenize_v2; tokenize_v2('Mr. Smith didn’t go.', language='en')",
    "sacremoses": "from sacremoses_tokenizer import tokenize_v2; tokenize_v2('Mr. Smith didn’t go.', language='en')",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=Path, default=TEXTS)
    parser.add_argument("--characters", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    texts = {}
    for path in sorted(arguments.texts.glob("own-*.txt.xz")):
        text = "\n".join(read_lines(path))[: arguments.characters]
        name = path.name.removesuffix(".txt.xz")
        texts[name] = measure(text, arguments.rounds)
        print(name, json.dumps(texts[name]), flush=True)
    found = {
        "circumstances": circumstances(),
        "characters": arguments.characters,
        "rounds": arguments.rounds,
        "first_sentence_seconds": first_sentence(arguments.rounds),
        "texts": texts,
    }
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


def measure(text: str, rounds: int) -> dict[str, Any]:
    """Words per second, and by how much Elmore is faster than sacremoses, and version 2 slower than version 1."""
    work = {version: work_of(text, version) for version in VERSIONS}
    speeds: dict[tuple[str, int, str], list[float]] = {}
    for _ in range(rounds):
        for name in ("tokenize", "prepare"):
            for version in VERSIONS:
                for program in PROGRAMS:
                    with tokenizing_by(program):
                        start = process_time()
                        work[version].run[name]()
                        seconds = process_time() - start
                    speeds.setdefault((name, version, program), []).append(work[version].words / seconds)
    return {
        name: {
            f"version_{version}": {
                "words": work[version].words,
                **{program: round(median(speeds[name, version, program])) for program in PROGRAMS},
                "ratio": ratio(speeds[name, version, "elmore"], speeds[name, version, "sacremoses"]),
            }
            for version in VERSIONS
        }
        | {"version_1_to_2": ratio(speeds[name, 1, "elmore"], speeds[name, 2, "elmore"])}
        for name in ("tokenize", "prepare")
    }


def ratio(speeds: list[float], others: list[float]) -> float:
    return round(median(speed / other for speed, other in zip(speeds, others, strict=True)), 2)


class Work(NamedTuple):
    words: int
    run: dict[str, Callable[[], object]]


def work_of(text: str, version: int) -> Work:
    style = TokenizerConfig(tokenizer_version=version)
    tokenizer = Tokenizer(style)
    sentences = [sentence.text for line in text.split("\n") for sentence in split_sentences(line, version=version)]
    words = check_equal(sentences, tokenizer)
    assert np.count_nonzero(number_block(text, style=style).stream > 1) == words
    return Work(
        words,
        {
            "tokenize": lambda: deque(map(tokenizer.tokenize, sentences), maxlen=0),
            "prepare": lambda: number_block(text, style=style),
        },
    )


def check_equal(sentences: list[str], tokenizer: Tokenizer) -> int:
    """The number of words."""
    words = 0
    for sentence in sentences:
        results = []
        for program in PROGRAMS:
            with tokenizing_by(program):
                results.append(tokenizer.tokenize(sentence))
        if results[0] != results[1]:
            raise SystemExit(f"the programs differ: {results}")
        words += len(results[0].words)
    return words


@contextmanager
def tokenizing_by(program: str) -> Iterator[None]:
    module = PROGRAMS[program]
    with mock.patch.multiple(tokenizer, tokenize_v1=module.tokenize_v1, tokenize_v2=module.tokenize_v2):
        yield


def first_sentence(rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in FIRST_SENTENCE}
    for _ in range(rounds):
        for name, code in FIRST_SENTENCE.items():
            timed = f"import time; {code}; print(time.process_time())"
            ended = subprocess.run(
                [sys.executable, "-c", timed], check=True, capture_output=True, cwd=RESULTS.parents[1]
            )
            times[name].append(float(ended.stdout))
    empty = median(times.pop("empty process"))
    return {name: round(median(values) - empty, 4) for name, values in times.items()}


if __name__ == "__main__":
    main()
