"""Elmore's taggers of names with random weights, some sentences at a time, for `tasks.py prediction`.

    python benchmarks/tasks_ner_elmore.py FOLDER DATA SENTENCES

A JSON line on standard input says which tagger is to read the sentences, and on how many threads; one on standard
output, how long that took. FOLDER gets what a tagger of the same sizes needs to know: sentences, words and characters.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from elmore import Embedder, load
from elmore.tasks.bilm import requirement_of
from elmore.tasks.layer_cache import LayerReader
from elmore.tasks.ner import NER, bioul_tags
from elmore.tasks.new_model import AssembledModel, TokenSources, assemble, find_token_style
from elmore.tasks.tagging import TaggedTokens, TaggerModel
from elmore.tasks.token_vocabulary import build_vocabulary
from elmore.tasks.train_model import resolve_recipe

TRAIN, TEST = Path("ner", "wikineural-train.conll.xz"), Path("ner", "wikineural-test.conll.xz")
VECTORS = Path("vectors", "glove.6B.100d.cut.txt.xz")
SURE = 20.0  # more than random weights say against it: no names are found, so none are made into records


def main(folder: Path, data: Path, sentences: int) -> None:
    recipe = resolve_recipe(NER, {"words.vectors": str(data / VECTORS)})
    train = NER.read([data / TRAIN], recipe.task, to_train=True).examples
    examples = NER.read([data / TEST], recipe.task, to_train=False).examples[:sentences]
    labels = NER.labels(train, recipe.task)
    vocabulary, vectors = build_vocabulary((example.tokens for example in train), recipe.words)
    style = find_token_style(NER, recipe, train)
    bilm = load(recipe.elmo.model, device="cpu")

    def tagger(*, elmo: bool, characters: bool) -> AssembledModel[TaggedTokens, list[str]]:
        changes = {} if elmo else {"elmo.where": "none"}
        if not characters:
            changes["words.character_filters"] = 0
        sources = TokenSources(
            vocabulary=vocabulary,
            vectors=vectors,
            token_style=style,
            required=requirement_of(bilm, recipe.elmo.model) if elmo else None,
            bilm=bilm if elmo else None,
        )
        options = resolve_recipe(NER, {"base": recipe, **changes})
        made = assemble(NER, options, labels, sources, cache=None, device=torch.device("cpu"))
        assert isinstance(made.model, TaggerModel)
        made.model.requires_grad_(requires_grad=False)
        made.model.tagger.emissions.bias[0] = SURE
        return made

    words = tagger(elmo=False, characters=False)
    spelt = tagger(elmo=False, characters=True)
    warm = tagger(elmo=True, characters=True)

    def forget() -> None:
        assert isinstance(warm.maker.layers, LayerReader)
        warm.maker.layers.embedder = Embedder(bilm)

    taggers = {"words": words, "characters": spelt, "elmo, cold": warm, "elmo, warm": warm}
    before: dict[str, Callable[[], None]] = {"elmo, cold": forget}
    about = {
        "sentences": [list(example.tokens) for example in examples],
        "words": vocabulary.words,
        "characters": vocabulary.characters,
        "kinds": labels["kinds"],
    }
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")
    answer(tokens=sum(len(example.tokens) for example in examples), tags=len(bioul_tags(labels)))
    answer(ready=True)
    for line in sys.stdin:
        turn = json.loads(line)
        torch.set_num_threads(turn["threads"])
        made = taggers[turn["tagger"]]
        before.get(turn["tagger"], lambda: None)()
        began = time.perf_counter()
        found = made.maker.predict(made.model, examples)
        answer(seconds=time.perf_counter() - began, names=sum(tag != "O" for tags in found for tag in tags))


def answer(**values: Any) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
