"""How well the token styles find the words of a treebank, and how well their tokens turn back into a model's words.

    python experiments/tokenizer/token_styles.py ../shared/data/tasks/pos

Writes results/token_styles.json: of the style `ud` precision, recall and F1 over the words of each part of UD
English-EWT, by their characters; of every style the share of sentences that, cut in it and converted, give exactly the
words that the tokeniser finds in their text.
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

from elmore.files.text_files import read_lines
from elmore.text.style import TOKENIZER_VERSION, PennStyle, TokenizerConfig
from elmore.text.token_styles import retokenize, tokenize_in_style
from elmore.text.tokenizer import Tokenizer

RESULTS = Path(__file__).parent / "results" / "token_styles.json"
CONVERTED_SENTENCES = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("treebank", type=Path, help="the folder with en_ewt-ud-*.conllu.xz")
    folder = parser.parse_args().treebank
    parts = {part: list(read_treebank(folder / f"en_ewt-ud-{part}.conllu.xz")) for part in ("train", "dev", "test")}
    texts = [sentence.text for sentence in parts["train"][:CONVERTED_SENTENCES]]
    found = {
        "ud": {part: score(sentences) for part, sentences in parts.items()},
        "converted": {"sentences": len(texts), "equal": {style: equal(texts, style) for style in get_args(PennStyle)}},
    }
    print(json.dumps(found, indent=2))
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


class TreebankSentence(NamedTuple):
    """A text, and the characters of each word that can be found in it."""

    text: str
    spans: list[tuple[int, int]]


def read_treebank(path: Path) -> Iterator[TreebankSentence]:
    """The sentences of CoNLL-U with their texts; words that share a token of several (don't) have its characters."""
    text, forms, inside = "", [], set()
    for line in [*read_lines(path), ""]:
        if line.startswith("# text = "):
            text = line.removeprefix("# text = ")
        elif not line and forms:
            yield TreebankSentence(text, _places(text, forms))
            forms, inside = [], set()
        elif line and not line.startswith("#"):
            number, form, *_ = line.split("\t")
            if several := re.fullmatch(r"([0-9]+)-([0-9]+)", number):
                inside = {str(one) for one in range(int(several[1]), int(several[2]) + 1)}
                whole = form
                parts: list[str] = []
            elif number in inside:
                parts.append(form)
                inside.discard(number)
                if not inside:
                    # EWT's contractions are cut at a place inside of the token, if the words make it up.
                    forms += parts if "".join(parts) == whole else [whole]
            elif number.isdecimal():
                forms.append(form)


def _places(text: str, forms: list[str]) -> list[tuple[int, int]]:
    spans, end = [], 0
    for form in forms:
        start = text.index(form, end)
        end = start + len(form)
        spans.append((start, end))
    return spans


def score(sentences: list[TreebankSentence]) -> dict[str, float]:
    """Precision, recall and F1 of the words that `ud` finds, in per cent."""
    correct = gold = found = 0
    for text, spans in sentences:
        offsets = tokenize_in_style(text, "ud").offsets
        correct += len(set(spans) & set(offsets))
        gold, found = gold + len(spans), found + len(offsets)
    shares = {"precision": correct / found, "recall": correct / gold, "f1": 2 * correct / (gold + found)}
    return {name: round(100 * share, 2) for name, share in shares.items()}


def equal(texts: list[str], style: PennStyle) -> float:
    """The share of texts, in per cent, whose tokens of a style become the words that the tokeniser finds."""
    tokenizer = Tokenizer(TokenizerConfig(tokenizer_version=TOKENIZER_VERSION))
    same = [
        retokenize(tokenize_in_style(text, style).words, tokenizer, style=style).words == tokenizer.tokenize(text).words
        for text in texts
    ]
    return round(100 * sum(same) / len(same), 2)


if __name__ == "__main__":
    main()
