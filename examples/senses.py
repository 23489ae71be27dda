"""One word, two meanings: the nearest neighbors of the contextual vectors of a word.

    python examples/senses.py [MODEL]

Prints the nearest neighbors of a marked word among the words of senses.txt, with context-free and with contextual
vectors. Each line of the file has a sentence and the sense of bow, play or bank in it, if any.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from elmore import Embedder

LINES = Path(__file__).with_name("senses.txt").read_text(encoding="utf-8").splitlines()
SENSES, SENTENCES = zip(*(line.split("\t") for line in LINES), strict=True)

QUERIES = {
    "bow": {
        "The hunter took his [bow] and a few arrows.": "weapon",
        "The violinist took a [bow] and thanked the audience.": "gesture",
    },
    "play": {
        "We saw a [play] at the new theatre.": "drama",
        "The girls [play] tennis after school.": "game",
    },
    "bank": {
        "He swam to the other [bank] of the river.": "river",
        "The [bank] gave them a loan for the shop.": "money",
    },
}
WORD, MEANING = 0, 2  # layer 0 is context-free, layer 2 is the upper LSTM layer
SHOWN = 3


class Uses:
    """All words of the sentences, with their vectors."""

    def __init__(self, model: Embedder) -> None:
        self.model = model
        self.tokens = [model.tokenize(sentence) for sentence in SENTENCES]
        self.positions = [
            (number, position) for number, sentence in enumerate(self.tokens) for position in range(len(sentence.words))
        ]
        layers = np.concatenate(model.encode(SENTENCES, layers=[WORD, MEANING]), axis=1)
        self.vectors = dict(zip((WORD, MEANING), layers, strict=True))  # each (all words, dim)

    def nearest_words(self, query: str) -> list[tuple[float, str]]:
        """The words most similar to the marked word, by layer 0: similarity, and the word with its frequency."""
        counts = Counter(self.tokens[number].words[position] for number, position in self.positions)
        alike = {self.tokens[number].words[position]: value for value, (number, position) in self._ranked(query, WORD)}
        return [(value, f"{word} ×{counts[word]}") for word, value in list(alike.items())[:SHOWN]]

    def nearest_uses(self, query: str) -> list[tuple[float, str, str]]:
        """The uses most similar to the marked word: similarity, sense, and the marked sentence."""
        ranked = self._ranked(query, MEANING)[:SHOWN]
        return [(value, SENSES[number], self._marked(number, position)) for value, (number, position) in ranked]

    def _ranked(self, query: str, layer: int) -> list[tuple[float, tuple[int, int]]]:
        alike = self.model.similarity(self.model.word_vector(query, layers=layer), self.vectors[layer])[0]
        return [(float(alike[n]), self.positions[n]) for n in np.argsort(-alike, kind="stable")]

    def _marked(self, number: int, position: int) -> str:
        start, end = self.tokens[number].offsets[position]
        return f"{SENTENCES[number][:start]}[{SENTENCES[number][start:end]}]{SENTENCES[number][end:]}"


def show_meanings(uses: Uses) -> None:
    right = shown = 0
    for word, queries in QUERIES.items():
        print(f"\n{word}, by its letters alone (layer {WORD}), is the same wherever it stands; most alike are")
        print("    " + ", ".join(f"{found} {alike:.2f}" for alike, found in uses.nearest_words(next(iter(queries)))))
        for query, sense in queries.items():
            print(f"  {query}  ({sense}; layer {MEANING})")
            for alike, found, sentence in uses.nearest_uses(query):
                right, shown = right + (found == sense), shown + 1
                print(f"    {alike:.2f}  {'=' if found == sense else '≠'} {found:<8} {sentence}")
    print(f"\n{right} of {shown} neighbours in context have the sense of the word that was asked for.")


if __name__ == "__main__":
    embedder = Embedder.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else None)
    print(f"The {SHOWN} nearest neighbours of a word, among all words of {len(SENTENCES)} sentences:")
    show_meanings(Uses(embedder))
