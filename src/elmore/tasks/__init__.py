"""Models for the tasks of the ELMo paper, and for others: training, prediction, evaluation and comparison.

elmore.tasks.train("ner", "tagger/", train="train.conll", dev="dev.conll")   # an iterator of events
elmore.tasks.load("tagger/").predict(["Raw text."])
elmore.tasks.train_ensemble("ner", "taggers/", seeds=5, train=…, dev=…)      # an ensemble of five models
elmore.tasks.compare("ner", "comparison/", train=…, dev=…, test=…)           # with and without ELMo
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmore.errors import requires_torch

if TYPE_CHECKING:
    from elmore.tasks.comparison.compare import compare
    from elmore.tasks.core.ensemble_run import train_ensemble
    from elmore.tasks.core.registry import TASKS
    from elmore.tasks.core.trained_model import TrainedModel, load
    from elmore.tasks.core.training_run import train

__all__ = ["TASKS", "TrainedModel", "compare", "load", "train", "train_ensemble"]

# Imported on first use, as in elmore/__init__.py.
_MODULES = {
    "TASKS": "elmore.tasks.core.registry",
    "TrainedModel": "elmore.tasks.core.trained_model",
    "compare": "elmore.tasks.comparison.compare",
    "load": "elmore.tasks.core.trained_model",
    "train": "elmore.tasks.core.training_run",
    "train_ensemble": "elmore.tasks.core.ensemble_run",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'elmore.tasks' has no attribute {name!r}")
    with requires_torch(f"elmore.tasks.{name}"):
        return getattr(import_module(_MODULES[name]), name)
