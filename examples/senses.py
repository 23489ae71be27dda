"""One word, two meanings: which uses of a word does a contextual vector find alike?

    python examples/senses.py MODEL

Nearest neighbours of a marked word among the sentences of senses.txt, by the word alone and in its context.
"""

import sys
from pathlib import Path

import numpy as np

from elmore import Embedder

SENTENCES = Path(__file__).with_name("senses.txt").read_text(encoding="utf-8").splitlines()

QUERIES = [
    "The hunter took his [bow] and a few arrows.",
    "The violinist took a [bow] and thanked the audience.",
    "We saw a [play] at the new theatre.",
    "The girls [play] tennis after school.",
    "He swam to the other [bank] of the river.",
    "The [bank] gave them a loan for the shop.",
]
MEANING = 2  # the second LSTM layer knows most of what a word means here
SHOWN = 3


class Uses:
    """Every word of every sentence of the list, with its vectors."""

    def __init__(self, model: Embedder) -> None:
        self.model = model
        layers = model.encode(SENTENCES, layers=[0, MEANING])
        self.places = [(number, place) for number, vectors in enumerate(layers) for place in range(vectors.shape[1])]
        self.vectors = np.concatenate(layers, axis=1)  # (2, all words, dim)

    def nearest(self, query: str, layer: int) -> list[tuple[float, str]]:
        """The words most like the one marked in the query: how alike, and the sentence with the word marked."""
        asked = self.model.word_vector(query, layers=[0, MEANING])[layer]
        alike = self.model.similarity(asked, self.vectors[layer])[0]
        return [(float(alike[n]), self._marked(*self.places[n])) for n in np.argsort(-alike, kind="stable")[:SHOWN]]

    def _marked(self, number: int, place: int) -> str:
        start, end = self.model.tokenize(SENTENCES[number]).offsets[place]
        return f"{SENTENCES[number][:start]}[{SENTENCES[number][start:end]}]{SENTENCES[number][end:]}"


def show_meanings(uses: Uses) -> None:
    for query in QUERIES:
        print(f"\n{query}")
        for title, layer in (("by the word alone (layer 0)", 0), (f"in context (layer {MEANING})", 1)):
            print(f"  {title}")
            for alike, sentence in uses.nearest(query, layer):
                print(f"    {alike:.2f}  {sentence}")


if __name__ == "__main__":
    embedder = Embedder.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else None)
    print(f"For each query, the {SHOWN} uses of a word most like it, among {len(SENTENCES)} sentences:")
    show_meanings(Uses(embedder))
