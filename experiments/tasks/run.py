"""What is ELMo worth to names, parts of speech and sentiment? The same models with `elmore-en` and without it.

    python experiments/tasks/run.py [NAME ...] [--data FOLDER] [--work FOLDER] [--jobs N] [--device DEVICE] [--seeds N]

Every NAME is a comparison as `elmore compare` makes them; without any, all are run. They can be stopped and go on where
they were. Of each, results/NAME keeps the table, the plots and a line for every training, with the command that trains
the same model.
"""

import argparse
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmore.tasks import compare
from elmore.tasks.comparison.variants import WITHOUT, Variant, paper_variants

RESULTS = Path(__file__).parent / "results"
DATA = Path("../shared/data/tasks")  # from the root of the repository
WORK = Path(".cache/experiments/tasks")
KEPT = ("results.jsonl", "table.md", "table.json", "*.png")
FRACTIONS = (0.01, 0.03, 0.1, 0.3)
GLOVE = "vectors/glove.6B.100d.cut.txt.xz"
CONTEXT_FREE = "layer 0"
LONG_EPOCHS = {"training.min_epoch_steps": 50}  # where one hundredth of the data would be read in four steps


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The arguments of `compare`; files are below the data's folder."""

    task: str
    train: str
    dev: str
    tests: Mapping[str, str]
    variants: tuple[Variant, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the task's recipe
    vectors: str = GLOVE
    keep_models: bool = False


def changed(name: str, *, baseline: str | None = WITHOUT, **changes: Any) -> Variant:
    """A variant by the fields it changes, with two underscores for a dot."""
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    return Variant(name=name, changes=changes, baseline=baseline)


# Of tables 2 and 3, and of what sub-word input, the scale and layer normalisation do.
TABLES = (
    *paper_variants(layers=["all", "average", "last", 1, 0], penalties=[1, 0.001], where=["input", "output", "both"]),
    changed("gamma fixed at 1", elmo__train_gamma=False),
    changed("layer norm", elmo__normalize=True),
    changed("ELMo without GloVe", words__vectors="none"),
    changed("biLM fine-tuned on the task's text", elmo__training="fine-tuned"),
    changed("biLM trained with the task", elmo__training="joint"),
)

# A linear layer on one layer of the biLM, and nothing beside it; measured against the context-free one.
PROBES = (
    Variant(name=CONTEXT_FREE, changes={"elmo.layers": 0}, baseline=None),
    *(Variant(name=f"layer {layer}", changes={"elmo.layers": layer}, baseline=CONTEXT_FREE) for layer in (1, 2)),
    Variant(name="mix of all", baseline=CONTEXT_FREE),
)
LINEAR = {"task.hidden": (), "words.character_filters": 0, "elmo.dropout": 0.0, "task.dropout": 0.0}

WIKINEURAL = {"train": "ner/wikineural-train.conll.xz", "dev": "ner/wikineural-dev.conll.xz"}
WNUT17 = {"train": "ner/wnut17-train.conll.xz", "dev": "ner/wnut17-dev.conll.xz"}
SST = {"train": "sentiment/sst-train.txt.xz", "dev": "sentiment/sst-dev.txt.xz"}
EWT = {"train": "pos/en_ewt-ud-train.conllu.xz", "dev": "pos/en_ewt-ud-dev.conllu.xz"}
WIKINEURAL_TESTS = {"WikiNEuRal": "ner/wikineural-test.conll.xz", "Wikigold": "ner/wikigold-test.conll.xz"}
WNUT17_TEST = {"WNUT-17": "ner/wnut17-test.conll.xz"}
SST_TEST = {"SST-5": "sentiment/sst-test.txt.xz"}
EWT_TEST = {"EWT": "pos/en_ewt-ud-test.conllu.xz"}

# How the recipes were chosen: by the dev set alone, which stands in for the test set.
NAME_SETTINGS = (
    changed("as it is", baseline=None, elmo__where="none"),
    changed("dropout 0.33", baseline="as it is", elmo__where="none", task__dropout=0.33),
    changed("batches of 16", baseline="as it is", elmo__where="none", training__batch_size=16),
    changed("GloVe fixed", baseline="as it is", elmo__where="none", words__trained=False),
    changed("one layer of 200", baseline="as it is", elmo__where="none", task__hidden=(200,)),
    changed("rare words too", baseline="as it is", elmo__where="none", words__min_count=1),
    changed("30 filters", baseline="as it is", elmo__where="none", words__character_filters=30),
    changed("ELMo", baseline="as it is"),
    changed("ELMo, dropout 0.5 on it", baseline="as it is", elmo__dropout=0.5),
    changed("ELMo, GloVe fixed", baseline="as it is", words__trained=False),
)
SENTIMENT_SETTINGS = (
    changed("as it is", baseline=None, elmo__where="none"),
    changed("GloVe trained", baseline="as it is", elmo__where="none", words__trained=True),
    changed("input dropout 0.5", baseline="as it is", elmo__where="none", task__input_dropout=0.5),
    changed("rate 0.0003", baseline="as it is", elmo__where="none", training__learning_rate=0.0003),
    changed("ELMo", baseline="as it is"),
    changed("ELMo at the input", baseline="as it is", elmo__where="input"),
    changed("ELMo, input dropout 0.5", baseline="as it is", task__input_dropout=0.5, elmo__dropout=0.25),
    changed("ELMo, rate 0.0003", baseline="as it is", training__learning_rate=0.0003),
)

# A tagger of ELMo's vectors alone, small enough to be shipped; chosen by the dev set.
SHIPPED = {
    "words.character_filters": 0,
    "task.hidden": (200,),
    "task.dropout": 0.5,
    "elmo.dropout": 0.33,
    "training.patience": 6,
    "training.plateau_factor": 0.5,
    "training.plateau_patience": 2,
}
TAGGERS = (
    Variant(name="one layer of 200", baseline=None),
    changed("dropout 0.33", baseline="one layer of 200", task__dropout=0.33),
    changed("two layers of 128", baseline="one layer of 200", task__hidden=(128, 128)),
    changed("ELMo at both places", baseline="one layer of 200", elmo__where="both"),
    changed("64 filters over characters", baseline="one layer of 200", words__character_filters=64),
    changed("batches of 16", baseline="one layer of 200", training__batch_size=16),
    changed("CRF", baseline="one layer of 200", task__crf=True),
)

COMPARISONS = {
    "settings-wnut17": Comparison(
        task="ner", **WNUT17, tests={"dev": "ner/wnut17-dev.conll.xz"}, variants=NAME_SETTINGS
    ),
    "settings-sst": Comparison(
        task="sentiment", **SST, tests={"dev": "sentiment/sst-dev.txt.xz"}, variants=SENTIMENT_SETTINGS
    ),
    "ewt-tagger": Comparison(
        task="pos", **EWT, tests=EWT_TEST, variants=TAGGERS, changes=SHIPPED, vectors="none", keep_models=True
    ),
    "wikineural": Comparison(
        task="ner",
        **WIKINEURAL,
        tests=WIKINEURAL_TESTS,
        variants=paper_variants(fractions=FRACTIONS),
        changes=LONG_EPOCHS,
    ),
    "wnut17": Comparison(task="ner", **WNUT17, tests=WNUT17_TEST, variants=TABLES),
    "sst": Comparison(
        task="sentiment",
        **SST,
        tests=SST_TEST,
        variants=(*paper_variants(fractions=FRACTIONS), *TABLES[2:]),
        changes=LONG_EPOCHS,
    ),
    "ewt-upos": Comparison(task="pos", **EWT, tests=EWT_TEST, variants=paper_variants()),
    "ewt-xpos": Comparison(
        task="pos", **EWT, tests=EWT_TEST, variants=paper_variants(), changes={"task.tag_column": "xpos"}
    ),
    "ewt-upos-probes": Comparison(task="pos", **EWT, tests=EWT_TEST, variants=PROBES, changes=LINEAR, vectors="none"),
    "ewt-xpos-probes": Comparison(
        task="pos",
        **EWT,
        tests=EWT_TEST,
        variants=PROBES,
        changes={**LINEAR, "task.tag_column": "xpos"},
        vectors="none",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COMPARISONS))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", metavar="VARIANT", help="train these variants alone, for now")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in COMPARISONS]:
        parser.error(f"there is no comparison {', '.join(unknown)}; there are {', '.join(COMPARISONS)}")
    for name in arguments.names or COMPARISONS:
        run(name, arguments)


def run(name: str, arguments: argparse.Namespace) -> None:
    comparison, data, folder = COMPARISONS[name], arguments.data, arguments.work / name
    changes = dict(comparison.changes)
    changes["words.vectors"] = "none" if comparison.vectors == "none" else str(data / comparison.vectors)
    events = compare(
        comparison.task,
        folder,
        train=data / comparison.train,
        dev=data / comparison.dev,
        test={test: data / file for test, file in comparison.tests.items()},
        recipe=changes,
        variants=[one for one in comparison.variants if not arguments.only or one.name in (WITHOUT, *arguments.only)],
        seeds=arguments.seeds,
        jobs=arguments.jobs,
        keep_models=comparison.keep_models,
        cache=arguments.work / "layers",
        device=arguments.device,
    )
    for event in events:
        print(f"{name}: {event}", flush=True)
    kept = RESULTS / name
    kept.mkdir(parents=True, exist_ok=True)
    for pattern in KEPT:
        for file in folder.glob(pattern):
            shutil.copy(file, kept)


if __name__ == "__main__":
    main()
