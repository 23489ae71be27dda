"""The folder of a training run: what lies where, and whether a run may go on.

recipe.json       all settings, resolved
run.json          what the run was started with: the corpus, the model it began from, the commands
log.jsonl         what happened, one object a line
checkpoints/      the newest few, each whole
model/            the finished model
hdf5/             the same as options.json and weights.hdf5, if asked for
loss.png          the curve
tensorboard/      the same for TensorBoard, if asked for
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from elmore.atomic_files import atomic_write
from elmore.corpus.corpus import Corpus
from elmore.errors import FormatError, InputError, error_context
from elmore.fields import read_fields
from elmore.pretraining.recipe import Recipe
from elmore.recipe import override

# Of a run that goes on; anything else would have it read other text, or fit other tensors.
CHANGEABLE = (
    "steps",
    "epochs",
    "learning_rate",
    "warmup",
    "final_rate",
    "weight_decay",
    "clip",
    "dropout",
    "precision",
)


@dataclass(frozen=True, kw_only=True)
class Origins:
    """What a run was started with."""

    corpus: Mapping[str, Any] = field(default_factory=dict)  # the files of the corpus, with their checksums
    init: Mapping[str, Any] | None = None  # the model it began from: name, source, fingerprint, softmax
    characters: Mapping[str, int] | None = None  # that model's table of code points
    commands: tuple[str, ...] = ()  # the first, and those by which it went on


@dataclass(frozen=True)
class RunFolder:
    """The places in a run's folder."""

    path: Path

    @property
    def recipe(self) -> Path:
        return self.path / "recipe.json"

    @property
    def origins(self) -> Path:
        return self.path / "run.json"

    @property
    def log(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def hdf5(self) -> Path:
        return self.path / "hdf5"

    @property
    def picture(self) -> Path:
        return self.path / "loss.png"

    @property
    def board(self) -> Path:
        return self.path / "tensorboard"

    @property
    def is_begun(self) -> bool:
        return self.recipe.is_file()

    def read(self) -> tuple[Recipe, Origins]:
        """What `write` wrote; an error where that is not what lies there."""
        with error_context(self.recipe):
            recipe = read_fields(Recipe, _read_json(self.recipe), error=FormatError)
        if not self.origins.exists():
            return recipe, Origins()
        with error_context(self.origins):
            return recipe, read_fields(Origins, _read_json(self.origins), error=FormatError)

    def write(self, recipe: Recipe, origins: Origins) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        _write_json(self.origins, asdict(origins))
        # Last, because it is what makes a folder a run.
        _write_json(self.recipe, asdict(recipe))


def identity(corpus: Corpus) -> dict[str, Any]:
    """What tells one prepared corpus from another."""
    return {"path": str(corpus.path), "files": corpus.manifest["files"]}


def check_same_corpus(known: Mapping[str, Any], corpus: Corpus) -> None:
    """Refuse to go on with another text than the run has read so far."""
    before, now = known["files"], corpus.manifest["files"]
    differing = [name for name in now if before.get(name, {}).get("sha256") != now[name]["sha256"]]
    if differing:
        sizes = "; ".join(
            f"{name} had {before.get(name, {}).get('bytes', 0):,} bytes and has {now[name]['bytes']:,}"
            for name in differing
        )
        raise InputError(
            f"{corpus.path}: is not the corpus that this run has read ({sizes}); give that one, which was "
            f"{known['path']}, or begin a new run: -o RUN, with --init for the weights"
        )


def changed(recipe: Recipe, changes: Mapping[str, str]) -> Recipe:
    """The recipe of a run that goes on, changed where it may be."""
    for name in changes:
        part, _, single = name.partition(".")
        if part != "training" or single not in CHANGEABLE:
            raise InputError(
                f"{name} cannot be changed in a run that goes on; what can is training.{', training.'.join(CHANGEABLE)}"
            )
    return override(recipe, changes)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot be read ({error}); begin the run anew") from None


def _write_json(path: Path, values: Any) -> None:
    with atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(values, indent=2) + "\n")
