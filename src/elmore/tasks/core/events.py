"""What the training of a task tells besides what every training run does."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from elmore.display import pluralize
from elmore.tasks.core.model_folder import MixWeights
from elmore.tasks.metrics.metric import Score
from elmore.training.events import RunEvent, duration

if TYPE_CHECKING:
    from elmore.tasks.core.task import Fit


class Configured(NamedTuple):
    """Before anything else: what is trained on what."""

    task: str
    train: int  # examples
    dev: int
    parameters: int  # that are trained
    elmo: str  # which biLM enters where; "without ELMo" where none does
    token_style: str
    notices: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.task}: {self.train:,} examples to learn from, {self.dev:,} to choose by, "
            f"{self.token_style}-style tokens",
            f"{self.parameters:,} parameters to train, {self.elmo}",
            *self.notices,
        ]
        return "\n".join(lines)


class Message(NamedTuple):
    """Something that happened on the way, in words: a biLM was fine-tuned, say."""

    text: str

    def __str__(self) -> str:
        return self.text


class Fitting(NamedTuple):
    """Now and then, while a model is fitted that needs no epochs."""

    done: int  # tokens
    tokens: int
    seconds_left: float

    def __str__(self) -> str:
        return f"read {self.done:,} of {self.tokens:,} tokens, {duration(self.seconds_left)} left"


class Fitted(NamedTuple):
    """Once a model is fitted: what was tried on the dev set."""

    fit: "Fit"

    def __str__(self) -> str:
        scores = self.fit.scores
        metric = scores[self.fit.chosen].metric
        tried = "; ".join(f"{choice} {score.value:.2f}" for choice, score in scores.items())
        return f"dev {metric}: {tried}" + (f"; taken is {self.fit.chosen}" if len(scores) > 1 else "")


class Finished(NamedTuple):
    """At the end."""

    model: Path
    score: Score  # of the best weights on the dev set
    epoch: int  # at whose end they were found; 0 where a model was fitted, which takes no epochs
    epochs: int  # that were trained
    is_flat: bool  # whether the training ended because none had been better for long enough
    mixes: Mapping[str, MixWeights]  # by place: what the task learnt about the layers
    pictures: tuple[Path, ...]  # none without matplotlib, and none of a model that was fitted

    def __str__(self) -> str:
        after = f", after epoch {self.epoch} of {self.epochs}" if self.epoch else ""
        if self.is_flat:
            after += (
                f"; it ended early, after {pluralize(self.epochs - self.epoch, 'epoch')} that brought nothing better"
            )
        lines = [f"best dev {self.score.metric} {self.score.value:.2f}{after}"]
        for place, mix in self.mixes.items():
            shares = " ".join(f"{weight:.2f}" for weight in mix.weights)
            lines.append(f"mix of layers at the {place}: {shares}, gamma {mix.gamma:.2f}")
        lines.append(f"wrote {self.model}")
        if self.pictures:
            lines.append(f"drew {', '.join(map(str, self.pictures))}")
        elif self.epoch:
            lines.append("for pictures of the training and of the mix: pip install 'elmore[plots]'")
        return "\n".join(lines)


class EnsembleFinished(NamedTuple):
    """When all members of an ensemble have been trained."""

    folder: Path
    members: int
    score: Score  # of all together on the dev set

    def __str__(self) -> str:
        return f"all {self.members} together: dev {self.score.metric} {self.score.value:.2f}\nwrote {self.folder}"


Event = Configured | Message | RunEvent | Fitting | Fitted | Finished | EnsembleFinished
