"""How much of the test sets does the text hold that elmore-en was trained on? 13-grams that occur in both are counted.

    python experiments/overlap/measure.py [--tasks FOLDER] [--text FOLDER]

Words are runs of letters and digits in small letters, so that another tokenisation makes no difference; a 13-gram lies
within one text of a test set (a sentence, or a paragraph of SQuAD) and within one paragraph of the training text. Texts
that are too short for one are looked for as a whole, if they have at least eight words. Writes results/overlap.json.

Every 13-gram of the test sets has a hash; the training text goes by once, and where a hash of it is among those, the
words themselves are compared.
"""

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.files.text_files import read_lines
from elmore.tasks.classification.trees import read_trees
from elmore.tasks.senses.wic_reader import read_scws, read_wic
from elmore.tasks.senses.wsd_reader import read_wsd
from elmore.tasks.tagging.reader import read_tagged

RESULTS = Path(__file__).parent / "results" / "overlap.json"
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
LENGTH = 13
SHORTEST = 8  # of the texts that are looked for as a whole
LINES_AT_ONCE = 20_000
KNOWN = "Yuan_dynasty"  # an article of SQuAD that the training text has in another version

Example = Sequence[str]  # its texts: one, or two of a pair
Numbers = NDArray[np.int32]
Hashes = NDArray[np.uint64]


class DataSet(NamedTuple):
    """A test set, and what its examples are."""

    task: str
    name: str
    unit: str
    examples: Sequence[Example]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=Path, default=DATA / "tasks")
    parser.add_argument("--text", type=Path, default=DATA / "text", help="the folder with SOURCE-NN.txt.xz")
    arguments = parser.parse_args()
    began = time.monotonic()
    files = sorted(arguments.text.glob("*-[0-9][0-9].txt.xz"))
    sources: dict[str, list[Path]] = {}
    for file in files:
        sources.setdefault(file.name.split("-")[0], []).append(file)
    data_sets = list(read_data_sets(arguments.tasks))
    lines = {source: chain.from_iterable(map(read_lines, paths)) for source, paths in sources.items()}
    found = {
        "length": LENGTH,
        "shortest_whole": SHORTEST,
        "files": [file.name for file in files],
        **measure(data_sets, lines),
        "seconds": round(time.monotonic() - began),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


# The test sets.


def read_data_sets(tasks: Path) -> Iterator[DataSet]:
    for name in ("WikiNEuRal", "Wikigold", "WNUT17"):
        yield DataSet("ner", name, "sentences", column_texts(tasks / "ner" / f"{name.lower()}-test.conll.xz"))
    treebank = tasks / "pos" / "en_ewt-ud-test.conllu.xz"
    yield DataSet("pos", "EWT", "sentences", column_texts(treebank, tag="upos"))
    trees = read_trees(tasks / "sentiment" / "sst-test.txt.xz")
    yield DataSet("sentiment", "SST", "sentences", [[" ".join(tree.tokens)] for tree in trees])
    for name in ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015"):
        sentences = read_wsd(tasks / "wsd" / f"{name}.data.xml.xz")
        yield DataSet("wsd", name, "sentences", [[" ".join(sentence.tokens)] for sentence in sentences])
    for name, pairs in (
        ("MCL-WiC", read_wic(tasks / "wic" / "mclwic-en-test.jsonl.xz")),
        ("SCWS", read_scws(tasks / "wic" / "scws-ratings.txt.xz")),
    ):
        yield DataSet("wic", name, "pairs", [[pair.first.text, pair.second.text] for pair in pairs])
    for name, file in (("SNLI", "snli-test"), ("MultiNLI", "mnli-val-cut")):
        yield DataSet("entailment", name, "pairs", pair_texts(tasks / "entailment" / f"{file}.jsonl.xz"))
    articles = squad_articles(tasks / "squad" / "squad-v1.1-dev.json.xz")
    last = sorted(articles)[36:48]  # the first 36 are trained on
    for name, titles in (
        ("SQuAD, last 12 articles", last),
        ("of these Yuan_dynasty", [KNOWN]),
        ("the other 11", [title for title in last if title != KNOWN]),
    ):
        yield DataSet("squad", name, "paragraphs", [[text] for title in titles for text in articles[title]])
    yield DataSet("srl", "EWT", "sentences", column_texts(tasks / "srl" / "ewt-test.conll.xz", tag=4))
    for name, file in (("LitBank", "litbank-test"), ("OntoGUM", "ontogum-test")):
        yield DataSet("coref", name, "sentences", column_texts(tasks / "coref" / f"{file}.conll.xz", tag=4))


def column_texts(path: Path, *, tag: int | str = -1) -> list[Example]:
    return [[" ".join(sentence.tokens)] for sentence in read_tagged(path, tag_column=tag)]


def pair_texts(path: Path) -> list[Example]:
    records = map(json.loads, read_lines(path))
    return [[record["sentence1"], record["sentence2"]] for record in records]


def squad_articles(path: Path) -> dict[str, list[str]]:
    """The paragraphs of each article, by its title."""
    articles = json.loads("\n".join(read_lines(path)))["data"]
    return {one["title"]: [paragraph["context"] for paragraph in one["paragraphs"]] for one in articles}


# Words.

# What tokenisers write otherwise than the text has it.
RESPELLED = {"’": "'", " n't": "n't", "can not": "cannot", **dict.fromkeys(["-lrb-", "-rrb-", "-lsb-", "-rsb-"], " ")}
_WORDS = re.compile(r"[^\W_]+|\n")


def words_and_breaks(text: str) -> list[str]:
    r"""Runs of letters and digits in small letters, and line breaks.

    >>> words_and_breaks("It wo n't -LRB- in the U.S. -RRB-\nWon’t it?")
    ['it', 'won', 't', 'in', 'the', 'u', 's', '\n', 'won', 't', 'it']
    """
    text = text.lower()
    for tokenized, plain in RESPELLED.items():
        text = text.replace(tokenized, plain)
    return _WORDS.findall(text)


def words(text: str) -> list[str]:
    return words_and_breaks(text.replace("\n", " "))


# Counting.


def measure(data_sets: Sequence[DataSet], sources: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """What of each set occurs in the lines of the sources; and how many words these have."""
    split = [[[words(text) for text in example] for example in data_set.examples] for data_set in data_sets]
    # 0 is a word that no test set has, and the break between two lines.
    numbers: dict[str, int] = {}
    for word in chain.from_iterable(text for examples in split for example in examples for text in example):
        numbers.setdefault(word, len(numbers) + 1)
    numbered = [[[_numbers(text, numbers) for text in example] for example in examples] for examples in split]
    hashing = Hashing(len(numbers) + 1)
    every = [text for examples in numbered for example in examples for text in example]
    phrases = {length: Phrases(length, every, hashing, sources) for length in range(SHORTEST, LENGTH + 1)}
    counts: Counter[str] = Counter()
    for source, lines in sources.items():
        for batch in _batches(lines):
            found = words_and_breaks("\n".join(batch))
            counts[source] += len(found) - found.count("\n")
            text = _numbers(found, numbers)
            for length, hashes in hashing.by_length(text, LENGTH):
                if length in phrases:
                    phrases[length].mark(text, hashes, source)
        print(f"{source}: {counts[source]:,} words", flush=True)
    return {
        "words": dict(counts),
        "sets": [
            {"task": one.task, "name": one.name, "unit": one.unit, **summary(examples, phrases)}
            for one, examples in zip(data_sets, numbered, strict=True)
        ],
    }


def _numbers(text: Sequence[str], numbers: Mapping[str, int]) -> Numbers:
    return np.fromiter(map(numbers.get, text, repeat(0)), np.int32, len(text))


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(lines)
    while batch := list(islice(rest, LINES_AT_ONCE)):
        yield batch


class Hashing:
    """Hashes of runs of words: the sum of value(word) * M^place, modulo 2^64."""

    def __init__(self, n_words: int) -> None:
        generator = np.random.default_rng(0)
        self.values = generator.integers(2**64, size=n_words, dtype=np.uint64)
        multiplier = generator.integers(2**63, size=1, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        self.powers = np.cumprod(np.repeat(multiplier, LENGTH))

    def by_length(self, text: Numbers, longest: int) -> Iterator[tuple[int, Hashes]]:
        """For each length up to the longest, the hashes of all runs of so many words, by where they begin."""
        values = self.values[text]
        hashes = np.zeros(len(text) + 1, np.uint64)
        for length in range(1, min(longest, len(text)) + 1):
            hashes = hashes[:-1] + values[length - 1 :] * self.powers[length - 1]
            yield length, hashes


class Phrases:
    """The runs of one length that are looked for: all 13-grams of longer texts, and shorter texts as they are."""

    def __init__(self, length: int, texts: Iterable[Numbers], hashing: Hashing, sources: Iterable[str]) -> None:
        self.length, self.hashing = length, hashing
        wanted = [_runs(text, length) for text in texts if len(text) == length or len(text) > length == LENGTH]
        rows = np.concatenate([np.zeros((0, length), np.int32), *wanted])
        self.hashes, first, inverse = np.unique(self._hashes(rows), return_index=True, return_inverse=True)
        self.rows = rows[first]
        if (self.rows[inverse] != rows).any():
            raise SystemExit("two phrases of the test sets have the same hash; take another seed")
        # Nearly all of the training text is turned away here, without a search.
        self.is_possible = np.zeros(2**24, bool)
        self.is_possible[self.hashes >> np.uint64(40)] = True
        self.found = {source: np.zeros(len(self.rows), bool) for source in sources}

    def _hashes(self, rows: Numbers) -> Hashes:
        return (self.hashing.values[rows] * self.hashing.powers[: self.length]).sum(axis=1, dtype=np.uint64)

    def mark(self, text: Numbers, hashes: Hashes, source: str) -> None:
        """Note which of the phrases occur in a text."""
        starts = np.flatnonzero(self.is_possible[hashes >> np.uint64(40)])
        places = np.searchsorted(self.hashes, hashes[starts])
        among = places < len(self.hashes)
        starts, places = starts[among], places[among]
        equal = (self.rows[places] == text[starts[:, None] + np.arange(self.length)]).all(axis=1)
        self.found[source][places[equal]] = True

    def places(self, text: Numbers) -> NDArray[np.intp]:
        """Which phrases a text of a test set is made of."""
        return np.searchsorted(self.hashes, self._hashes(_runs(text, self.length)))

    def is_found(self) -> NDArray[np.bool_]:
        return np.logical_or.reduce([np.zeros(len(self.rows), bool), *self.found.values()])


def _runs(text: Numbers, length: int) -> Numbers:
    return np.lib.stride_tricks.sliding_window_view(text, length)


def summary(examples: Sequence[Sequence[Numbers]], phrases: Mapping[int, Phrases]) -> dict[str, Any]:
    """The row of a test set."""
    grams, is_found = phrases[LENGTH], {length: one.is_found() for length, one in phrases.items()}
    # Of every example with a long text, the share of 13-grams that were found, in the text of which most were.
    places = [[grams.places(text) for text in example if len(text) >= LENGTH] for example in examples]
    shares = [max(float(is_found[LENGTH][text].mean()) for text in example) for example in places if example]
    distinct = np.unique(np.concatenate([np.zeros(0, np.intp), *chain.from_iterable(places)]))
    texts = {text.tobytes(): text for example in examples for text in example}.values()
    whole = [
        is_found[len(text)][phrases[len(text)].places(text)[0]] for text in texts if SHORTEST <= len(text) < LENGTH
    ]
    return {
        "examples": len(examples),
        "long_enough": {
            "examples": len(shares),
            "with_a_gram_found": sum(share > 0 for share in shares),
            "with_half_found": sum(share >= 0.5 for share in shares),
            "with_all_found": sum(share == 1 for share in shares),
        },
        "distinct_grams": {
            "all": len(distinct),
            "found": int(is_found[LENGTH][distinct].sum()),
            "by_source": {name: int(found[distinct].sum()) for name, found in grams.found.items()},
        },
        "distinct_short_texts": {
            "looked_for": len(whole),
            "found_whole": int(sum(whole)),
            "too_short": sum(len(text) < SHORTEST for text in texts),
        },
    }


if __name__ == "__main__":
    main()
