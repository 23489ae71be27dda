"""Perplexity of held-out text by the full softmax, unlike the sampled loss of training."""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from elmore.nn.bilm import StateTensors
from elmore.nn.language_model import LanguageModel
from elmore.nn.word_encoder import WordIdTensors
from elmore.pretraining.windows import WindowPlan, Windows
from elmore.training.trainable import Evaluation

METRIC = "held-out perplexity by the full softmax"
MAX_ROWS = 64


@torch.no_grad()
def heldout_perplexity(
    model: LanguageModel,
    words: WordIdTensors,
    stream: NDArray[np.uint32],
    classes: NDArray[np.uint32],
    plan: WindowPlan,
    *,
    dtype: torch.dtype,
) -> Evaluation | None:
    """Evaluate the stream with LSTM states carried over; None if it is too short for a window."""
    rows = min(MAX_ROWS, (len(stream) - 1) // plan.length)
    if rows == 0:
        return None
    windows = Windows(
        stream, classes, WindowPlan(batch_size=rows, length=plan.length, seed=0, directions=plan.directions)
    )
    device = model.softmax_bias.device
    state = StateTensors.zeros(model.config, rows=rows).to(device)
    total = torch.zeros(len(plan.directions), device=device)
    model.eval()
    for window in windows.prefetch(0, windows.per_epoch):
        window_words = words.select(torch.from_numpy(window.types).to(device))
        if window_words.character_ids is not None:
            window_words = window_words._replace(character_ids=window_words.character_ids.long())
        inputs, targets = (torch.from_numpy(array).to(device) for array in (window.inputs, window.targets))
        losses, state = model(window_words, inputs, targets, state, dtype=dtype)
        total += losses
    means = zip(plan.directions, (total / windows.per_epoch).tolist(), strict=True)
    each: dict[str, float] = {direction: perplexity_of(loss) for direction, loss in means}
    mean = math.exp(sum(map(math.log, each.values())) / len(each))  # geometric
    return Evaluation(METRIC, mean, each, tokens=windows.per_epoch * rows * plan.length)


def perplexity_of(loss: float) -> float:
    """exp(loss), finite also for very large losses."""
    return math.exp(min(loss, 700.0))
