"""`elmore train --seeds`, and several models where one is named."""

import json

from elmore.tasks.core.trained_model import load
from small_tasks import SMALL, TRAINING, WITH_ELMO, write_data

RECIPE = {**TRAINING, **WITH_ELMO, **SMALL["ner"], "training.epochs": 3, "training.seed": 4}


def test_an_ensemble_is_trained_scored_asked_and_told_of(elmore, tmp_path):
    file, run = write_data(tmp_path)["ner"], tmp_path / "run"
    fields = [word for name, value in RECIPE.items() for word in (f"--{name}", json.dumps(value).strip('"'))]
    begin = ["train", "ner", "--train", file, "--dev", file, "-o", run, "--device", "cpu"]
    ended = elmore(*begin, "--seeds", "2", *fields)
    assert (ended.code, "ensemble of 2: dev F1" in ended.err) == (0, True)
    ended = elmore(*begin, "--resume")
    assert (ended.code, "seed-4 is already trained" in ended.err) == (0, True)
    ended = elmore(*begin, "--resume", "--seeds", "2", *fields)
    assert (ended.code, "seed-4 is already trained" in ended.err) == (0, True)
    assert "has 2 members, not 3" in elmore(*begin, "--resume", "--seeds", "3").err
    assert (
        "training.epochs is 4, but the recipe of the resumed run has 3"
        in elmore(*begin, "--resume", "--training.epochs", "4").err
    )
    (tmp_path / "text.txt").write_text("Mary met John.\n")
    expected = load(run, device="cpu").evaluate(file).value
    for models in ([run], [run / "seed-4", run / "seed-5"]):
        assert json.loads(elmore("evaluate", *models, file, "--json", "--device", "cpu").out)["value"] == expected
        told = elmore("predict", *models, tmp_path / "text.txt", "--json", "--device", "cpu").out
        assert json.loads(told)["text"] == "Mary met John."
    assert "2 models, shown is the first" in elmore("info", run).out
    assert json.loads(elmore("info", run, "--json").out)["members"] == 2
    ended = elmore("evaluate", run / "seed-4", run / "seed-5")
    assert (ended.code, "FILE is missing" in ended.err) == (1, True)
