"""Which fixed start is better, zeros or a warm state? Measured on the first words of sentences, and on a task.

    python experiments/elmore-en/start_state.py ZEROS WARM TEXT... [--tasks FOLDER]

ZEROS and WARM are one model with two start states (`elmore convert --warm`). For each of them: the perplexity of the
first three words that each direction predicts, on every TEXT, and how often vectors tell whether a word has the same
meaning in two sentences (MCL-WiC, English, in ../shared/data/tasks/wic): the cosine of the two vectors against a
threshold that is best on the training pairs, for each layer. Prints a table and writes results/start_state.json.
"""

import argparse
import json
import lzma
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from elmore import Embedder
from elmore.scoring import perplexity
from elmore.text.reading import read_sentences

RESULTS = Path(__file__).parent / "results" / "start_state.json"
TASKS = Path(__file__).resolve().parents[3] / "shared" / "data" / "tasks" / "wic"
FIRST_WORDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("zeros")
    parser.add_argument("warm")
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--tasks", type=Path, default=TASKS)
    parser.add_argument("--pairs", type=int, default=2000, help="training pairs that the thresholds are found on")
    parser.add_argument("--sentences", type=int, default=2000, help="sentences of each text")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for name, path in (("zeros", arguments.zeros), ("warm", arguments.warm)):
        model = Embedder.from_pretrained(path)
        results[name] = {"start": model.model.card.start_state_from or "zeros"}
        for text in arguments.texts:
            results[name][f"first words, {text.name.split('.')[0]}"] = round(
                first_words(model, text, sentences=arguments.sentences), 2
            )
        for layer, accuracy in words_in_context(model, arguments.tasks, pairs=arguments.pairs).items():
            results[name][f"same meaning, {layer}"] = round(accuracy, 4)
        print(json.dumps({name: results[name]}, indent=2), flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")


def first_words(model: Embedder, text: Path, *, sentences: int) -> float:
    """The perplexity of the first words, the mean of both directions, each sentence from the model's own start."""
    read = islice(read_sentences(text, style=model.model.card.text), sentences)
    words = (sentence.words for _, sentence in read)
    return perplexity(model.model, words, state="fixed", first_words=FIRST_WORDS).mean


def words_in_context(model: Embedder, folder: Path, *, pairs: int) -> dict[str, float]:
    """The share of right answers on the development pairs, by layer."""
    train, dev = (list(read_pairs(folder / f"mclwic-en-{part}.jsonl.xz")) for part in ("train", "dev"))
    train = train[:pairs]
    alike, answers = zip(*(cosines(model, part) for part in (train, dev)), strict=True)
    layers = ["layer 0", "layer 1", "layer 2", "mean of layers"]
    return {
        name: float(np.mean((alike[1][:, n] >= best_threshold(alike[0][:, n], answers[0])) == answers[1]))
        for n, name in enumerate(layers)
    }


def read_pairs(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def cosines(model: Embedder, pairs: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """(pairs, layers and their mean) and (pairs,) whether the meaning is the same."""
    vectors = [marked_vectors(model, [(p[f"sentence{n}"], p[f"start{n}"]) for p in pairs]) for n in (1, 2)]
    a, b = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in vectors)
    return (a * b).sum(-1), np.array([pair["label"] for pair in pairs])


def marked_vectors(model: Embedder, uses: list[tuple[str, int]]) -> np.ndarray:
    """(uses, 4, dim) of the word that begins at, or covers, a character of a sentence: three layers and their mean."""
    found = []
    for (sentence, start), layers in zip(uses, model.encode_iter([s for s, _ in uses], layers="all"), strict=True):
        ends = [end for _, end in model.tokenize(sentence).offsets]
        place = int(np.searchsorted(ends, start, side="right"))
        word = layers[:, min(place, layers.shape[1] - 1)]
        found.append(np.concatenate([word, word.mean(0, keepdims=True)]))
    return np.stack(found)


def best_threshold(alike: np.ndarray, same: np.ndarray) -> float:
    order = np.argsort(alike)
    right_above = same[order][::-1].cumsum()[::-1]  # of those from here on, how many are the same
    wrong_below = np.concatenate([[0], (~same[order]).cumsum()])[:-1]
    return float(alike[order][np.argmax(right_above + wrong_below)])


if __name__ == "__main__":
    main()
