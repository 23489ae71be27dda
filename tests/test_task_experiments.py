"""The comparisons of `experiments/tasks`: each can be planned, and the sets that are cut are cut as they say."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from elmore.tasks.comparison.plan import WITH, WITHOUT, make_plan, paper_variants
from elmore.tasks.core.registry import find_task
from elmore.tasks.core.training_run import resolve_recipe
from small_comparison import RECIPE, write_data

FOLDER = Path(__file__).resolve().parents[1] / "experiments" / "tasks"
DATA = FOLDER.parents[2] / "shared" / "data" / "tasks"


@pytest.fixture(scope="module")
def experiment():
    """The modules of the folder, as the script finds them."""
    sys.path.insert(0, str(FOLDER))
    import comparisons
    import cut_data
    import run

    yield {"comparisons": comparisons, "cut_data": cut_data, "run": run}
    sys.path.remove(str(FOLDER))
    # No others: what libraries have imported meanwhile cannot all be imported twice.
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "").parent == FOLDER:
            del sys.modules[name]


def plan_of(comparison):
    return make_plan(resolve_recipe(find_task(comparison.task), dict(comparison.changes)), comparison.variants)


def test_every_comparison_can_be_planned_and_every_file_is_there_or_can_be_cut(experiment):
    cuts = {f"cuts/{name}" for name in experiment["cut_data"].cut_names()}
    for name, comparison in experiment["comparisons"].COMPARISONS.items():
        assert plan_of(comparison).runs, name
        train = [comparison.train] if isinstance(comparison.train, str) else comparison.train
        for file in (*train, comparison.dev, *comparison.tests.values()):
            assert file in cuts or not DATA.is_dir() or (DATA / file).is_file(), file


def test_tables_of_one_set_share_their_recipe_data_and_trainings(experiment):
    found = experiment["comparisons"].COMPARISONS
    for name, comparison in found.items():
        if not comparison.trained_in:
            continue
        first = found[comparison.trained_in]
        assert (comparison.changes, comparison.train, comparison.tests) == (first.changes, first.train, first.tests)
        # Whatever else is in its table, what both have is kept under the same name.
        together = plan_of(experiment["run"].union([first, comparison]))
        assert {cell.key for cell in plan_of(comparison).runs} <= {cell.key for cell in together.runs}, name


def test_a_union_trains_all_that_its_comparisons_do(experiment):
    found = experiment["comparisons"].COMPARISONS
    together = experiment["run"].union([found["snli"], found["snli-places"], found["snli-fractions"]])
    assert [one.name for one in together.variants] == [WITHOUT, WITH, "where=input", "where=output", "where=both"]
    assert together.variants[0].fractions == paper_variants(fractions=(0.01, 0.03, 0.1, 0.3))[0].fractions


def test_some_variants_are_trained_with_what_each_is_measured_against(experiment):
    found, wanted = experiment["comparisons"].COMPARISONS, experiment["run"].wanted
    for name, only, expected in (
        ("squad-places", ["where=input"], [WITHOUT, "where=input"]),
        ("settings-squad", ["with ELMo"], ["without", "with ELMo"]),
        ("wnut17", ["with ELMo, GloVe fixed"], ["without ELMo, GloVe fixed", "with ELMo, GloVe fixed"]),
        ("squad-places", ["layers=last"], []),
    ):
        assert [one.name for one in wanted(found[name].variants, only)] == expected
    assert wanted(found["wnut17"].variants, None) == list(found["wnut17"].variants)


def test_trainings_that_were_made_elsewhere_stay(experiment, tmp_path):
    def line(seed, dev, *, data="here", rate=0.1):
        command = f"elmore train srl --train {data}/train.conll --training.learning_rate {rate} --training.seed {seed}"
        facts = {"variant": WITH, "fraction": 1.0, "seed": seed, "dev": dev, "command": f"{command} -o seed-{seed}"}
        return json.dumps(facts) + "\n"

    def fill(folder, lines, counts):
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "counts").mkdir(parents=True)
        (folder / "results.jsonl").write_text("".join(lines))
        for name, content in counts.items():
            (folder / "counts" / f"{name}.npz").write_text(content)

    def found(folder):
        counts = {path.stem: path.read_text() for path in sorted((folder / "counts").iterdir())}
        return (folder / "results.jsonl").read_text(), counts

    made, kept = tmp_path / "made", tmp_path / "kept"
    fill(kept, [line(1, 50.0), line(2, 51.0)], {"seed-1": "old", "seed-2": "old"})
    new = [line(2, 52.0, data="there"), line(3, 53.0, data="there")]
    fill(made, new, {"seed-2": "new", "seed-3": "new"})
    experiment["run"].keep_trainings(made, kept)
    assert found(kept) == ("".join([line(1, 50.0), *new]), {"seed-1": "old", "seed-2": "new", "seed-3": "new"})
    fill(made, [line(1, 54.0, rate=0.2)], {"seed-1": "new"})  # which those of the other rate cannot stand beside
    experiment["run"].keep_trainings(made, kept)
    assert found(kept) == found(made)


def test_a_table_is_made_anew_of_what_is_kept(experiment, tmp_path, monkeypatch, capsys):
    run, data = experiment["run"], write_data(tmp_path)
    comparison = replace(
        experiment["comparisons"].COMPARISONS["wikineural"],
        train=data["train"].name,
        dev=data["dev"].name,
        tests={"names": data["test"].name},
        variants=paper_variants(fractions=[0.5]),
        changes=RECIPE,
        vectors="none",
    )
    monkeypatch.setattr(run, "COMPARISONS", {"small": comparison, "again": replace(comparison, trained_in="small")})
    places = {"--data": tmp_path, "--work": tmp_path / "work", "--results": tmp_path / "results"}
    options = [str(word) for pair in places.items() for word in pair] + ["--seeds", "2", "--device", "cpu"]

    def written(*arguments):
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments, *options])
        run.main()
        return json.loads((tmp_path / "results" / arguments[0] / "table.json").read_text())

    table = written("small", "--jobs", "0")
    shutil.rmtree(tmp_path / "work")
    assert written("again", "--kept") == table
    monkeypatch.setattr(sys, "argv", ["run.py", "--kept", *options])
    with pytest.raises(SystemExit):
        run.main()
    assert "--kept wants the names" in capsys.readouterr().err


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the task data in ../shared")
def test_squad_is_cut_by_article_and_mnli_by_halves(experiment, tmp_path):
    cut = experiment["cut_data"].make_cut
    articles = {
        name: json.loads(cut(f"squad-articles-{name}.json", DATA, tmp_path).read_text(encoding="utf-8"))["data"]
        for name in experiment["cut_data"].ARTICLES
    }
    titles = {name: [one["title"] for one in own] for name, own in articles.items()}
    numbers = {"01-32": 32, "33-36": 4, "01-36": 36, "37-48": 12, "37-47": 11}
    assert {name: len(own) for name, own in titles.items()} == numbers
    assert titles["37-48"] == [*titles["37-47"], "Yuan_dynasty"]
    assert titles["01-36"] == [*titles["01-32"], *titles["33-36"]]
    parts = [set(titles[name]) for name in ("01-32", "33-36", "37-48")]
    assert len(set.union(*parts)) == 48
    dev, test = (cut(f"mnli-{part}.jsonl", DATA, tmp_path).read_text("utf-8").splitlines() for part in ("dev", "test"))
    assert (len(dev), len(test), len({*dev, *test})) == (2499, 2499, 4998)
