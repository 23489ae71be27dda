"""One word, two meanings: which uses of a word does a contextual vector find alike?

    python examples/senses.py [MODEL]

Nearest neighbours of a marked word among the words of senses.txt: by the word alone, and in its context. Each line of
that file says which sense of bow, play or bank its sentence has, if any, so that one sees at a glance what was found.
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

    def nearest_uses(self, query: str) -> list[tuple[float, str, str]]:
        """The uses most like the one marked in the query: how alike, of which sense, and where."""
        ranked = self._ranked(query, MEANING)[:SHOWN]
        return [(value, SENSES[number], self._marked(number, place)) for value, (number, place) in ranked]

    def _ranked(self, query: str, layer: int) -> list[tuple[float, tuple[int, int]]]:
        alike = self.model.similarity(self.model.word_vector(query, layers=layer), self.vectors[layer])[0]
        return [(float(alike[n]), self.places[n]) for n in np.argsort(-alike, kind="stable")]

    def _marked(self, number: int, place: int) -> str:
        start, end = self.tokens[number].offsets[place]
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
