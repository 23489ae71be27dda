"""What pre-training tells besides what every training run does."""

from pathlib import Path
from typing import NamedTuple

from elmore.training.events import RunEvent
from elmore.training.trainable import Evaluation


class Opened(NamedTuple):
    """Before anything else: what is trained on what."""

    tokens: int
    types: int  # distinct words
    unknown_share: float
    parameters: int
    softmax_parameters: int
    is_sampled: bool  # whether the losses of training are those of a sampled softmax
    frozen_steps: int  # the first ones, which move the softmax only
    notices: tuple[str, ...]  # what the recipe asks for and the corpus is too small for

    def __str__(self) -> str:
        lines = [
            f"{self.tokens:,} tokens, {self.types:,} distinct words, {self.unknown_share:.1%} of tokens are <UNK>",
            f"{self.parameters:,} parameters, and {self.softmax_parameters:,} in the softmax",
            *self.notices,
        ]
        if self.frozen_steps:
            lines.append(f"the first {self.frozen_steps:,} steps are for the softmax alone")
        return "\n".join(lines)


class Finished(NamedTuple):
    """At the end."""

    model: Path
    hdf5: Path | None
    curve: Path | None  # None without matplotlib
    heldout: Evaluation | None
    baseline: Evaluation | None  # of fine-tuning: the same before

    def __str__(self) -> str:
        lines = []
        if self.baseline is not None and self.heldout is not None:
            lines.append(
                f"held-out perplexity: {self.baseline.score:.2f} before fine-tuning, {self.heldout.score:.2f} after"
            )
        lines.append(f"wrote {self.model}" + (f" and {self.hdf5}" if self.hdf5 else ""))
        if self.curve is None:
            lines.append("for a picture of the loss: pip install 'elmore[plots]'")
        return "\n".join(lines)


Event = Opened | RunEvent | Finished
