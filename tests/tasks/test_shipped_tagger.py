"""The tagger that comes with Elmore, and the script that puts it there."""

import fnmatch
import importlib.util
import json
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import elmore
from elmore.engine.native_library import Precision, why_unavailable
from elmore.tasks.core import model_folder
from elmore.tasks.core.model_folder import find_task_model, is_task_model, read_task_model, shipped_names
from elmore.tasks.core.trained_model import load
from small_tasks import train_small, write_data

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "elmore"


@pytest.fixture(scope="module")
def folder() -> Path:
    if "pos" not in shipped_names():
        pytest.skip("the tagger is not in the package yet")
    return find_task_model(model_folder._SHIPPED / "pos")


@pytest.fixture(scope="module")
def tagger(folder):
    return load(folder, device="cpu")


def test_it_is_small_and_brings_no_bilm(folder):
    assert sum(path.stat().st_size for path in folder.rglob("*")) <= 3_000_000
    assert sorted(path.name for path in folder.iterdir()) == ["model.safetensors", "task.json", "words.txt"]


def test_its_card_says_data_license_scores_and_command(folder):
    card = read_task_model(folder).card
    assert card.license == "CC BY-SA 4.0"
    assert "UD English-EWT" in card.data
    assert card.scores["test accuracy"] >= 96
    assert card.training["command"].startswith("elmore train pos --train en_ewt-ud-train.conllu")
    assert card.elmo is not None
    assert (card.elmo.name, card.elmo.fingerprint) == ("elmore-en", elmore.load("elmore-en").fingerprint())
    # Of the universal tags all.
    tags = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X"
    assert card.labels["tags"] == tags.split()


@pytest.mark.parametrize("compute", ["float32", "bfloat16", "int8"])
def test_its_bilm_computes_in_what_it_is_told_to(tagger, folder, compute):
    if obstacle := why_unavailable(Precision[compute.upper()]):
        pytest.skip(obstacle)
    text = "The actors took a bow."
    other = load(folder, device="cpu", compute=compute)
    assert other.assembled.maker.layers.embedder.compute == compute
    assert other.predict([text])[0].tags == tagger.predict([text])[0].tags


def test_it_tags_raw_text_and_says_where_its_tokens_stand(tagger):
    text = "  The old man doesn't like “New York”.\u00a0She bought three books there."
    [result] = tagger.predict([text])
    told = [(text[start:end], tag) for (start, end), tag in zip(result.offsets, result.tags, strict=True)]
    assert told == [
        *[("The", "DET"), ("old", "ADJ"), ("man", "NOUN"), ("does", "AUX"), ("n't", "PART"), ("like", "VERB")],
        *[("“", "PUNCT"), ("New", "ADJ"), ("York", "PROPN"), ("”", "PUNCT"), (".", "PUNCT")],
        *[("She", "PRON"), ("bought", "VERB"), ("three", "NUM"), ("books", "NOUN"), ("there", "ADV"), (".", "PUNCT")],
    ]
    assert result.sentences == (11, 6)
    assert tagger.predict([text, "", "Me too!"])[0] == result


@pytest.mark.slow
def test_it_is_as_good_as_its_card_says(folder, tagger, shared):
    score = tagger.evaluate(shared / "data" / "tasks" / "pos" / "en_ewt-ud-test.conllu.xz")
    assert score.value >= 96
    # Another processor rounds otherwise: of the tags of the test set, a few.
    assert score.value == pytest.approx(read_task_model(folder).card.scores["test accuracy"], abs=0.02)


def test_all_that_lies_there_goes_into_the_package_and_has_a_license():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["elmore"]
    files = [path.relative_to(PACKAGE).as_posix() for path in (PACKAGE / "task_models").rglob("*") if path.is_file()]
    assert [file for file in files if not any(fnmatch.fnmatch(file, pattern) for pattern in patterns)] == []
    assert "src/elmore/task_models/LICENSE.md" in project["project"]["license-files"]
    terms = (PACKAGE / "task_models" / "LICENSE.md").read_text()
    assert [name for name in shipped_names() if f"`{name}`" not in terms] == []


@pytest.fixture
def ship() -> ModuleType:
    """The script, to be asked."""
    found = importlib.util.spec_from_file_location("ship", ROOT / "experiments" / "pos-tagger" / "ship.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Files by the names of the treebank's, and a run on them."""
    folder = tmp_path_factory.mktemp("data")
    content = write_data(folder)["pos"].read_text()
    for part in ("train", "dev", "test"):
        (folder / f"en_ewt-ud-{part}.conllu.xz").write_text(content)
    train_small("pos", folder / "run", folder / "en_ewt-ud-train.conllu.xz", words__vectors="none")
    return folder


def test_what_is_shipped_is_a_tagger_with_a_full_card(ship, data, tmp_path, monkeypatch):
    output = tmp_path / "task_models" / "pos"
    output.parent.mkdir()
    told = ship.ship(data / "run", output, data=data, device="cpu", bilm="tiny-random")
    assert told["bytes"] == sum(path.stat().st_size for path in output.iterdir())
    assert (told["test"]["value"], told["test_tags_changed_by_float16"]) == (100, 0)
    assert json.loads(json.dumps(told)) is not None
    card = read_task_model(output).card
    assert (card.license, card.scores) == ("CC BY-SA 4.0", {"dev accuracy": 100.0, "test accuracy": 100.0})
    # Whoever trains it again needs the files by their names, and nobody's folders.
    assert card.training["command"].startswith(
        "elmore train pos --train en_ewt-ud-train.conllu.xz --dev en_ewt-ud-dev.conllu.xz --task.hidden '[12]' "
    )
    assert str(data) not in (output / "task.json").read_text()
    monkeypatch.setattr(model_folder, "_SHIPPED", output.parent)
    monkeypatch.chdir(tmp_path)
    assert str(load("pos", device="cpu").predict(["Mary slept."])[0]) == "Mary/PROPN slept/VERB ./PUNCT"


def test_what_is_not_fit_to_be_shipped_is_refused(ship, data, tmp_path, monkeypatch):
    def refused(match: str, run: Path = data / "run", **options) -> None:
        with pytest.raises(SystemExit, match=match):
            ship.ship(run, tmp_path / "pos", **{"data": data, "device": "cpu", "bilm": "tiny-random", **options})
        assert not is_task_model(tmp_path / "pos")

    refused("100.00 on the test set; 101.00 is needed", lowest=101)
    refused("the tagger is to use elmore-en by that name", bilm="elmore-en")
    (tmp_path / "vectors.txt").write_text("john 1 0\nparis 0 1\n")
    vectors = str(tmp_path / "vectors.txt")
    file = data / "en_ewt-ud-train.conllu.xz"
    train_small("pos", tmp_path / "vectors", file, words__vectors=vectors, training__epochs=1)
    refused("has word vectors of a file", tmp_path / "vectors")
    train_small("pos", tmp_path / "inside", file, elmo__inside=True, training__epochs=1)
    refused("not to have a biLM inside", tmp_path / "inside")
    monkeypatch.setattr(ship, "LARGEST", 1000)
    refused("1,000 are the most; train a smaller one")
