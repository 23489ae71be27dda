"""How many examples a second every task's model predicts on a CPU, with ELMo and without; a part of `tasks.py`.

Models of their recipes' sizes with GloVe's vectors and random weights read examples of real data. The biLM reads by
whatever kernels it finds, which are told. It is told to forget all words before each round, so that every word is new
to it once; the model without ELMo takes turns with it.
"""

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from elmore import load
from elmore.defaults import DEFAULT_MODEL
from elmore.embedding.embedder import Embedder
from elmore.engine.threads import set_threads
from elmore.model import Model
from elmore.nn.kernels import choose_kernels
from elmore.tasks.core.assembly import AssembledModel, InputResources, assemble, find_token_style
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.registry import find_task
from elmore.tasks.core.task import Task, token_sequences
from elmore.tasks.core.training_run import resolve_recipe
from elmore.tasks.inputs.bilm import bilm_reference
from elmore.tasks.inputs.layer_cache import LayerReader
from elmore.tasks.inputs.vocabulary import build_vocabulary

VECTORS = Path("vectors", "glove.6B.100d.cut.txt.xz")
# What labels and words are taken from, and what is read; and how many of these at most, beside `--examples`.
FILES: dict[str, tuple[Path, Path]] = {
    "ner": (Path("ner", "wikineural-dev.conll.xz"), Path("ner", "wikineural-test.conll.xz")),
    "pos": (Path("pos", "en_ewt-ud-dev.conllu.xz"), Path("pos", "en_ewt-ud-test.conllu.xz")),
    "sentiment": (Path("sentiment", "sst-dev.txt.xz"), Path("sentiment", "sst-test.txt.xz")),
    "entailment": (Path("entailment", "snli-dev.jsonl.xz"), Path("entailment", "snli-test.jsonl.xz")),
    "squad": (Path("squad", "squad-v1.1-dev.json.xz"), Path("squad", "squad-v1.1-dev.json.xz")),
    "srl": (Path("srl", "ewt-dev.conll.xz"), Path("srl", "ewt-test.conll.xz")),
    "coref": (Path("coref", "ontogum-dev.conll.xz"), Path("coref", "ontogum-test.conll.xz")),
}
MOST = {"coref": 3}  # documents of many sentences


def measure_rates(arguments: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(arguments.threads)
    set_threads(arguments.threads)
    bilm = load(DEFAULT_MODEL)
    return {
        "benchmark": "tasks_rates",
        "model": DEFAULT_MODEL,
        "kernels": choose_kernels(torch.device("cpu"), torch.float32).name,
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "tasks": {name: measure_task(name, bilm, arguments) for name in arguments.tasks},
    }


def measure_task(name: str, bilm: Model, arguments: argparse.Namespace) -> dict[str, Any]:
    """Examples and tokens a second, as each round had them."""
    task, (known, test) = find_task(name), FILES[name]
    recipe = resolve_recipe(task, {"words.vectors": str(arguments.data / VECTORS)})
    train = task.read([arguments.data / known], recipe.task, to_train=True).examples
    examples = task.read([arguments.data / test], recipe.task, to_train=False).examples
    examples = examples[: min(arguments.examples, MOST.get(name, arguments.examples))]
    models = {
        "with": assembled_model(task, recipe, train, bilm),
        "without": assembled_model(task, resolve_recipe(task, {"base": recipe, "elmo.where": "none"}), train, None),
    }
    seconds: dict[str, list[float]] = {model: [] for model in models}
    for number in range(arguments.rounds + 1):
        for model, made in models.items():
            if isinstance(made.maker.layers, LayerReader):
                made.maker.layers.embedder = Embedder(bilm)
            began = time.perf_counter()
            made.maker.predict(made.model, examples)
            if number:  # the first round is to warm up
                seconds[model].append(time.perf_counter() - began)
    result = {
        "examples": len(examples),
        "tokens": sum(map(len, token_sequences(task, examples))),
        "seconds": {model: [round(one, 3) for one in several] for model, several in seconds.items()},
        "examples_per_second": {m: round(len(examples) / median(several), 2) for m, several in seconds.items()},
    }
    print(f"{name}: {result['examples_per_second']}", flush=True)
    return result


def assembled_model(
    task: Task[Any, Any], recipe: TaskRecipe, train: list[Any], bilm: Model | None
) -> AssembledModel[Any, Any]:
    vocabulary, vectors = build_vocabulary(token_sequences(task, train), recipe.words)
    sources = InputResources(
        vocabulary=vocabulary,
        vectors=vectors,
        token_style=find_token_style(task, recipe, train),
        required=None if bilm is None else bilm_reference(bilm, DEFAULT_MODEL),
        bilm=bilm,
    )
    torch.manual_seed(1)
    return assemble(task, recipe, task.labels(train, recipe.task), sources, cache=None, device=torch.device("cpu"))


def rates_table(result: dict[str, Any]) -> str:
    lines = ["task\texamples\ttokens\ta second with ELMo\twithout"]
    for name, one in result["tasks"].items():
        rates = one["examples_per_second"]
        lines.append(f"{name}\t{one['examples']}\t{one['tokens']}\t{rates['with']}\t{rates['without']}")
    return "\n".join(lines)
