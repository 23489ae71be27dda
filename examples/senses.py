"""One word, two meanings: which uses of a word does a contextual vector find alike?

    python examples/senses.py [MODEL]

Nearest neighbours of a marked word among the words of senses.txt: by the word alone, and in its context.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from elmore import Embedder

SENTENCES = Path(__file__).with_name("senses.txt").read_text(encoding="utf-8").splitlines()

QUERIES = {
    "bow": ["The hunter took his [bow] and a few arrows.", "The violinist took a [bow] and thanked the audience."],
    "play": ["We saw a [play] at the new theatre.", "The girls [play] tennis after school."],
    "bank": ["He swam to the other [bank] of the river.", "The [bank] gave them a loan for the shop."],
}
WORD, MEANING = 0, 2  # layer 0 knows the word alone, the second LSTM layer most of what it means here
SHOWN = 3


class Uses:
    """Every word of every sentence of the list, with its vectors."""

    def __init__(self, model: Embedder) -> None:
        self.model = model
        self.tokens = [model.tokenize(sentence) for sentence in SENTENCES]
        self.places = [(number, place) for number, one in enumerate(self.tokens) for place in range(len(one.words))]
        layers = np.concatenate(model.encode(SENTENCES, layers=[WORD, MEANING]), axis=1)
        self.vectors = dict(zip((WORD, MEANING), layers, strict=True))  # each (all words, dim)

    def nearest_words(self, query: str) -> list[tuple[float, str]]:
        """The words most like the one marked in the query, by layer 0: how alike, and how often they stand there."""
        counts = Counter(self.tokens[number].words[place] for number, place in self.places)
        alike = {self.tokens[number].words[place]: value for value, (number, place) in self._ranked(query, WORD)}
        return [(value, f"{word} ×{counts[word]}") for word, value in list(alike.items())[:SHOWN]]

    def nearest_uses(self, query: str) -> list[tuple[float, str]]:
        """The uses most like the one marked in the query: how alike, and the sentence with the word marked."""
        return [(value, self._marked(*place)) for value, place in self._ranked(query, MEANING)[:SHOWN]]

    def _ranked(self, query: str, layer: int) -> list[tuple[float, tuple[int, int]]]:
        alike = self.model.similarity(self.model.word_vector(query, layers=layer), self.vectors[layer])[0]
        return [(float(alike[n]), self.places[n]) for n in np.argsort(-alike, kind="stable")]

    def _marked(self, number: int, place: int) -> str:
        start, end = self.tokens[number].offsets[place]
        return f"{SENTENCES[number][:start]}[{SENTENCES[number][start:end]}]{SENTENCES[number][end:]}"


def show_meanings(uses: Uses) -> None:
    for word, queries in QUERIES.items():
        print(f"\n{word}, by the word alone (layer {WORD}): the same vector wherever it stands")
        for alike, found in uses.nearest_words(queries[0]):
            print(f"    {alike:.2f}  {found}")
        for query in queries:
            print(f"  {query}  (layer {MEANING})")
            for alike, sentence in uses.nearest_uses(query):
                print(f"    {alike:.2f}  {sentence}")


if __name__ == "__main__":
    embedder = Embedder.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else None)
    print(f"The {SHOWN} nearest neighbours of a word, among all words of {len(SENTENCES)} sentences:")
    show_meanings(Uses(embedder))
