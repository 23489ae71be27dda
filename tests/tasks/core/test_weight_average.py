"""The average of a model's weights is that of its equation, and a run that keeps one goes on exactly."""

import hashlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from elmore.tasks.core.events import TaskFinished
from elmore.tasks.core.trained_model import load
from elmore.tasks.core.trainer import ExponentialMovingAverage
from elmore.tasks.core.training_run import train
from elmore.training.events import Evaluated, Stopped
from small_tasks import SMALL, TRAINING, WITH_ELMO, train_small, write_data


def test_the_average_after_some_steps_is_that_of_its_equation():
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2).double()
    average = ExponentialMovingAverage(layer, decay=0.5)
    expected = layer.weight.detach().clone()
    for step in range(1, 20):
        layer.weight.data += torch.randn(2, 3, dtype=torch.float64)
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * layer.weight.detach()
    torch.testing.assert_close(average.state_dict()["weight"], expected, rtol=0, atol=1e-12)


def test_the_weights_are_back_afterwards_to_the_bit_even_if_something_fails():
    layer = torch.nn.Linear(3, 2)
    own = layer.weight.detach().clone()
    average = ExponentialMovingAverage(layer, decay=0.9)
    layer.weight.data += 1

    def fail() -> None:
        with average.applied():
            assert torch.equal(layer.weight, own)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.equal(layer.weight, own + 1)


def test_weights_that_are_never_trained_have_no_average():
    layer = torch.nn.Linear(3, 2)
    layer.bias.requires_grad_(requires_grad=False)
    assert set(ExponentialMovingAverage(layer, decay=0.9).state_dict()) == {"weight"}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))["ner"]


def weights(run: Path) -> str:
    return hashlib.sha256((run / "model" / "model.safetensors").read_bytes()).hexdigest()


def test_a_run_with_an_average_is_scored_by_it_and_goes_on_exactly(data, tmp_path):
    events = train_small("ner", tmp_path / "whole", data, training__average_decay=0.9, training__epochs=12)
    finished = events[-1]
    assert isinstance(finished, TaskFinished)
    assert load(tmp_path / "whole", device="cpu").evaluate(data).value == finished.score.value == 100
    recipe = {**TRAINING, **WITH_ELMO, **SMALL["ner"], "training.average_decay": 0.9, "training.epochs": 12}
    stopped = train("ner", tmp_path / "run", train=data, dev=data, recipe=recipe, device="cpu")
    for event in stopped:
        if isinstance(event, Evaluated) and event.number == 18:
            stopped.stop()
    assert isinstance(event, Stopped)
    list(train("ner", tmp_path / "run", train=data, dev=data, resume=True, device="cpu"))
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")


def test_what_is_kept_is_the_average_and_not_the_weights(data, tmp_path):
    for decay in (0.0, 0.9):
        train_small("ner", tmp_path / f"{decay}", data, training__average_decay=decay, training__epochs=1)
    plain, averaged = (load_file(tmp_path / f"{decay}" / "model" / "model.safetensors") for decay in (0.0, 0.9))
    assert plain.keys() == averaged.keys()
    assert any(not tensor.equal(averaged[name]) for name, tensor in plain.items())
