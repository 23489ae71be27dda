"""Make a trained tagger part of the package: in float16, its card with data, license, command and scores.

    python experiments/pos-tagger/ship.py RUN [--data FOLDER] [--output FOLDER] [--device DEVICE]

RUN is a folder that `elmore train pos` wrote, on UD English-EWT with elmore-en. The scores are those of the tagger as
it is shipped. One that is too large, not good enough, or needs more than what comes with Elmore, is refused. Writes
the tagger and results/scores.json.
"""

import argparse
import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from elmore.defaults import DEFAULT_MODEL
from elmore.fields import read_fields
from elmore.model import load as load_bilm
from elmore.tasks.comparison.jobs import train_command
from elmore.tasks.core.model_folder import StoredTaskModel, in_half_precision, read_task_model, write_task_model
from elmore.tasks.core.trained_model import TrainedModel, load
from elmore.tasks.tagging.pos import POS

HERE = Path(__file__).parent
SHIPPED = HERE.parents[1] / "src" / "elmore" / "task_models" / "pos"
DATA = HERE.resolve().parents[2] / "shared" / "data" / "tasks" / "pos"
FILES = {part: f"en_ewt-ud-{part}.conllu.xz" for part in ("train", "dev", "test")}

LARGEST, LOWEST = 3_000_000, 96.0  # bytes, and UPOS accuracy on the test set
LICENSE = "CC BY-SA 4.0"
CREDIT = (
    "UD English-EWT, CC BY-SA 4.0, annotations © 2013 and later by The Board of Trustees of The Leland Stanford Junior "
    "University: by Natalia Silveira, Timothy Dozat, Sebastian Schuster, Miriam Connor, Marie-Catherine de Marneffe, "
    "Nathan Schneider, Ethan Chi, Samuel Bowman, Hanzhi Zhu, Daniel Galbraith, Christopher Manning, John Bauer, others"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--output", type=Path, default=SHIPPED)
    parser.add_argument("--device")
    arguments = parser.parse_args()
    scores = ship(arguments.run, arguments.output, data=arguments.data, device=arguments.device)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / "scores.json").write_text(json.dumps(scores, indent=2) + "\n")
    print(f"wrote {arguments.output}: {scores['bytes']:,} bytes, {scores['test']['value']:.2f} on the test set")


def ship(
    run: Path,
    output: Path,
    *,
    data: Path,
    device: str | None = None,
    bilm: str = DEFAULT_MODEL,
    lowest: float = LOWEST,
) -> dict[str, Any]:
    """Write the tagger of a run to `output`, and return what was measured."""
    trained = read_task_model(run)
    check_needs(trained, bilm)
    command = train_command(
        POS,
        read_fields(POS.recipe, trained.card.recipe),
        train=[FILES["train"]],
        dev=[FILES["dev"]],
        output="tagger",
    )
    described = replace(
        trained.card, license=LICENSE, data=CREDIT, training={**trained.card.training, "command": command}
    )
    stored = in_half_precision(replace(trained, card=described))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "pos"
        write_task_model(stored, place)
        tagger, before = load(place, device=device), load(run, device=device)
        dev, test = (tagger.evaluate(data / FILES[part]) for part in ("dev", "test"))
        changed = tags_that_differ(tagger, before, data / FILES["test"])
        scored = replace(described, scores={"dev accuracy": dev.value, "test accuracy": test.value})
        write_task_model(replace(stored, card=scored), place)
        size = sum(path.stat().st_size for path in place.iterdir())
    if size > LARGEST:
        raise SystemExit(f"{run}: would have {size:,} bytes, and {LARGEST:,} are the most; train a smaller one")
    if test.value < lowest:
        raise SystemExit(f"{run}: {test.value:.2f} on the test set; {lowest:.2f} is needed")
    write_task_model(replace(stored, card=scored), output)
    return {
        "command": command,
        "bytes": size,
        "dev": {"value": dev.value, **dev.parts},
        "test": {"value": test.value, **test.parts},
        "test_tags_changed_by_float16": changed,
        "recipe": asdict(tagger.assembled.recipe),
    }


def check_needs(trained: StoredTaskModel, bilm: str) -> None:
    """A tagger that comes with Elmore needs nothing that does not."""
    card = trained.card
    if card.task != POS.name:
        raise SystemExit(f"a tagger is needed, and this is a model of the task {card.task}")
    if trained.elmo is not None or card.elmo is None or card.elmo.name != bilm:
        raise SystemExit(f"the tagger is to use {bilm} by that name, and not to have a biLM inside")
    if card.elmo.fingerprint != load_bilm(bilm).fingerprint():
        raise SystemExit(f"the tagger was trained with another {bilm} than the one here")
    if card.vector_dim:
        raise SystemExit("the tagger has word vectors of a file, which is data of its own, with a license of its own")


def tags_that_differ(one: TrainedModel[Any, Any], other: TrainedModel[Any, Any], path: Path) -> int:
    """How many tokens of a file two taggers see differently."""
    examples = POS.read([path], one.assembled.recipe.task, to_train=False).examples
    found = zip(one.predict_examples(examples), other.predict_examples(examples), strict=True)
    return sum(a != b for tags, others in found for a, b in zip(tags, others, strict=True))


if __name__ == "__main__":
    main()
