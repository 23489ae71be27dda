"""Which fixed start is better, zeros or a warm state? Measured on the first words of sentences, and on a task.

    python experiments/elmore-en/start_state.py MODEL WARM_TEXT [--texts FOLDER] [--tasks FOLDER] [--device cuda]

MODEL starts from zeros, and is warmed up on WARM_TEXT (`warm_text.py`). For each of the two: the perplexity of the
first three words that each direction predicts, on three evaluation texts, and how often vectors tell whether a word
has the same meaning in two sentences (MCL-WiC, English): the cosine of the two vectors against a threshold that is best
on the training pairs, for each layer. The texts lie in ../shared/data/text/eval and the pairs in
../shared/data/tasks/wic unless --texts and --tasks say otherwise. Writes results/start_state.json.
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
from elmore.embedding.warm_start import compute_warm_start
from elmore.model import Model, load
from elmore.scoring import perplexity
from elmore.text.sentence_reader import read_sentences

RESULTS = Path(__file__).parent / "results" / "start_state.json"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
TEXTS = ("own-wikipedia", "own-novels", "own-news")
FIRST_WORDS = 3
SENTENCES = 2000  # of each text
PAIRS = 2000  # training pairs that the thresholds are found on


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("warm_text", type=Path)
    parser.add_argument("--texts", type=Path, default=SHARED / "text" / "eval")
    parser.add_argument("--tasks", type=Path, default=SHARED / "tasks" / "wic")
    parser.add_argument("--device")
    arguments = parser.parse_args()
    model = load(arguments.model)
    if model.card.start_state != "zeros":
        raise SystemExit(f"{arguments.model}: starts from a warm state; give the model that starts from zeros")
    warm = compute_warm_start(model, sentences_of(arguments.warm_text, model), text_name=arguments.warm_text.name)
    results: dict[str, dict[str, Any]] = {}
    for name, one in (("zeros", model), ("warm", warm)):
        results[name] = {"start": one.card.start_state_source or "zeros"}
        for text in TEXTS:
            found = first_words(one, arguments.texts / f"{text}.txt.xz")
            results[name][f"first words, {text}"] = round(found, 2)
        for layer, accuracy in words_in_context(Embedder(one), arguments.tasks).items():
            results[name][f"same meaning, {layer}"] = round(accuracy, 4)
        print(json.dumps({name: results[name]}, indent=2), flush=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")


def sentences_of(text: Path, model: Model) -> Iterator[list[str]]:
    return (sentence.words for _, sentence in read_sentences(text, style=model.card.text) if sentence.words)


def first_words(model: Model, text: Path) -> float:
    """The perplexity of the first words, the mean of both directions, each sentence from the model's own start."""
    sentences = islice(sentences_of(text, model), SENTENCES)
    return perplexity(sentences, model=model, state="fixed", first_words=FIRST_WORDS).mean


def words_in_context(model: Embedder, folder: Path) -> dict[str, float]:
    """The share of right answers on the development pairs, by layer."""
    train, dev = (list(read_pairs(folder / f"mclwic-en-{part}.jsonl.xz")) for part in ("train", "dev"))
    alike, answers = zip(*(cosines(model, part) for part in (train[:PAIRS], dev)), strict=True)
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
