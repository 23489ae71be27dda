"""What a pre-training run was started with, and whether another command may go on with it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from elmore.corpus.corpus import Corpus
from elmore.errors import InputError
from elmore.pretraining.recipe import Recipe
from elmore.recipe import apply_overrides

# Of a run that goes on; anything else would have it read other text, or fit other tensors.
CHANGEABLE = (
    "steps",
    "epochs",
    "learning_rate",
    "warmup_steps",
    "final_rate",
    "weight_decay",
    "gradient_clip",
    "dropout",
    "precision",
)


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Kept as run.json."""

    corpus: Mapping[str, Any]  # its path, and its files with their checksums
    init: Mapping[str, Any] | None = None  # the model it began from: name, source, fingerprint, softmax
    character_vocabulary: Mapping[str, int] | None = None  # that model's table of code points
    commands: tuple[str, ...] = ()  # the first, and those by which it went on


def corpus_identity(corpus: Corpus) -> dict[str, Any]:
    """What tells one prepared corpus from another."""
    return {"path": str(corpus.path), "files": _files(corpus)}


def _files(corpus: Corpus) -> dict[str, Any]:
    return {name: asdict(file) for name, file in corpus.manifest.files.items()}


def check_same_corpus(known: Mapping[str, Any], corpus: Corpus) -> None:
    """Refuse to go on with another text than the run has read so far."""
    before, now = known["files"], _files(corpus)
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


def changed_recipe(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """The recipe of a run that goes on, changed where it may be."""
    for name in changes:
        part, _, single = name.partition(".")
        if part != "training" or single not in CHANGEABLE:
            raise InputError(
                f"{name} cannot be changed in a run that goes on; what can is training.{', training.'.join(CHANGEABLE)}"
            )
    return apply_overrides(recipe, changes)
