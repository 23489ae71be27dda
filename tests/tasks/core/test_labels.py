"""Labels that the training data does not have: they count as wrong, with one notice."""

import json
import subprocess
import sys

import pytest

from elmore.errors import InputError
from elmore.tasks.core.labels import check_some_known, unseen_labels
from elmore.tasks.core.trained_model import load
from small_tasks import train_small, write_data


def test_notice_has_number_and_first_ten_labels():
    [notice] = unseen_labels([f"L{number:02}" for number in range(15)] * 2, ["A"], "token")
    assert notice.startswith("30 tokens have labels that are not in the training data and count as wrong: L00, L01, ")
    assert notice.endswith("L09 and 5 more")
    assert unseen_labels(["A", "A"], ["A"], "token") == []


def test_check_rejects_disjoint_labels_and_lists_ten():
    with pytest.raises(InputError, match=r"^a\.tsv, line 1: no label of this data .*L09 and 5 more.*which has A"):
        check_some_known([f"L{number:02}" for number in range(15)], ["A"], "a.tsv, line 1")
    check_some_known([], ["A"], "a.tsv, line 1")
    check_some_known(["A", "B"], ["A"], "a.tsv, line 1")


@pytest.mark.parametrize(
    ("task", "extra", "noun"),
    [
        ("ner", "\nHal\tB-ROBOT\n", "1 name has a label"),
        ("pos", "\n1\tHal\t_\tROBOT\tR\t_\t_\t_\t_\t_\n", "1 token has a label"),
        ("classify", "beep beep\tROBOT\n", "1 example has a label"),
    ],
)
def test_evaluate_counts_unseen_label_as_wrong(task, extra, noun, tmp_path):
    data = write_data(tmp_path)[task]
    train_small(task, tmp_path / "run", data, training__epochs=2, elmo__where="none")
    model = load(tmp_path / "run", device="cpu")
    before = model.evaluate(data)
    assert before.notices == ()
    more = data.with_stem("more")
    more.write_text(data.read_text() + extra)
    score = model.evaluate(more)
    assert score.notices == (f"{noun} that is not in the training data and counts as wrong: ROBOT",)
    assert score.parts["ROBOT.recall"] == 0
    assert score.parts["gold"] == before.parts["gold"] + 1


def test_train_accepts_unseen_label_in_dev_data(tmp_path):
    data = write_data(tmp_path)["classify"]
    dev = data.with_stem("dev")
    dev.write_text(data.read_text() + json.dumps("beep")[1:-1] + "\tROBOT\n")
    from elmore.tasks import train
    from small_tasks import SMALL, TRAINING

    recipe = {**TRAINING, **SMALL["classify"], "elmo.where": "none", "training.epochs": 1}
    opened, *_ = train("classify", tmp_path / "run", train=data, dev=dev, recipe=recipe, device="cpu")
    assert any("1 example has a label that is not in the training data" in notice for notice in opened.notices)


def test_train_ensemble_is_function_in_fresh_process():
    code = "from elmore.tasks import train_ensemble; assert callable(train_ensemble), train_ensemble"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
