"""What is fitted in one reading is no matter for a comparison, and that is said before anything is trained."""

from dataclasses import replace

import pytest
import torch

from elmore.errors import InputError
from elmore.tasks.comparison.compare import compare
from elmore.tasks.comparison.jobs import reject_fitted
from elmore.tasks.comparison.plan import Variant, paper_variants
from elmore.tasks.core.registry import TASKS
from elmore.tasks.senses.wic import WIC, CosineThreshold, WicOptions, WicRecipe
from elmore.tasks.tagging.ner import NER, NerRecipe
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
        reject_fitted(task, [own], LABELS[name])
        return
    fitted, trained = FITTED[name]
    with pytest.raises(
        InputError,
        match=f"^{name} with task.method {fitted} is not trained by gradient descent; compare supports only methods "
        f"that are; compare --task.method {trained}, or measure the method with elmore train and elmore evaluate$",
    ):
        reject_fitted(task, [own], LABELS[name])
    reject_fitted(task, [replace(own, task=replace(own.task, method=trained))], LABELS[name])


def wsd_comparison(folder, *more_variants):
    """Of senses that are trained, on the sentences that lie in the folder."""
    data = folder / "senses.data.xml"
    recipe = {
        "elmo.model": "tiny-random",
        "task.method": "linear",
        "task.sense_index": str(folder / "index.sense"),
        "words.vectors": "random",
    }
    return compare(
        "wsd",
        folder / "comparison",
        train=data,
        dev=data,
        test=data,
        recipe=recipe,
        variants=[*paper_variants(), *more_variants],
        jobs=0,
        device="cpu",
    )


def test_one_variant_that_is_fitted_is_enough(tmp_path):
    write_wsd(tmp_path, "senses", SENTENCES)
    write_index(tmp_path)
    events = wsd_comparison(tmp_path, Variant(name="nearest", changes={"task.method": "nearest"}))
    with pytest.raises(InputError, match=r"wsd with task\.method nearest is not trained by gradient descent"):
        next(events)
    assert not (tmp_path / "comparison" / "runs").exists()
    assert not (tmp_path / "comparison" / "comparison.json").exists()


@pytest.mark.parametrize("name", ["senses.gold.key.txt", "index.sense"])
def test_files_beside_the_data_are_to_stay_what_they_were(name, tmp_path):
    write_wsd(tmp_path, "senses", SENTENCES)
    write_index(tmp_path)

    def begin():
        events = wsd_comparison(tmp_path)
        next(events)
        events.stop()
        list(events)

    begin()
    begin()
    file = tmp_path / name
    # The same in another order.
    file.write_text("".join(reversed(file.read_text().splitlines(keepends=True))))
    with pytest.raises(InputError, match=rf"the content of .*{name} differs from the earlier calls of this comparison"):
        begin()


def test_a_task_of_ones_own_is_known_by_its_model(tmp_path):
    own = replace(NER, name="mine", build=lambda options, labels, embedder: CosineThreshold(embedder))
    data = write_data(tmp_path)
    files = {name: data[name] for name in ("train", "dev", "test")}
    events = compare(own, tmp_path / "comparison", **files, recipe=NerRecipe(), jobs=0, device="cpu")
    with pytest.raises(InputError, match=r"^mine is not trained by gradient descent; .*measure the method with"):
        next(events)


def test_looking_draws_no_random_numbers(tmp_path):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    reject_fitted(WIC, [WicRecipe(task=WicOptions(method="classifier"))], LABELS["wic"])
    assert torch.rand(3).equal(expected)
