"""The output of `make demo`: nearest neighbors of ambiguous words, and a check that vectors are reproducible."""

import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
from senses import SENTENCES, SHOWN, Uses, show_meanings

from elmore import Embedder, open_vectors
from elmore.cli import main


def show_that_vectors_stay_the_same(model: Embedder) -> None:
    alone = model.encode("I took a bow.")
    among_others = model.encode(["Something else first.", "I took a bow.", "And a much longer sentence after it ."])[1]
    print("\nThe same sentence alone and in a batch:")
    if np.array_equal(alone, among_others):
        print("  bit-identical, as always with the native kernels: in any batch, order and number of threads.")
        return
    print(f"  largest difference {np.abs(alone - among_others).max():.1e}; called twice, ", end="")
    print("bit-identical." if np.array_equal(alone, model.encode("I took a bow.")) else "NOT equal.")
    print("  Of all sizes and batches that were measured, up to 6e-06 (docs/layers.md).")


def show_files() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text, vectors = Path(folder, "sentences.txt"), Path(folder, "vectors.h5")
        text.write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
        print("\n$ elmore embed sentences.txt -o vectors.h5 --layers all")
        with suppress(SystemExit):
            main(["embed", str(text), "-o", str(vectors), "--layers", "all", "-q"])
        with open_vectors(vectors) as opened:
            print(f">>> open_vectors('vectors.h5')[0].shape\n{opened[0].shape}  # layers, words, size")
            print(f">>> open_vectors('vectors.h5').tokens(0)\n{opened.tokens(0)}")


if __name__ == "__main__":
    embedder = Embedder.from_pretrained()
    card = embedder.card
    print(f"Elmore, with {card.name}, the model that comes with it.\n{card.description}\n")
    print(f"The {SHOWN} nearest neighbours of a word, among all words of {len(SENTENCES)} sentences:")
    show_meanings(Uses(embedder))
    show_that_vectors_stay_the_same(embedder)
    show_files()
