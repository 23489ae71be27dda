import gc
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from elmore.errors import InputError
from elmore.tasks.comparison.compare import compare
from elmore.tasks.comparison.events import (
    EnsembleScored,
    Interrupted,
    Reported,
    RunEvaluated,
    RunFailed,
    RunFinished,
    RunStarted,
)
from elmore.tasks.comparison.plan import WITH, WITHOUT, Variant, paper_variants
from elmore.tasks.metrics.scores import SpanF1
from elmore.training.events import Message
from small_comparison import OPTIONS, RECIPE, results, small_compare, write_data, write_names
from small_runs import ENVIRONMENT, elmore_command, ended, of_kind


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def done(data, tmp_path_factory):
    """A comparison that nobody interrupted, and its events; nobody changes it."""
    folder = tmp_path_factory.mktemp("done") / "comparison"
    return folder, list(small_compare(data, folder))


def test_every_training_is_scored_on_every_test_set(done):
    folder, events = done
    assert [event.run.variant for event in of_kind(RunFinished, events)] == [WITHOUT, WITH]
    without, with_elmo = sorted(results(folder), key=lambda line: line["variant"], reverse=True)
    for line in (without, with_elmo):
        assert list(line["tests"]) == ["test", "other"]
        assert line["epochs"] == len(line["dev_scores"])
        assert line["dev"] == max(line["dev_scores"]) == line["dev_scores"][line["best_epoch"] - 1]
    assert with_elmo["dev"] > 0  # else all of this would compare nothing with nothing
    assert without["mixes"] == {}
    assert sum(with_elmo["mixes"]["input"]["weights"]) == pytest.approx(1)
    assert without["changes"] == {"elmo.where": "none"}


def test_what_examples_count_adds_up_to_the_score(done):
    folder, _ = done
    for line in results(folder):
        (path,) = folder.glob(f"counts/{line['variant'].replace(' ', '-').lower()}-*.npz")
        with np.load(path) as counts:
            for name, score in line["tests"].items():
                assert len(counts[name]) == score["examples"]
                assert SpanF1().value(counts[name]) == pytest.approx(score["value"])


def test_a_report_lies_in_the_folder_and_weights_and_cache_do_not(done):
    folder, events = done
    report = events[-1]
    assert isinstance(report, Reported)
    assert report.failed == 0
    assert set(report.files) == {"table", "json", "mixes", "dev-scores"}
    assert all(path.stat().st_size for path in report.files.values())
    assert json.loads(report.files["json"].read_text())["rows"][1]["variant"] == WITH
    assert report.comparison.rows[1].gains["test"].p <= 1
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert "runs/with-elmo/1/log.jsonl" in left
    assert not [path for path in left if path.endswith(".safetensors") or path.startswith("cache")]


def test_the_command_of_a_result_trains_the_same_model(done, tmp_path):
    folder, _ = done
    line = next(line for line in results(folder) if line["variant"] == WITH)
    words = line["command"].replace("elmore train", "train", 1).replace("'", "").replace("[8]", "[8]").split(" ")
    from elmore.cli.app import program

    outcome = tmp_path / "run"
    words[words.index("-o") + 1] = str(outcome)
    program.main([*words, "--device", "cpu", "-q"], standalone_mode=False)
    card = json.loads((outcome / "model" / "task.json").read_text())
    assert card["scores"]["dev F1"] == line["dev"]
    assert card["mixes"] == line["mixes"]


def test_the_same_again_trains_nothing_and_more_trains_only_what_is_new(data, tmp_path):
    folder = tmp_path / "comparison"
    list(small_compare(data, folder))
    before = results(folder)
    assert of_kind(RunStarted, small_compare(data, folder)) == []
    more = list(small_compare(data, folder, seeds=2, variants=paper_variants(layers=["last"], fractions=[0.5])))
    assert {event.run.key for event in of_kind(RunStarted, more)} == {
        (WITHOUT, 0.5, 1),
        (WITH, 0.5, 1),
        ("layers=last", 1.0, 1),
        *((name, fraction, 2) for name in (WITHOUT, WITH) for fraction in (0.5, 1.0)),
        ("layers=last", 1.0, 2),
    }
    after = results(folder)
    assert [line for line in after if line in before] == before
    assert {line["examples"] for line in after if line["fraction"] == 0.5} == {12}  # of 24
    rows = [(row.variant, row.fraction, len(row.seeds)) for row in more[-1].comparison.rows]
    assert rows == [(WITHOUT, 0.5, 2), (WITH, 0.5, 2), (WITHOUT, 1.0, 2), (WITH, 1.0, 2), ("layers=last", 1.0, 2)]
    assert (folder / "fractions.png").is_file()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"recipe": {**RECIPE, "training.epochs": 5}}, r"the recipe differs .*training.epochs was 4 and is now 5"),
        ({"dev": "test"}, "the --dev data differs from"),
        ({"test": "test"}, "the --test data differs from"),
        (
            {"variants": [paper_variants()[0], Variant(name=WITH, changes={"elmo.layers": 1})]},
            "with other changes",
        ),
    ],
)
def test_other_data_and_other_recipes_are_refused(done, data, changes, complaint):
    folder, _ = done
    changes = {name: data[value] if value == "test" else value for name, value in changes.items()}
    with pytest.raises(InputError, match=complaint):
        list(small_compare(data, folder, **changes))


def test_a_field_that_recipes_did_not_have_then_was_what_it_is_by_default(done, data):
    folder, _ = done
    about = json.loads((folder / "comparison.json").read_text())
    older = json.loads(json.dumps(about))
    del older["recipe"]["elmo"]["gamma"]
    try:
        (folder / "comparison.json").write_text(json.dumps(older))
        assert of_kind(RunStarted, small_compare(data, folder)) == []
        (folder / "comparison.json").write_text(json.dumps(older))
        with pytest.raises(InputError, match=r"elmo\.gamma was 1\.0 and is now 0\.5"):
            list(small_compare(data, folder, recipe={**RECIPE, "elmo.gamma": 0.5}))
    finally:
        (folder / "comparison.json").write_text(json.dumps(about))


def test_another_bilm_under_the_same_name_is_refused(done, data):
    folder, _ = done
    about = json.loads((folder / "comparison.json").read_text())
    stored = about["biLM tiny-random"]
    try:
        (folder / "comparison.json").write_text(json.dumps({**about, "biLM tiny-random": "0" * 64}))
        with pytest.raises(InputError, match="the biLM tiny-random differs from"):
            list(small_compare(data, folder, seeds=2))
    finally:
        (folder / "comparison.json").write_text(json.dumps({**about, "biLM tiny-random": stored}))


def test_compare_counts_label_of_a_test_set_only_as_wrong(data, tmp_path):
    odd = tmp_path / "odd.conll"
    odd.write_text(data["test"].read_text() + "\nUN B-ORG\n")
    lines = [str(event) for event in small_compare(data, tmp_path / "comparison", test=odd)]
    assert any("odd" in line and "ORG" in line for line in lines)


def test_a_training_that_fails_is_told_and_the_others_go_on(data, tmp_path):
    folder = tmp_path / "comparison"
    variants = [*paper_variants(), Variant(name="deep", changes={"elmo.layers": 7})]
    for _ in range(2):  # the second time it is tried again, and nothing else
        events = list(small_compare(data, folder, variants=variants))
        (failed,) = of_kind(RunFailed, events)
        assert failed.error == "elmo.layers is 7, but the biLM has layers 0 to 2"
        assert "Traceback" in failed.details.read_text()
        assert events[-1].failed == 1
        assert [row.variant for row in events[-1].comparison.rows] == [WITHOUT, WITH]
    assert [event.run.variant for event in of_kind(RunStarted, events)] == ["deep"]


def test_a_comparison_that_was_stopped_goes_on_and_gives_the_same(done, data, tmp_path):
    folder = tmp_path / "comparison"
    events = small_compare(data, folder)
    for event in events:
        # In the middle of the second training.
        if isinstance(event, RunEvaluated) and (event.run.variant, event.epoch) == (WITH, 2):
            events.stop()
    assert isinstance(event, Interrupted)
    assert (event.done, event.runs) == (1, 2)
    (started, *_) = of_kind(RunStarted, again := list(small_compare(data, folder)))
    assert (started.run.variant, started.resumes) == (WITH, True)
    assert [event.epoch for event in of_kind(RunEvaluated, again)] == [3, 4]
    assert results(folder) == results(done[0])


def test_a_line_that_was_cut_short_is_made_again(done, data, tmp_path):
    folder = tmp_path / "comparison"
    list(small_compare(data, folder))
    lines = (folder / "results.jsonl").read_text()
    (folder / "results.jsonl").write_text(lines[:-30])
    (started,) = of_kind(RunStarted, small_compare(data, folder))
    assert started.run.variant == WITH
    assert results(folder) == results(done[0])


def test_models_are_kept_if_they_are_asked_for(data, tmp_path):
    from elmore.tasks.core.trained_model import load

    list(small_compare(data, tmp_path / "comparison", keep_models=True))
    line = results(tmp_path / "comparison")[0]
    model = load(tmp_path / "comparison" / "runs" / "with-elmo" / "1", device="cpu")
    assert model.evaluate(data["other"]).value == line["tests"]["other"]["value"]


def test_compare_again_keeps_models_of_earlier_call(data, tmp_path):
    list(small_compare(data, tmp_path, keep_models=True))
    list(small_compare(data, tmp_path))
    assert len(list(tmp_path.glob("runs/*/*/model/task.json"))) == 2


def test_compare_accepts_any_name_of_test_set(data, tmp_path):
    events = list(small_compare(data, tmp_path, test={"file": data["test"], "dev": data["other"]}))
    assert events[-1].failed == 0
    with np.load(next(tmp_path.glob("counts/*.npz"))) as counts:
        assert sorted(counts.files) == ["dev", "file"]


def test_compare_trains_a_task_outside_of_elmore(data, tmp_path):
    from dataclasses import replace

    from elmore.tasks.core.registry import TASKS

    task = replace(TASKS["ner"], name="people")
    options = {"recipe": RECIPE, "seeds": 2, "jobs": 0, "device": "cpu", "ensembles": True}
    files = {"train": data["train"], "dev": data["dev"], "test": data["test"]}
    events = list(compare(task, tmp_path, **files, **options))
    assert events[-1].failed == 0
    assert len(events[-1].comparison.ensembles) == 2


def test_the_models_of_all_seeds_are_scored_together_if_that_is_asked_for(data, tmp_path):
    from elmore.tasks.core.trained_model import load

    with pytest.raises(InputError, match="seeds is 1; an ensemble requires at least 2"):
        small_compare(data, tmp_path, ensembles=True)
    short = {**RECIPE, "training.epochs": 3}
    events = list(small_compare(data, tmp_path, seeds=3, ensembles=True, recipe=short))
    found = {event.result.variant: event.result for event in of_kind(EnsembleScored, events)}
    assert list(found) == [WITHOUT, WITH]
    members = [tmp_path / "runs" / "with-elmo" / seed for seed in ("1", "2", "3")]
    alone = [line["tests"]["test"]["value"] for line in results(tmp_path) if line["variant"] == WITH]
    assert found[WITH].tests["test"].value not in alone  # else it would not show who was asked
    for name in ("test", "other"):
        assert found[WITH].tests[name].value == load(members, device="cpu").evaluate(data[name]).value
    with np.load(tmp_path / "counts" / "with-elmo-fraction-1.0-ensemble-1-2-3.npz") as counts:
        assert SpanF1().value(counts["test"]) == pytest.approx(found[WITH].tests["test"].value)
    report = events[-1].comparison
    without, with_elmo = report.ensembles
    assert (with_elmo.variant, with_elmo.seeds) == (WITH, (1, 2, 3))
    gain = found[WITH].tests["test"].value - found[WITHOUT].tests["test"].value
    assert (without.gains, with_elmo.gains["test"].gain) == ({}, gain)
    assert "| with ELMo, ensemble | 3 |" in (tmp_path / "table.md").read_text()
    # Kept as they are, and not scored again.
    again = list(small_compare(data, tmp_path, seeds=3, ensembles=True, recipe=short))
    assert of_kind(EnsembleScored, again) == []
    assert again[-1].comparison == report


def test_an_ensemble_of_models_that_were_not_kept_is_left_out_with_a_word(data, tmp_path):
    list(small_compare(data, tmp_path))
    events = list(small_compare(data, tmp_path, seeds=2, ensembles=True))
    assert [event.text.partition(",")[0] for event in of_kind(Message, events)] == [WITHOUT, WITH]
    assert "with ELMo, ensemble of 2: not scored, because some of its models were removed" in str(
        of_kind(Message, events)[1]
    )
    assert events[-1].comparison.ensembles == ()
    assert len(events[-1].comparison.rows) == 2


def test_two_comparisons_do_not_work_in_one_folder(data, tmp_path):
    first = small_compare(data, tmp_path)
    next(first)
    with pytest.raises(InputError, match="another comparison uses this folder"):
        list(small_compare(data, tmp_path))


def test_compare_in_one_process_frees_its_runs_when_it_is_dropped(data, tmp_path, monkeypatch):
    monkeypatch.setattr("elmore.tasks.comparison.jobs.SECONDS_TO_END", 0)
    gc.disable()  # the folders are free before any collection
    try:
        for event in small_compare(data, tmp_path):
            if isinstance(event, RunEvaluated):
                break
        assert list(small_compare(data, tmp_path))[-1].failed == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["table.md", "results.jsonl", "mixes.png"])
def test_what_lies_where_a_comparison_would_write_is_kept(name, data, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=f"contains {name}, which would be overwritten; choose another folder"):
        list(small_compare(data, tmp_path))
    assert (tmp_path / name).read_text() == "mine"


def test_test_sets_need_names_of_their_own(data, tmp_path):
    (tmp_path / "more").mkdir()
    other = write_names(tmp_path / "more" / "test.conll", sentences=2, seed=9)
    with pytest.raises(InputError, match="two test sets would have the name test"):
        small_compare(data, tmp_path / "comparison", test=[data["test"], other])
    small_compare(data, tmp_path / "comparison", test={"one": data["test"], "two": [other]}).close()


def test_a_task_of_ones_own_is_not_sent_to_other_processes(data, tmp_path):
    from dataclasses import replace

    from elmore.tasks.core.registry import TASKS

    own = replace(TASKS["ner"], summary="mine")
    with pytest.raises(InputError, match="set jobs=0"):
        compare(own, tmp_path, train=data["train"], dev=data["dev"], test=data["test"], jobs=2)


@pytest.mark.skipif(os.name != "posix", reason="kills a process as only POSIX has it")
def test_a_comparison_in_several_processes_that_was_killed_goes_on_and_gives_the_same(done, data, tmp_path):
    folder = tmp_path / "comparison"
    files = [word for name in ("train", "dev", "test") for word in (f"--{name}", data[name])]
    command = elmore_command("compare", "ner", *files, "--test", data["other"], *OPTIONS)
    command += ["-o", str(folder), "--seeds", "1", "--jobs", "2", "--device", "cpu"]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while running.poll() is None and not _is_training(folder):
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL, "it was over too soon"
    again = ended(command)
    assert again.returncode == 0, again.stderr
    assert "resumes" in again.stderr
    assert again.stdout.startswith("ner, test: F1\n")
    assert results(folder) == results(done[0])


def _is_training(folder: Path) -> bool:
    """Whether a training has ended its first epoch."""
    return any(path.name != "step-00000000" for path in folder.glob("runs/*/*/checkpoints/step-*"))
