"""On a GPU the host launches one step of training after another, and waits for none of them."""

import warnings
from pathlib import Path

import pytest
import torch

from elmore import load
from elmore.tasks.new_model import find_token_style, new_model
from elmore.tasks.table import find_task
from elmore.tasks.task_training import TaskTraining
from elmore.tasks.train_model import resolve_recipe
from small_tasks import SMALL, TRAINING, WITH_ELMO, write_data

# Which spans of a document are linked, the host decides.
WAITS = {"coref": 1}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU is needed")
@pytest.mark.parametrize("task_name", SMALL)
def test_a_step_does_not_wait_for_the_gpu(task_name: str, tmp_path: Path) -> None:
    task, device = find_task(task_name), torch.device("cuda")
    recipe = resolve_recipe(task, {**TRAINING, **WITH_ELMO, **SMALL[task_name]})
    examples = task.read([write_data(tmp_path)[task_name]], recipe.task, to_train=True).examples
    labels, style = task.labels(examples, recipe.task), find_token_style(task, recipe, examples)
    bilm = load("tiny-random", device=device)
    assembled = new_model(
        task, recipe, labels, examples, bilm=bilm, token_style=style, cache=tmp_path / "cache", device=device
    )
    training = TaskTraining(assembled, train=examples, dev=[])
    assembled.maker.read_ahead(examples)
    list(training.train(0, 4))  # what is set up once may wait
    batch = assembled.maker.batch(examples[: recipe.training.batch_size])
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
