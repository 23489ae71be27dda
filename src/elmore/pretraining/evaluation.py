"""Perplexity on held-out windows, by the full softmax: never to be confused with the sampled loss of training."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from elmore.config import Direction
from elmore.network.language_model import LanguageModel
from elmore.network.state import State
from elmore.pretraining.windows import WindowPlan, Windows
from elmore.text.spelling import WordInputs

MOST_ROWS = 64


class HeldOut(NamedTuple):
    """How well held-out text is predicted."""

    tokens: int
    perplexities: Mapping[Direction, float]

    @property
    def mean(self) -> float:
        """The geometric mean of all directions."""
        return math.exp(sum(map(math.log, self.perplexities.values())) / len(self.perplexities))


def as_fact(held_out: HeldOut | None) -> dict[str, Any] | None:
    """A measurement as the card and a checkpoint have it.

    >>> as_fact(HeldOut(600, {"forward": 50.0, "backward": 32.0}))
    {'tokens': 600, 'mean': 40.0, 'each': {'forward': 50.0, 'backward': 32.0}}
    """
    if held_out is None:
        return None
    return {"tokens": held_out.tokens, "mean": round(held_out.mean, 4), "each": dict(held_out.perplexities)}


def from_fact(fact: Mapping[str, Any] | None) -> HeldOut | None:
    return None if fact is None else HeldOut(fact["tokens"], fact["each"])


@torch.no_grad()
def evaluate(
    model: LanguageModel,
    words: WordInputs,
    stream: NDArray[np.uint32],
    classes: NDArray[np.uint32],
    plan: WindowPlan,
    *,
    dtype: torch.dtype,
) -> HeldOut | None:
    """Read the stream with the state carried on; None where it is too short for a single window."""
    rows = min(MOST_ROWS, (len(stream) - 1) // plan.steps)
    if rows == 0:
        return None
    windows = Windows(stream, classes, WindowPlan(rows=rows, steps=plan.steps, seed=0, directions=plan.directions))
    device = model.softmax_bias.device
    state = State.zeros(model.config, rows=rows).to(device)
    total = torch.zeros(len(plan.directions), device=device)
    model.eval()
    for window in windows.ahead(0, windows.per_epoch):
        chosen = words.select(torch.from_numpy(window.types).to(device))
        if chosen.characters is not None:
            chosen = chosen._replace(characters=chosen.characters.long())
        inputs, targets = (torch.from_numpy(array).to(device) for array in (window.inputs, window.targets))
        losses, state = model(chosen, inputs, targets, state, dtype=dtype)
        total += losses
    means = zip(plan.directions, (total / windows.per_epoch).tolist(), strict=True)
    each = {direction: math.exp(min(loss, 700.0)) for direction, loss in means}
    return HeldOut(windows.per_epoch * rows * plan.steps, each)
