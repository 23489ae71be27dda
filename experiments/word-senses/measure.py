"""What does each layer of elmore-en know of word senses? WSD by nearest neighbour, MCL-WiC by threshold, SCWS by rank.

    python experiments/word-senses/measure.py [--model elmore-en] [--data FOLDER] [--cache FOLDER] [--only NAME ...]

For every layer, for their average, and for GloVe's vectors, which know no context, a model is fitted as `elmore train`
does, and scored as `elmore evaluate` does. The layers of all sentences are kept in the cache (several GB), so that the
biLM reads them once. Writes results/wsd.json, results/wic.json and results/trained.json, where rows that were not asked
for keep what they had. --only takes wsd, wic, and of the methods that are trained by gradients classifier (of WiC) and
linear (of WSD).
"""

import argparse
import json
import platform
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

import elmore
from elmore.tasks.core.trained_model import TrainedModel, load
from elmore.tasks.core.training_run import train
from elmore.tasks.inputs.layer_cache import LayerCache, LayerReader
from elmore.tasks.metrics.metric import Score
from elmore.tasks.senses.inventory import SenseInventory, read_sense_index
from elmore.tasks.senses.wsd import WSD, PredictedSense, WsdOptions

RESULTS = Path(__file__).parent / "results"
DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "tasks"
# The four test sets of the paper; the fifth is its dev set.
TESTS, DEV = ("senseval2", "senseval3", "semeval2013", "semeval2015"), "semeval2007"
PARTS = ("wsd", "wic", "classifier", "linear")
POS = ("NOUN", "VERB", "ADJ", "ADV")

Changes = Mapping[str, Any]


class Place(NamedTuple):
    """Where things lie."""

    model: str
    data: Path
    cache: Path
    device: str | None

    def wsd(self, name: str) -> Path:
        return self.data / "wsd" / f"{name}.data.xml.xz"

    def wic(self, part: str) -> Path:
        return self.data / "wic" / f"mclwic-en-{part}.jsonl.xz"

    @property
    def sense_index(self) -> Path:
        return self.data / "wsd" / "wordnet30.index.sense.xz"

    def vectors(self) -> dict[str, Changes]:
        """What is compared: single layers, their average, and word vectors."""
        layers = elmore.load(self.model).config.num_layers
        glove = next((self.data / "vectors").glob("glove*"))
        return {
            **{f"layer {layer}": {"elmo.layers": layer} for layer in range(layers)},
            "average": {"elmo.layers": "average"},
            "GloVe": {"elmo.where": "none", "words.vectors": str(glove), "words.trained": False},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="elmore-en")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, help="a folder that stays; without it, one that goes")
    parser.add_argument("--device")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        cache = arguments.cache or Path(temporary)
        place = Place(arguments.model, arguments.data, cache, arguments.device)
        if "wsd" in arguments.only:
            keep("wsd", "first sense of WordNet", {"scores": wsd_shares(first_sense(place))}, place)
            for name, changes in place.vectors().items():
                keep("wsd", name, measure_wsd(place, changes), place)
        if "wic" in arguments.only:
            for name, changes in place.vectors().items():
                keep("wic", name, measure_wic(place, changes), place)
        if "classifier" in arguments.only:
            keep("trained", "wic classifier", measure_wic(place, {"task.method": "classifier"}), place)
        if "linear" in arguments.only:
            keep("trained", "wsd linear", measure_wsd(place, {"task.method": "linear"}), place)


def measure_wsd(place: Place, changes: Changes) -> dict[str, Any]:
    """Train on SemCor, choose on SemEval-07, score all five sets."""
    whole = {**changes, "elmo.model": place.model, "task.sense_index": str(place.sense_index)}
    files = [place.wsd(name) for name in (*TESTS, DEV)]
    row, model = trained(place, "wsd", whole, train_file=place.wsd("semcor"), dev_file=place.wsd(DEV))
    data = model.task.read(files, model.assembled.recipe.task, to_train=False)
    predictions = predicted(model, data.examples, place)
    pairs = list(zip(data.examples, predictions, strict=True))
    first_sense = sum(sense.is_first_sense for senses in predictions for sense in senses)
    return {**row, "scores": wsd_shares(pairs), "answers by first sense": first_sense}


def first_sense(place: Place) -> list[tuple[Any, Any]]:
    """The targets of all five sets, each with WordNet's first sense."""
    index = read_sense_index(place.sense_index)
    inventory = SenseInventory((), {}, {lemma: senses[0] for lemma, senses in index.items()})
    data = WSD.read([place.wsd(name) for name in (*TESTS, DEV)], WsdOptions(), to_train=False)
    return [
        (example, [PredictedSense(inventory.first_sense(target)) for target in example.targets])
        for example in data.examples
    ]


def wsd_shares(pairs: Sequence[tuple[Any, Any]]) -> dict[str, float]:
    """F1 by set; of the four test sets together, also by part of speech; and of all five."""
    five = WSD.metric.score(*map(list, zip(*pairs, strict=True)))
    four: Score = WSD.metric.score(*map(list, zip(*(pair for pair in pairs if pair[0].data_set in TESTS), strict=True)))
    return {
        **{name: round(five.parts[f"{name}.f1"], 2) for name in (*TESTS, DEV)},
        "four": round(four.value, 2),
        **{f"four, {pos}": round(four.parts[f"{pos}.f1"], 2) for pos in POS},
        "five": round(five.value, 2),
    }


def measure_wic(place: Place, changes: Changes) -> dict[str, Any]:
    """Choose on MCL-WiC's dev set, score its test set; and SCWS by the same model."""
    whole = {**changes, "elmo.model": place.model}
    row, model = trained(place, "wic", whole, train_file=place.wic("train"), dev_file=place.wic("dev"))
    scores = {}
    for name, file in (("test", place.wic("test")), ("scws", place.data / "wic" / "scws-ratings.txt.xz")):
        examples = model.task.read([file], model.assembled.recipe.task, to_train=False).examples
        scores[name] = round(model.task.metric.score(examples, predicted(model, examples, place)).value, 2)
    threshold = model.assembled.model.state_dict().get("threshold")
    return {**row, "scores": scores, "threshold": None if threshold is None else round(threshold.item(), 4)}


def trained(
    place: Place, task: str, changes: Changes, *, train_file: Path, dev_file: Path
) -> tuple[dict[str, Any], TrainedModel[Any, Any]]:
    """A model, and the row of a table that tells of it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        events = train(
            task, run, train=train_file, dev=dev_file, recipe=changes, cache=place.cache, device=place.device
        )
        for event in events:
            print(event, flush=True)
        model = load(run, device=place.device)
    fields = {name: value for name, value in changes.items() if name != "elmo.model"}
    flags = " ".join(f"--{name} {shlex.quote(Path(str(value)).name)}" for name, value in fields.items())
    command = f"elmore train {task} --train {train_file.name} --dev {dev_file.name} -o model {flags}"
    row = {
        "command": command,
        "dev": {name: round(value, 2) for name, value in model.card.scores.items() if name.startswith("dev ")},
        "training": dict(model.card.training),
        "mixes": {place: asdict(mix) for place, mix in model.card.mixes.items()},
        "seconds": round(time.monotonic() - began),
    }
    return row, model


def predicted(model: TrainedModel[Any, Any], examples: Sequence[Any], place: Place) -> list[Any]:
    """What the model says, with the layers from the cache."""
    maker = model.assembled.maker
    if isinstance(maker.layers, LayerReader):
        maker = replace(maker, layers=LayerCache(maker.layers, place.cache))
    maker.fill_cache(examples)
    return maker.predict(model.assembled.model, examples)


def keep(file: str, name: str, row: Mapping[str, Any], place: Place) -> None:
    """Put a row into its file at once, so that what is done stays done."""
    path = RESULTS / f"{file}.json"
    found = json.loads(path.read_text())["rows"] if path.exists() else {}
    about = {"model": place.model, "torch": torch.__version__, "machine": platform.machine()}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**about, "rows": {**found, name: row}}, indent=2) + "\n")
    print(f"{name}: {json.dumps(row['scores'])}", flush=True)


if __name__ == "__main__":
    main()
