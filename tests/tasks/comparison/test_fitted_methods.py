"""What is fitted in one reading is no matter for a comparison, and that is said before anything is trained."""

from dataclasses import replace

import pytest
import torch

from elmore.errors import InputError
from elmore.tasks.compare_models import compare
from elmore.tasks.comparison.fitted_methods import refuse_fitted
from elmore.tasks.comparison.variants import Variant, paper_variants
from elmore.tasks.ner import NER, NerRecipe
from elmore.tasks.table import TASKS
from elmore.tasks.wic import WIC, CosineThreshold, WicOptions, WicRecipe
from small_comparison import write_data
from small_senses import SENTENCES, write_index, write_wsd

LABELS = {
    "ner": {"kinds": ["PER"]},
    "pos": {"tags": ["NOUN", "VERB"]},
    "sentiment": {"labels": ["0", "1"]},
    "classify": {"labels": ["0", "1"]},
    "wsd": {"senses": {"NOUN": {"bow": ["bow%1", "bow%2"]}}, "first_senses": {}},
    "wic": {"labels": ["same", "different"]},
    "srl": {"roles": ["ARG0", "V"]},
    "coref": {},
    "entailment": {"labels": ["entailment", "neutral"]},
    "squad": {},
}
FITTED = {"wsd": ("nearest", "linear"), "wic": ("threshold", "classifier")}


@pytest.mark.parametrize("name", TASKS)
def test_methods_that_are_fitted_are_refused_and_those_that_are_trained_are_not(name):
    task = TASKS[name]
    own = task.recipe()
    if name not in FITTED:
        refuse_fitted(task, [own], LABELS[name])
        return
    fitted, trained = FITTED[name]
    with pytest.raises(
        InputError,
        match=f"^{name} with task.method {fitted} is fitted in one reading, and what is compared is trained in epochs; "
        f"compare --task.method {trained}, or measure it with elmore train and elmore evaluate$",
    ):
        refuse_fitted(task, [own], LABELS[name])
    refuse_fitted(task, [replace(own, task=replace(own.task, method=trained))], LABELS[name])


def test_one_variant_that_is_fitted_is_enough(tmp_path):
    data = write_wsd(tmp_path, "senses", SENTENCES)
    variants = [*paper_variants(), Variant(name="nearest", changes={"task.method": "nearest"})]
    recipe = {
        "elmo.model": "tiny-random",
        "task.method": "linear",
        "task.sense_index": str(write_index(tmp_path)),
        "words.vectors": "random",
    }
    events = compare(
        "wsd",
        tmp_path / "comparison",
        train=data,
        dev=data,
        test=data,
        recipe=recipe,
        variants=variants,
        jobs=0,
        device="cpu",
    )
    with pytest.raises(InputError, match=r"wsd with task\.method nearest is fitted in one reading"):
        next(events)
    assert not (tmp_path / "comparison" / "runs").exists()
    assert not (tmp_path / "comparison" / "comparison.json").exists()


def test_a_task_of_ones_own_is_known_by_its_model(tmp_path):
    own = replace(NER, name="mine", build=lambda options, labels, embedder: CosineThreshold(embedder))
    data = write_data(tmp_path)
    files = {name: data[name] for name in ("train", "dev", "test")}
    events = compare(own, tmp_path / "comparison", **files, recipe=NerRecipe(), jobs=0, device="cpu")
    with pytest.raises(InputError, match=r"^mine is fitted in one reading, .* epochs; measure it with elmore train"):
        next(events)


def test_looking_draws_no_random_numbers(tmp_path):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    refuse_fitted(WIC, [WicRecipe(task=WicOptions(method="classifier"))], LABELS["wic"])
    assert torch.rand(3).equal(expected)
