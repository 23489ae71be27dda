"""How well does the model predict text it was not trained on? Its perplexity on every evaluation text.

    python experiments/elmore-en/perplexity.py MODEL [--float32 TRAINED] [--texts FOLDER] [--only NAME ...]

The texts lie in ../shared/data/text/eval unless --texts says otherwise. Each is read with the state carried on from
sentence to sentence (results/perplexity.json) and with every sentence from the model's own start
(results/perplexity_by_sentence.json). TRAINED is the model before its weights became int8: with it, what that costs
(results/int8.json). Texts that were not asked for keep what they had.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from elmore.defaults import DEFAULT_PASSAGE, DEFAULT_PERPLEXITY_BATCH_SIZE
from elmore.engine.open_engine import AUTO
from elmore.model import load
from elmore.scoring import perplexity
from elmore.scoring.scorer import LanguageModelScorer
from elmore.text.sentence_reader import read_sentences

RESULTS = Path(__file__).parent / "results"
TEXTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "text" / "eval"
TOKENIZED = ("1b-", "wikitext2-")  # how the names of files begin that come as one tokenised sentence a line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--float32", metavar="TRAINED", help="the same model before its weights became int8")
    parser.add_argument("--texts", type=Path, default=TEXTS)
    parser.add_argument("--only", nargs="*", help="names of texts, without .txt.xz")
    parser.add_argument("--device", default=AUTO)
    arguments = parser.parse_args()
    texts = {path.name.removesuffix(".txt.xz"): path for path in sorted(arguments.texts.glob("*.txt.xz"))}
    texts = {name: path for name, path in texts.items() if name in (arguments.only or texts)}
    if not texts:
        raise SystemExit(f"{arguments.texts}: no such texts (*.txt.xz) there")
    model = Scorer.of(arguments.model, device=arguments.device)
    trained = Scorer.of(arguments.float32, device=arguments.device) if arguments.float32 else None
    for name, path in texts.items():
        carried = model.score(path, state="carry")
        keep("perplexity", name, carried)
        keep("perplexity_by_sentence", name, model.score(path, state="fixed"))
        if trained is not None:
            keep("int8", name, {"float32": trained.score(path, state="carry")["mean"], "int8": carried["mean"]})


@dataclass(frozen=True)
class Scorer:
    """A model that is asked for one text after another."""

    predictor: LanguageModelScorer

    @classmethod
    def of(cls, model: str, *, device: str) -> "Scorer":
        return cls(LanguageModelScorer(load(model), device=device))

    def score(self, text: Path, *, state: Literal["carry", "fixed"]) -> dict[str, Any]:
        found = perplexity(self._sentences(text), model=self.predictor, state=state)
        how = {"batch_size": DEFAULT_PERPLEXITY_BATCH_SIZE, "passage": DEFAULT_PASSAGE} if state == "carry" else {}
        numbers = {name: getattr(found, name) for name in ("tokens", "unknown", "forward", "backward", "mean")}
        return {**numbers, "state": state, **how}

    def _sentences(self, text: Path) -> Iterator[list[str]]:
        kind: Literal["tokenized", "text"] = "tokenized" if text.name.startswith(TOKENIZED) else "text"
        for _, sentence in read_sentences(text, format=kind, style=self.predictor.model.card.text):
            if sentence.words:
                yield sentence.words


def keep(results: str, text: str, found: dict[str, Any]) -> None:
    """Put what was found of a text into a file of results, and print it."""
    path = RESULTS / f"{results}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(kept | {text: found}, indent=2) + "\n")
    print(f"{results}: {text}: {json.dumps(found)}", flush=True)


if __name__ == "__main__":
    main()
