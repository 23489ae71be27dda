"""What `make demo` shows: one word, three sentences, and what each layer makes of it."""

import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np

from elmore import Embedder, open_vectors
from elmore.cli import main

SENTENCES = [
    "He was wielding a [bow] and arrow.",
    "The archer drew her [bow] once more.",
    "The actor took a [bow] before the curtain fell.",
]


def show_layers(model: Embedder) -> None:
    print("The word 'bow' in three sentences; how alike (cosine) are its vectors?\n")
    for number, sentence in enumerate(SENTENCES, start=1):
        print(f"  {number}  {sentence}")
    print(f"\n  {'layer':<28}{'1 and 2':>9}{'1 and 3':>9}{'2 and 3':>9}")
    names = ["0  characters only", "1  first LSTM layer", "2  second LSTM layer"]
    for layer, name in enumerate(names):
        vectors = np.stack([model.word_vector(sentence, layers=layer) for sentence in SENTENCES])
        alike = model.similarity(vectors, vectors)
        print(f"  {name:<28}{alike[0, 1]:>9.2f}{alike[0, 2]:>9.2f}{alike[1, 2]:>9.2f}")
    print("\n  Layer 0 knows only the word, so it is the same everywhere; the layers above read the sentence.")


def show_that_vectors_stay_the_same(model: Embedder) -> None:
    alone = model.encode("I took a bow.")
    among_others = model.encode(["Something else first.", "I took a bow.", "And a much longer sentence after it ."])[1]
    print("\nThe same sentence alone and in a batch:")
    print(f"  largest difference {np.abs(alone - among_others).max():.1e}; called twice, ", end="")
    print("equal to the bit." if np.array_equal(alone, model.encode("I took a bow.")) else "NOT equal.")


def show_files() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text, vectors = Path(folder, "sentences.txt"), Path(folder, "vectors.h5")
        text.write_text("".join(sentence.replace("[", "").replace("]", "") + "\n" for sentence in SENTENCES))
        print("\n$ elmore embed sentences.txt -o vectors.h5 --model tiny-random --layers all")
        with suppress(SystemExit):
            main(["embed", str(text), "-o", str(vectors), "--model", "tiny-random", "--layers", "all", "-q"])
        with open_vectors(vectors) as opened:
            print(f">>> open_vectors('vectors.h5')[0].shape\n{opened[0].shape}  # layers, words, size")
            print(f">>> open_vectors('vectors.h5').words(0)\n{opened.words(0)}")


if __name__ == "__main__":
    print("Elmore, with 'tiny-random': a tiny model that the project writes itself, with random weights. It shows the")
    print("mechanics; its numbers mean nothing. Give a real one by its folder, archive or address.\n")
    embedder = Embedder.from_pretrained("tiny-random")
    show_layers(embedder)
    show_that_vectors_stay_the_same(embedder)
    show_files()
