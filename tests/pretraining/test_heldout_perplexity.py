"""Held-out perplexity is that of a plain loop with the full softmax, whatever training does."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from elmore.nn.language_model import LanguageModel
from elmore.nn.recurrence import run_by_autograd
from elmore.nn.word_encoder import WordIdTensors
from elmore.pretraining.heldout_perplexity import heldout_perplexity
from elmore.pretraining.windows import WindowPlan
from elmore.text.vocabulary import Vocabulary
from elmore.text.word_ids import WordIndexer
from small_training import ABLATIONS, CLASSES, MODEL, TYPES, small_model, small_stream

BOTH = WindowPlan(batch_size=4, length=5)


def evaluated(model: LanguageModel, stream: np.ndarray, plan: WindowPlan, dtype: torch.dtype = torch.float32):
    words = WordIdTensors.of(WordIndexer(model.config, vocabulary=Vocabulary(TYPES)).index(TYPES))
    return heldout_perplexity(model, words, stream, CLASSES, plan, dtype=dtype)


@torch.no_grad()
def plain_loss(model: LanguageModel, words: list[int], target: list[int], direction: int) -> Tensor:
    """The mean over one row, read in one go by one direction, with nothing but the plain recurrence."""
    config = model.config
    spelled = WordIndexer(config, vocabulary=Vocabulary(TYPES)).index([TYPES[n] for n in words])
    x = model.network.words(spelled)[None, :, None]  # (1, T, 1, P)
    for number, layer in enumerate(model.network.lstm):
        both = layer.weights()
        weights = type(both)(
            *(None if part is None else part[direction : direction + 1] for part in both[:4]), clips=both.clips
        )
        start = torch.zeros(1, 1, config.vector_dim), torch.zeros(1, 1, config.cell_dim)
        y, _ = run_by_autograd(weights, x, [len(words)], start)
        x = x + y if number and config.skip_connections else y
    scores = x[0, :, 0] @ model.softmax_weight.t() + model.softmax_bias
    return torch.nn.functional.cross_entropy(scores, torch.tensor(target))


@pytest.mark.parametrize("name", ["the whole", *ABLATIONS])
def test_perplexities_are_those_of_a_plain_loop(name, monkeypatch):
    monkeypatch.setattr("elmore.pretraining.heldout_perplexity.MAX_ROWS", 3)
    config = ABLATIONS.get(name, MODEL)
    # Three rows of four windows each, and not a place left over.
    stream = small_stream()[: 3 * 4 * 5 + 1]
    model = small_model(config)
    found = evaluated(model, stream, WindowPlan(batch_size=4, length=5, directions=config.direction_names))
    losses = {}
    for number, direction in enumerate(config.direction_names):
        rows = []
        for row in range(3):
            places = stream[row * 20 : row * 20 + 21].tolist()
            opens, closes = (0, 1) if direction == "forward" else (1, 0)
            if direction == "backward":
                places.reverse()
            words = [word or opens for word in places[:-1]]
            targets = [word or closes for word in places[1:]]
            rows.append(plain_loss(model, words, targets, number))
        losses[direction] = torch.stack(rows).mean().item()
    assert found.tokens == 60
    assert found.parts == pytest.approx({name: math.exp(loss) for name, loss in losses.items()}, rel=1e-5)
    assert found.score == pytest.approx(math.exp(sum(losses.values()) / len(losses)), rel=1e-5)


def test_nothing_is_dropped_and_nothing_learnt():
    model = small_model().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first = evaluated(model, small_stream(20), BOTH)
    assert evaluated(model.train(), small_stream(20), BOTH) == first
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_it_is_the_same_whatever_rows_and_seed_the_training_has():
    model = small_model()
    first = evaluated(model, small_stream(20), BOTH)
    assert evaluated(model, small_stream(20), WindowPlan(batch_size=999, length=5, seed=7)) == first


def test_a_part_too_short_for_a_window_is_not_measured():
    model = small_model()
    assert evaluated(model, np.zeros(1, dtype=np.uint32), BOTH) is None
    assert evaluated(model, small_stream()[:5], BOTH) is None
    assert evaluated(model, small_stream()[:6], BOTH).tokens == 5


def test_bfloat16_measures_nearly_the_same():
    model = small_model()
    exact, rounded = (evaluated(model, small_stream(20), BOTH, dtype) for dtype in (torch.float32, torch.bfloat16))
    assert rounded.parts == pytest.approx(exact.parts, rel=0.01)
    assert rounded.parts != exact.parts


def test_a_hopeless_model_has_a_perplexity_that_is_still_a_number():
    model = small_model()
    with torch.no_grad():
        model.softmax_bias[3] = 1e6
    assert all(math.isfinite(value) for value in evaluated(model, small_stream(20), BOTH).parts.values())
