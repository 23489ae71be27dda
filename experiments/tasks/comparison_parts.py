"""What a comparison of these experiments is, and what several of them share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elmore.tasks.comparison.plan import WITHOUT, Variant, paper_variants

FRACTIONS = (0.01, 0.03, 0.1, 0.3)
GLOVE = "vectors/glove.6B.100d.cut.txt.xz"
CUTS = "cuts/"  # what the name of a file begins with that `cut_data.py` makes of others
LONG_EPOCHS = {"training.min_epoch_steps": 50}  # where one hundredth of the data would be read in a few steps
PLATEAU = {"training.plateau_factor": 0.5, "training.plateau_patience": 2}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The arguments of `compare`; files are below the data's folder."""

    task: str
    train: str | tuple[str, ...]
    dev: str
    tests: Mapping[str, str]
    variants: tuple[Variant, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the task's recipe
    vectors: str = GLOVE
    keep_models: bool = False
    trained_in: str = ""  # the comparison whose folder it shares, so that no training is made twice; its own without


def changed(name: str, *, baseline: str | None = WITHOUT, **changes: Any) -> Variant:
    """A variant by the fields it changes, with two underscores for a dot."""
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    return Variant(name=name, changes=changes, baseline=baseline)


def settings(**variants: Mapping[str, Any]) -> tuple[Variant, ...]:
    """Variants by name, the first of which the others are measured against."""
    first, *_ = names = [name.replace("_", " ") for name in variants]
    rows = zip(names, variants.values(), strict=True)
    return tuple(Variant(name=name, changes=own, baseline=None if name == first else first) for name, own in rows)


# What stands beside the model with ELMo and the one without in each table.
LAYERS = paper_variants(layers=["all", "average", "last", 1, 0], penalties=[1, 0.001])[2:]
PLACES = paper_variants(where=["input", "output", "both"])[2:]
GAMMA = changed("gamma fixed at 1", elmo__gamma=1.0, elmo__train_gamma=False)
WITHOUT_GLOVE = changed("ELMo without GloVe", words__vectors="none")
FINE_TUNED = changed("biLM fine-tuned on the task's text", elmo__training="fine-tuned")
