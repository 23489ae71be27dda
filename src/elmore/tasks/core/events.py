"""The events of task training, in addition to `elmore.training.events`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from elmore.display import pluralize
from elmore.tasks.core.model_folder import MixWeights
from elmore.tasks.metrics.metric import Score
from elmore.training.events import Configured, Finished, RunEvent, duration

if TYPE_CHECKING:
    from elmore.tasks.core.task import Fit


@dataclass(frozen=True, kw_only=True)
class TaskConfigured(Configured):
    """The first event: data, model and notices."""

    task: str
    train: int  # examples
    dev: int  # examples
    elmo: str  # the biLM and the positions where it enters, or "without ELMo"
    token_style: str

    def __str__(self) -> str:
        lines = [
            f"{self.task}: {self.train:,} training examples, {self.dev:,} development examples, "
            f"{self.token_style}-style tokens",
            f"{self.parameters:,} trained parameters, {self.elmo}",
            *self.notices,
        ]
        return "\n".join(lines)


class Fitting(NamedTuple):
    """Progress of a fitted model, every few seconds."""

    done: int  # tokens
    tokens: int
    seconds_left: float

    def __str__(self) -> str:
        return f"encoded {self.done:,} of {self.tokens:,} tokens, {duration(self.seconds_left)} left"


class Fitted(NamedTuple):
    """A model is fitted. The scores of all choices on the dev set are known."""

    fit: "Fit"

    def __str__(self) -> str:
        scores = self.fit.scores
        metric = scores[self.fit.chosen].metric
        values = "; ".join(f"{choice} {score.value:.2f}" for choice, score in scores.items())
        return f"dev {metric}: {values}" + (f"; chosen: {self.fit.chosen}" if len(scores) > 1 else "")


@dataclass(frozen=True, kw_only=True)
class TaskFinished(Finished):
    """The last event: the best weights are written."""

    score: Score  # of the best weights on the dev set
    epoch: int  # of the best weights; 0 for a fitted model
    epochs: int  # trained epochs
    is_flat: bool  # whether early stopping ended the training
    mixes: Mapping[str, MixWeights]  # by the position where ELMo enters
    pictures: tuple[Path, ...]  # empty without matplotlib, and for a fitted model

    def __str__(self) -> str:
        after = f", after epoch {self.epoch} of {self.epochs}" if self.epoch else ""
        if self.is_flat:
            after += f"; stopped early after {pluralize(self.epochs - self.epoch, 'epoch')} without a better score"
        lines = [f"best dev {self.score.metric} {self.score.value:.2f}{after}"]
        for position, mix in self.mixes.items():
            weights = " ".join(f"{weight:.2f}" for weight in mix.weights)
            lines.append(f"mix of layers at the {position}: {weights}, gamma {mix.gamma:.2f}")
        lines.append(f"wrote {self.model}")
        if self.pictures:
            lines.append(f"drew {', '.join(map(str, self.pictures))}")
        elif self.epoch:
            lines.append("for plots of the training and of the mix: pip install 'elmore[plots]'")
        return "\n".join(lines)


class EnsembleFinished(NamedTuple):
    """The last event of `train_ensemble`: all members are trained."""

    folder: Path
    members: int
    score: Score  # of the ensemble on the dev set

    def __str__(self) -> str:
        return f"ensemble of {self.members}: dev {self.score.metric} {self.score.value:.2f}\nwrote {self.folder}"


Event = RunEvent | Fitting | Fitted | EnsembleFinished
