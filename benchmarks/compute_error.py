"""What does `compute="bfloat16"` or `"int8"` cost? Against float32, on elmore-en and real text. Prints a table.

    python benchmarks/compute_error.py [--data FOLDER] [--parts cosine tagger word_in_context perplexity]

The cosine of each word's vector to that of float32, layer by layer, on SemCor; the perplexity of Wikipedia articles
that were held out; the accuracy of the tagger inside on EWT's test part, and of words in context on MCL-WiC's, by a
threshold of the cosine. The tagger was trained on float32, and layer and threshold are chosen on the dev part in
float32, whatever is asked with. Results go to results/compute_error.json, each part when it is done; parts that were
not asked for keep theirs.
"""

import argparse
import json
import platform
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import kernel_figures
import numpy as np
import torch

from elmore import Embedder, __version__, load, perplexity, tasks
from elmore.defaults import ComputeName
from elmore.engine.native_library import Precision, why_unavailable
from elmore.tasks.senses.wsd_reader import read_wsd
from elmore.text.sentence_reader import read_sentences

RESULTS = Path(__file__).resolve().parent / "results" / "compute_error.json"
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
PARTS = ("cosine", "tagger", "word_in_context", "perplexity")
COMPARED = 500  # sentences of SemCor
SCORED = 100  # of Wikipedia: the full softmax takes its time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    data = arguments.data
    known: tuple[ComputeName, ...] = get_args(ComputeName)
    numbers = {number.name.lower() for number in Precision if why_unavailable(number) is None}
    computes = [name for name in known if name in numbers]
    model = load("elmore-en")
    embedders = {compute: Embedder(model, compute=compute) for compute in computes}
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found: dict[str, Any] = kept | {"elmore": __version__, "torch": torch.__version__, "machine": platform.machine()}
    parts = {
        "cosine": lambda: cosines(embedders, data / "tasks" / "wsd" / "semcor.data.xml.xz"),
        "tagger": lambda: accuracies(computes, data / "tasks" / "pos" / "en_ewt-ud-test.conllu.xz"),
        "word_in_context": lambda: words_in_context(computes, data / "tasks" / "wic"),
        "perplexity": lambda: perplexities(embedders, data / "text" / "eval" / "own-wikipedia.txt.xz"),
    }
    for name in arguments.parts:
        found[name] = parts[name]()
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")
        print(f"{name}: {found[name]}", flush=True)
    print(kernel_figures.compute_error())


def cosines(embedders: dict[ComputeName, Embedder], text: Path) -> dict[str, list[float]]:
    """The mean over all words, for each layer."""
    sentences = [sentence.tokens for sentence in read_wsd(text)[:COMPARED]]
    exact = words_of_layers(embedders["float32"], sentences)
    others = {compute: words_of_layers(embedder, sentences) for compute, embedder in embedders.items()}
    return {compute: (exact * other).sum(-1).mean(-1).tolist() for compute, other in others.items()}


def words_of_layers(embedder: Embedder, sentences: list[list[str]]) -> np.ndarray:
    """(layers, words, dim) of length one."""
    vectors = np.concatenate(embedder.encode(sentences, layers="all", token_style="nltk"), axis=1).astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def accuracies(computes: list[ComputeName], test: Path) -> dict[str, float]:
    """The tagger's, in percent."""
    return {compute: tasks.load("pos", device="cpu", compute=compute).evaluate(test).value for compute in computes}


def words_in_context(computes: list[ComputeName], folder: Path) -> dict[str, float]:
    """The accuracy on the test part in percent, by the layer and the threshold that did best on the dev part."""
    dev, test = (folder / f"mclwic-en-{part}.jsonl.xz" for part in ("dev", "test"))
    with tempfile.TemporaryDirectory() as run:
        # The method reads no training pairs.
        for _ in tasks.train("wic", run, train=dev, dev=dev, recipe={"task.method": "threshold"}, device="cpu"):
            pass
        return {compute: tasks.load(run, device="cpu", compute=compute).evaluate(test).value for compute in computes}


def perplexities(embedders: dict[ComputeName, Embedder], text: Path) -> dict[str, float]:
    read = read_sentences(text, format="text", style=embedders["float32"].card.text)
    sentences = [sentence.words for _, sentence in islice(read, SCORED) if sentence.words]
    return {
        compute: perplexity(sentences, model=embedder.model, state="fixed", compute=compute).mean
        for compute, embedder in embedders.items()
    }


if __name__ == "__main__":
    main()
