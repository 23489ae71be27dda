"""Elmore's taggers of names with random weights, some sentences at a time, for `tasks.py prediction`.

    python benchmarks/tasks_ner_elmore.py FOLDER DATA SENTENCES

A JSON line on standard input says which tagger is to read the sentences, and on how many threads; one on standard
output, how long that took. FOLDER gets what a tagger of the same sizes needs to know: sentences, words and characters.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from elmore import load
from elmore.defaults import ComputeName
from elmore.engine.native_library import Precision, why_unavailable
from elmore.engine.threads import set_threads
from elmore.tasks.core.assembly import AssembledModel, InputResources, assemble, find_token_style
from elmore.tasks.core.training_run import resolve_recipe
from elmore.tasks.inputs.bilm import bilm_reference
from elmore.tasks.inputs.layer_cache import LayerReader
from elmore.tasks.inputs.vocabulary import build_vocabulary
from elmore.tasks.tagging.model import TaggedTokens, TaggerModel
from elmore.tasks.tagging.ner import NER, bioul_tags

TRAIN, TEST = Path("ner", "wikineural-train.conll.xz"), Path("ner", "wikineural-test.conll.xz")
VECTORS = Path("vectors", "glove.6B.100d.cut.txt.xz")
COMPUTES: tuple[ComputeName, ...] = ("float32", "int8")  # of the biLM
SURE = 20.0  # more than random weights say against it: no names are found, so none are made into records


def main(folder: Path, data: Path, sentences: int) -> None:
    recipe = resolve_recipe(NER, {"words.vectors": str(data / VECTORS)})
    train = NER.read([data / TRAIN], recipe.task, to_train=True).examples
    examples = NER.read([data / TEST], recipe.task, to_train=False).examples[:sentences]
    labels = NER.labels(train, recipe.task)
    vocabulary, vectors = build_vocabulary((example.tokens for example in train), recipe.words)
    style = find_token_style(NER, recipe, train)
    bilm = load(recipe.elmo.model)

    def tagger(
        *, elmo: bool, characters: bool, compute: ComputeName = "float32"
    ) -> AssembledModel[TaggedTokens, list[str]]:
        changes: dict[str, object] = {} if elmo else {"elmo.where": "none"}
        if not characters:
            changes["words.character_filters"] = 0
        sources = InputResources(
            vocabulary=vocabulary,
            vectors=vectors,
            token_style=style,
            required=bilm_reference(bilm, recipe.elmo.model) if elmo else None,
            bilm=bilm if elmo else None,
            compute=compute,
        )
        options = resolve_recipe(NER, {"base": recipe, **changes})
        made = assemble(NER, options, labels, sources, cache=None, device=torch.device("cpu"))
        assert isinstance(made.model, TaggerModel)
        made.model.requires_grad_(requires_grad=False)
        made.model.tagger.emissions.bias[0] = SURE
        return made

    words = tagger(elmo=False, characters=False)
    spelt = tagger(elmo=False, characters=True)
    taggers = {"words": words, "characters": spelt}
    for compute in COMPUTES:
        if why_unavailable(Precision[compute.upper()]) is None:
            name = "elmo" if compute == "float32" else f"elmo, {compute}"
            taggers[f"{name}, cold"] = taggers[f"{name}, warm"] = tagger(elmo=True, characters=True, compute=compute)
    about = {
        "sentences": [list(example.tokens) for example in examples],
        "words": vocabulary.words,
        "characters": vocabulary.characters,
        "kinds": labels["kinds"],
    }
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")
    tokens = sum(len(example.tokens) for example in examples)
    answer(tokens=tokens, tags=len(bioul_tags(labels)), taggers=list(taggers))
    answer(ready=True)
    for line in sys.stdin:
        turn = json.loads(line)
        torch.set_num_threads(turn["threads"])
        set_threads(turn["threads"])
        made = taggers[turn["tagger"]]
        if turn["tagger"].endswith("cold"):
            forget_words(made)
        began, spent = time.perf_counter(), time.process_time()
        found = made.maker.predict(made.model, examples)
        seconds, processor = time.perf_counter() - began, time.process_time() - spent
        answer(seconds=seconds, processor=processor, names=sum(tag != "O" for tags in found for tag in tags))


def forget_words(made: AssembledModel[TaggedTokens, list[str]]) -> None:
    reader = made.maker.layers
    assert isinstance(reader, LayerReader)
    reader.embedder.clear_words()


def answer(**values: Any) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
