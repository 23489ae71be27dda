"""Paths on this machine, whole models and parts of them."""

import os
from pathlib import Path

import pytest

from elmore.errors import NotFound
from elmore.files.atomic_files import _backup_name
from elmore.sources import resolve_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(b"")


def names(files: dict[str, Path]) -> dict[str, str]:
    return {name: path.name for name, path in files.items()}


def test_find_local_returns_folder(folder):
    assert resolve_model(folder).path == folder
    assert resolve_model(str(folder)).requested == str(folder)
    assert resolve_model(f"{folder}/").path == folder


@pytest.mark.parametrize("name", ["pt.zip", "model.tar.gz", "model.tgz", "best.th", "weights.th", "anything"])
def test_find_local_returns_archive_or_state_dict(folder, name):
    fill(folder, name, "options.json")
    found = resolve_model(folder / name)
    assert found.path == folder / name
    assert not found.files


def test_find_local_expands_tilde(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("USERPROFILE", str(folder.parent))
    assert resolve_model("~/model").path == folder
    assert resolve_model("~/model").requested == "~/model"


def test_path_takes_precedence_over_name(folder, monkeypatch):
    (folder / "small").mkdir()
    monkeypatch.chdir(folder)
    assert resolve_model("small").path == Path("small")


@pytest.mark.parametrize(
    ("weights", "options"),
    [
        ("weights.hdf5", "options.json"),
        ("model.hdf5", "options.json"),
        ("lm_weights.hdf5", "options.json"),
        ("lm_weights.hdf5", "lm_options.json"),
        ("elmo_2x4096_5.5B_weights.hdf5", "elmo_2x4096_5.5B_options.json"),
    ],
)
def test_find_local_completes_pair(folder, weights, options):
    fill(folder, weights, options)
    for named in (weights, options):
        found = resolve_model(folder / named)
        assert found.path is None
        assert names(found.files) == {"options.json": options, "weights.hdf5": weights}


def test_find_local_matches_pair_by_name(folder):
    fill(folder, "a_weights.hdf5", "a_options.json", "b_weights.hdf5", "b_options.json", "options.json")
    for named in ("b_weights.hdf5", "b_options.json"):
        assert names(resolve_model(folder / named).files) == {
            "options.json": "b_options.json",
            "weights.hdf5": "b_weights.hdf5",
        }


def test_find_local_adds_companions_of_pair(folder):
    fill(folder, "model.hdf5", "options.json", "vocab.txt", "meta.json", "notes.txt")
    assert set(resolve_model(folder / "model.hdf5").files) == {"options.json", "weights.hdf5", "vocab.txt", "meta.json"}


def test_find_local_reports_missing_options(folder):
    fill(folder, "lm_weights.hdf5", "config.json")
    with pytest.raises(
        NotFound, match=r"lm_weights.hdf5: its options file is missing.*lm_options.json or options.json"
    ):
        resolve_model(folder / "lm_weights.hdf5")


def test_find_local_reports_ambiguous_weights(folder):
    fill(folder, "options.json", "a_weights.hdf5", "b_weights.hdf5")
    with pytest.raises(NotFound, match=r"options.json: its weights file is missing.*a_weights.hdf5, b_weights.hdf5"):
        resolve_model(folder / "options.json")


CHECKPOINT = ("model.ckpt-600.index", "model.ckpt-600.data-00000-of-00001", "model.ckpt-600.meta")


@pytest.mark.parametrize("named", ["model.ckpt-600", *CHECKPOINT])
def test_find_local_takes_any_file_of_tensorflow_checkpoint(folder, named):
    fill(folder, *CHECKPOINT, "options.json", "vocab.txt")
    assert set(resolve_model(folder / named).files) == {*CHECKPOINT, "options.json", "vocab.txt"}


def test_find_local_returns_named_tensorflow_step(folder):
    fill(
        folder,
        *CHECKPOINT,
        "model.ckpt-6000.index",
        "model.ckpt-60.index",
        "checkpoint",
        "options.json",
        "weights.hdf5",
    )
    assert set(resolve_model(folder / "model.ckpt-600").files) == {*CHECKPOINT, "options.json"}


def test_find_local_takes_options_for_tensorflow_folder(folder):
    fill(folder, *CHECKPOINT, "checkpoint", "options.json")
    assert resolve_model(folder / "options.json").path == folder


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "encoder.pkl", "word.dic", "checkpoint", "vocab.txt"]
)
def test_find_local_takes_file_for_its_folder(folder, name, monkeypatch):
    fill(folder, name)
    assert resolve_model(folder / name).path == folder
    monkeypatch.chdir(folder)
    assert resolve_model(name).path == Path()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_find_local_rejects_special_files(folder):
    os.mkfifo(folder / "pipe")
    with pytest.raises(NotFound, match="is neither a file nor a folder"):
        resolve_model(folder / "pipe")


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "~nobody-of-this-name/model", "", "model.ckpt/", "\udcff"])
def test_resolve_rejects_any_odd_name(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(NotFound, match=r"no such file or folder|cannot be read: \w+|the name of the model is empty"):
        resolve_model(name)


@pytest.mark.parametrize("name", ["/", ".", ".."])
def test_find_local_accepts_any_folder(name):
    assert resolve_model(name).path == Path(name)


def test_find_local_finds_fixtures(shared):
    fixtures = shared / "fixtures"
    for weights in ("allennlp/lm_weights.hdf5", "bilm-tf/lm_weights.hdf5", "seqvec/weights.hdf5"):
        assert resolve_model(fixtures / weights).files["options.json"].name == "options.json"
    assert resolve_model(fixtures / "allennlp" / "options.json").files["weights.hdf5"].name == "lm_weights.hdf5"
    assert len(resolve_model(fixtures / "bilm-tf-checkpoint" / "model.ckpt-600").files) == 4
    assert resolve_model(fixtures / "elmoformanylangs" / "elmo_char_only" / "encoder.pkl").path is not None
    assert resolve_model(fixtures / "nlpl" / "nlpl_like.zip").path is not None


def test_find_local_restores_interrupted_replacement(folder):
    folder.rename(_backup_name(folder))  # the state between two renames where names cannot be exchanged
    assert resolve_model(str(folder)).path == folder
    assert folder.is_dir()
