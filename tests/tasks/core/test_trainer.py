"""The host launches one step of training after another, and on a GPU waits for none of them."""

import warnings
from pathlib import Path

import pytest
import torch

from elmore import load
from elmore.tasks.core.assembly import find_token_style, new_model
from elmore.tasks.core.registry import find_task
from elmore.tasks.core.trainer import STEPS_AHEAD, TaskTraining
from elmore.tasks.core.training_run import resolve_recipe
from small_tasks import SMALL, TRAINING, WITH_ELMO, write_data

# Which spans of a document are linked, the host decides.
WAITS = {"coref": 1}


def training_on(device: torch.device, task_name: str, folder: Path) -> TaskTraining:
    task = find_task(task_name)
    recipe = resolve_recipe(task, {**TRAINING, **WITH_ELMO, **SMALL[task_name]})
    examples = task.read([write_data(folder)[task_name]], recipe.task, to_train=True).examples
    labels, style = task.labels(examples, recipe.task), find_token_style(task, recipe, examples)
    bilm = load("tiny-random")
    assembled = new_model(
        task, recipe, labels, examples, bilm=bilm, token_style=style, cache=folder / "cache", device=device
    )
    assembled.maker.fill_cache(examples)
    return TaskTraining(assembled, train=examples, dev=[])


def test_steps_are_told_in_their_order_however_far_the_host_runs_ahead(tmp_path: Path, monkeypatch) -> None:
    told = []
    for ahead in (0, 3, 20):
        monkeypatch.setitem(STEPS_AHEAD, "cpu", ahead)
        told.append(list(training_on(torch.device("cpu"), "pos", tmp_path).train(0, 7, skipped=[4])))
    assert [step.number for step in told[0]] == [1, 2, 3, 5, 6, 7]
    assert told[0] == told[1] == told[2]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU is needed")
@pytest.mark.parametrize("task_name", SMALL)
def test_a_step_does_not_wait_for_the_gpu(task_name: str, tmp_path: Path) -> None:
    training = training_on(torch.device("cuda"), task_name, tmp_path)
    list(training.train(0, 4))  # what is set up once may wait
    batch = training.maker.batch([training._train[place] for place in training.batches.batch(4)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            launched = training._step(5, batch, 0.001)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    waits = [str(warning.message) for warning in caught if "called a synchronizing" in str(warning.message)]
    assert len(waits) == WAITS.get(task_name, 0), waits
    assert launched.finished().finite
