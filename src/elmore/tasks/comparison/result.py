"""What one training of a comparison gave, a line of results.jsonl, or an ensemble, a line of ensembles.jsonl."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elmore.fields import check_fields
from elmore.tasks.core.model_folder import MixWeights


@dataclass(frozen=True, kw_only=True)
class TestScore:
    """The official score on one test set."""

    __test__ = False  # no test of pytest's, whatever its name begins with

    value: float
    parts: Mapping[str, float]
    examples: int


# Whose scores they are: variant, share of the data, and the seed, or the seeds of an ensemble.
ScoreKey = tuple[str, float, int | tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """All that is kept of a training; what each test example counted lies in a file beside."""

    variant: str
    changes: Mapping[str, Any]
    fraction: float
    seed: int
    examples: int  # trained on
    metric: str
    dev: float  # the best score
    best_epoch: int  # from 1
    epochs: int
    dev_scores: tuple[float, ...]  # after each epoch
    tests: Mapping[str, TestScore]  # by the name of the test set
    mixes: Mapping[str, MixWeights]  # by place; none without ELMo
    seconds: float  # spent on training steps
    command: str  # that trains the same model

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def key(self) -> tuple[str, float, int]:
        return self.variant, self.fraction, self.seed


@dataclass(frozen=True, kw_only=True)
class EnsembleResult:
    """The scores of all seeds' models, which decide together."""

    variant: str
    fraction: float
    seeds: tuple[int, ...]
    tests: Mapping[str, TestScore]  # by the name of the test set

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def key(self) -> tuple[str, float, tuple[int, ...]]:
        return self.variant, self.fraction, self.seeds
