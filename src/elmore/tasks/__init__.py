"""What a biLM is for: tagging, classifying, word senses, entailment and reading, each with its vectors and without.

elmore.tasks.train("ner", "tagger/", train="train.conll", dev="dev.conll")     an iterator of events
elmore.tasks.load("tagger/").predict(["Raw text."])
elmore.tasks.train_ensemble("ner", "taggers/", seeds=5, train=…, dev=…)        several, which decide together
elmore.tasks.compare("ner", "comparison/", train=…, dev=…, test=…)             with ELMo and without
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmore.errors import requires_torch

if TYPE_CHECKING:
    from elmore.tasks.compare_models import compare
    from elmore.tasks.table import TASKS
    from elmore.tasks.train_ensemble import train_ensemble
    from elmore.tasks.train_model import train
    from elmore.tasks.trained_model import TrainedModel, load

__all__ = ["TASKS", "TrainedModel", "compare", "load", "train", "train_ensemble"]

# Loaded on first use, as in the package above.
_HOMES = {
    "TASKS": "elmore.tasks.table",
    "TrainedModel": "elmore.tasks.trained_model",
    "compare": "elmore.tasks.compare_models",
    "load": "elmore.tasks.trained_model",
    "train": "elmore.tasks.train_model",
    "train_ensemble": "elmore.tasks.train_ensemble",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'elmore.tasks' has no attribute {name!r}")
    with requires_torch(f"elmore.tasks.{name}"):
        return getattr(import_module(_HOMES[name]), name)
