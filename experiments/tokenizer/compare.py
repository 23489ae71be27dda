"""Is text easier to predict when version 2 of the tokeniser cuts it? Total bits over the same characters, with each.

    python experiments/tokenizer/compare.py [--model elmore-en] [--texts FOLDER] [--only NAME ...] [--most 400]

Every evaluation text that comes raw (own-*.txt.xz in ../shared/data/text/eval unless --texts says otherwise) is split
and tokenised with each version. The two find another number of words, so that perplexities do not compare; what the
same characters cost, in bits, does: the sum of -log2 p over all words and ends of sentences, the mean of the two
directions. Sentences are scored each from the fixed state, so that only those can differ that were cut in another way:
these are scored, the first --most of a text. Words outside the vocabulary are counted over the whole text. Writes
results/compare.json, where texts that were not asked for keep what they had.
"""

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from elmore import load
from elmore.files.text_files import read_lines
from elmore.scoring.perplexity import perplexity
from elmore.scoring.scorer import LanguageModelScorer
from elmore.text.splitting import split_sentences
from elmore.text.style import TokenizerConfig
from elmore.text.tokenizer import Tokenizer

RESULTS = Path(__file__).parent / "results" / "compare.json"
TEXTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "text" / "eval"

Sentences = list[list[str]]


class Cut(NamedTuple):
    """A stretch of text as either version cuts it."""

    text: str
    old: Sentences
    new: Sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="elmore-en")
    parser.add_argument("--texts", type=Path, default=TEXTS)
    parser.add_argument("--only", nargs="*", help="names of texts, without .txt.xz")
    parser.add_argument("--most", type=int, default=400)
    arguments = parser.parse_args()
    model = load(arguments.model)
    predictor = LanguageModelScorer(model)
    found = json.loads(RESULTS.read_text())["texts"] if RESULTS.exists() else {}
    for path in sorted(arguments.texts.glob("own-*.txt.xz")):
        name = path.name.removesuffix(".txt.xz")
        if name not in (arguments.only or [name]):
            continue
        found[name] = compare(list(cuts(path, model.card.text)), predictor, most=arguments.most)
        print(f"{name:<16}", json.dumps(found[name]), flush=True)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({"model": arguments.model, "texts": found}, indent=2) + "\n")


def cuts(path: Path, style: TokenizerConfig) -> Iterator[Cut]:
    """Sentence by sentence where the versions agree on where they end, else a paragraph at a time."""
    old, new = (Tokenizer(replace(style, tokenizer_version=version)) for version in (1, 2))
    for line in read_lines(path):
        first, second = (split_sentences(line, language=style.language, version=version) for version in (1, 2))
        groups = [([one], [one]) for one in first] if first == second else [(first, second)]
        for before, after in groups:
            yield Cut(
                line[before[0].start : before[-1].end] if before else "",
                [old.tokenize(sentence.text).words for sentence in before],
                [new.tokenize(sentence.text).words for sentence in after],
            )


def compare(text: list[Cut], predictor: LanguageModelScorer, *, most: int) -> dict[str, Any]:
    changed = [cut for cut in text if cut.old != cut.new]
    scored = changed[:most]
    bits = {
        "version_1": bits_of([words for cut in scored for words in cut.old], predictor),
        "version_2": bits_of([words for cut in scored for words in cut.new], predictor),
    }
    unknown = {
        "version_1": sum(not predictor.softmax.has_class(word) for cut in text for words in cut.old for word in words),
        "version_2": sum(not predictor.softmax.has_class(word) for cut in text for words in cut.new for word in words),
    }
    return {
        "characters": sum(len(cut.text) for cut in text),
        "words": {
            "version_1": sum(len(words) for cut in text for words in cut.old),
            "version_2": sum(len(words) for cut in text for words in cut.new),
        },
        "unknown_words": unknown,
        "stretches": len(text),
        "changed": len(changed),
        "scored": len(scored),
        "scored_characters": sum(len(cut.text) for cut in scored),
        "bits": {version: round(value) for version, value in bits.items()},
        "bits_change": round(bits["version_2"] / bits["version_1"] - 1, 5) if scored else 0.0,
    }


def bits_of(sentences: Sentences, predictor: LanguageModelScorer) -> float:
    if not sentences:
        return 0.0
    told = perplexity(sentences, model=predictor, state="fixed")
    return told.tokens * math.log2(told.mean)


if __name__ == "__main__":
    main()
