"""How much better does elmore-en predict the text of a task once it was fine-tuned on it? Perplexities as in Table 7.

    python experiments/fine-tuning/measure.py [NAME ...] [--data FOLDER] [--work FOLDER] [--device DEVICE]

As `elmo.training = "fine-tuned"` does, the biLM is trained for one epoch on the sentences of the training set, labels
ignored; measured are the sentences of the dev set, each by itself, by the full softmax, before and after. What that is
worth to the tasks is told by the comparisons of `experiments/tasks`. Writes results/perplexity.json, where sets that
were not asked for keep what they had.
"""

import argparse
import json
import shutil
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from elmore.model import load
from elmore.nn.devices import choose_device
from elmore.scoring import perplexity
from elmore.tasks.core.assembly import find_token_style
from elmore.tasks.core.registry import find_task
from elmore.tasks.core.task import Task, fine_tuning_sentences
from elmore.tasks.core.training_run import resolve_recipe
from elmore.tasks.inputs.bilm import fine_tune

RESULTS = Path(__file__).parent / "results"
DATA = Path("../shared/data/tasks")  # from the root of the repository
WORK = Path(".cache/experiments/fine-tuning")

R = TypeVar("R")


class TaskText(NamedTuple):
    """Where the sentences of a task lie, and which of an example's are to be told apart."""

    task: str
    train: str
    dev: str
    parts: tuple[str, ...] = ("",)


SETS = {
    "SNLI": TaskText("entailment", "entailment/snli-train-cut.jsonl.xz", "entailment/snli-dev.jsonl.xz"),
    "MultiNLI": TaskText("entailment", "entailment/mnli-train-cut.jsonl.xz", "entailment/mnli-val-cut.jsonl.xz"),
    "SQuAD": TaskText(
        "squad", "squad/squad-v1.1-train-cut.json.xz", "squad/squad-v1.1-dev.json.xz", ("contexts", "questions")
    ),
    "PropBank on EWT": TaskText("srl", "srl/ewt-train.conll.xz", "srl/ewt-dev.conll.xz"),
    "LitBank": TaskText("coref", "coref/litbank-train.conll.xz", "coref/litbank-dev.conll.xz"),
    "WikiNEuRal": TaskText("ner", "ner/wikineural-train.conll.xz", "ner/wikineural-dev.conll.xz"),
    "WNUT-17": TaskText("ner", "ner/wnut17-train.conll.xz", "ner/wnut17-dev.conll.xz"),
    "SST": TaskText("sentiment", "sentiment/sst-train.txt.xz", "sentiment/sst-dev.txt.xz"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SETS))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--model", default="elmore-en")
    parser.add_argument("--device")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(SETS):
        parser.error(f"there is no set {', '.join(sorted(unknown))}; there are {', '.join(SETS)}")
    for name in arguments.names or SETS:
        for part, row in measure(SETS[name], arguments.work / name.replace(" ", "-"), arguments).items():
            keep(f"{name} {part}".strip(), row, arguments.results / "perplexity.json")


def measure(text: TaskText, folder: Path, arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The perplexities of each part of the dev text."""
    task: Task[Any, Any] = find_task(text.task)
    recipe = resolve_recipe(task, None)
    train = task.read([arguments.data / text.train], recipe.task, to_train=True).examples
    dev = task.read([arguments.data / text.dev], recipe.task, to_train=False).examples
    style = find_token_style(task, recipe, train)
    sentences = fine_tuning_sentences(task, train)
    device = choose_device(arguments.device)
    before = load(arguments.model)
    shutil.rmtree(folder, ignore_errors=True)  # what a try before this one left
    after = returned(fine_tune(before, sentences, folder, recipe.elmo, token_style=style, device=device))
    rows = {}
    for number, part in enumerate(text.parts):
        own = sentences_of(task, dev, number if len(text.parts) > 1 else None)
        scores = [perplexity(own, model=model, token_style=style, state="fixed") for model in (before, after)]
        rows[part] = {
            "train_sentences": len(sentences),
            "sentences": scores[0].sentences,
            "tokens": scores[0].tokens,
            "before": round(scores[0].mean, 2),
            "after": round(scores[1].mean, 2),
        }
    return rows


def sentences_of(task: Task[Any, Any], examples: Sequence[Any], place: int | None) -> list[list[str]]:
    """The sentences of some examples, each once; with a place only those that stand there."""
    found = [tuple(task.sentences(example)) for example in examples]
    chosen = [tuple(tokens) for own in found for tokens in (own if place is None else own[place : place + 1])]
    return [list(tokens) for tokens in dict.fromkeys(chosen)]


def returned(events: Generator[Any, None, R]) -> R:
    """What a generator returns, when all that it has to tell is told."""
    while True:
        try:
            print(next(events), flush=True)
        except StopIteration as end:
            result: R = end.value
            return result


def keep(name: str, row: dict[str, Any], path: Path) -> None:
    found = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**found, name: row}, indent=2) + "\n")
    print(f"{name}: {row['before']} before, {row['after']} after", flush=True)


if __name__ == "__main__":
    main()
