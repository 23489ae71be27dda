"""Paths on this machine, whole models and parts of them."""

import os
from pathlib import Path

import pytest

from elmore.errors import NotFound
from elmore.files.atomic_files import _backup_name
from elmore.sources import find


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(b"")


def names(files: dict[str, Path]) -> dict[str, str]:
    return {name: path.name for name, path in files.items()}


def test_a_folder_is_taken_as_it_is(folder):
    assert find(folder).path == folder
    assert find(str(folder)).origin == str(folder)
    assert find(f"{folder}/").path == folder


@pytest.mark.parametrize("name", ["pt.zip", "model.tar.gz", "model.tgz", "best.th", "weights.th", "anything"])
def test_an_archive_or_a_state_dict_is_taken_as_it_is(folder, name):
    fill(folder, name, "options.json")
    found = find(folder / name)
    assert found.path == folder / name
    assert not found.files


def test_the_home_folder_may_be_written_as_a_tilde(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("USERPROFILE", str(folder.parent))
    assert find("~/model").path == folder
    assert find("~/model").origin == "~/model"


def test_a_path_wins_over_a_known_name(folder, monkeypatch):
    (folder / "small").mkdir()
    monkeypatch.chdir(folder)
    assert find("small").path == Path("small")


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
def test_weights_and_options_find_each_other(folder, weights, options):
    fill(folder, weights, options)
    for named in (weights, options):
        found = find(folder / named)
        assert found.path is None
        assert names(found.files) == {"options.json": options, "weights.hdf5": weights}


def test_of_several_pairs_in_a_folder_the_one_with_the_same_name_is_taken(folder):
    fill(folder, "a_weights.hdf5", "a_options.json", "b_weights.hdf5", "b_options.json", "options.json")
    for named in ("b_weights.hdf5", "b_options.json"):
        assert names(find(folder / named).files) == {"options.json": "b_options.json", "weights.hdf5": "b_weights.hdf5"}


def test_what_lies_beside_a_pair_comes_along(folder):
    fill(folder, "model.hdf5", "options.json", "vocab.txt", "meta.json", "notes.txt")
    assert set(find(folder / "model.hdf5").files) == {"options.json", "weights.hdf5", "vocab.txt", "meta.json"}


def test_weights_without_options_are_refused_by_name(folder):
    fill(folder, "lm_weights.hdf5", "config.json")
    with pytest.raises(
        NotFound, match=r"lm_weights.hdf5: its options file is missing.*lm_options.json or options.json"
    ):
        find(folder / "lm_weights.hdf5")


def test_options_with_a_choice_of_weights_are_refused_with_the_choice(folder):
    fill(folder, "options.json", "a_weights.hdf5", "b_weights.hdf5")
    with pytest.raises(NotFound, match=r"options.json: its weights file is missing.*a_weights.hdf5, b_weights.hdf5"):
        find(folder / "options.json")


CHECKPOINT = ("model.ckpt-600.index", "model.ckpt-600.data-00000-of-00001", "model.ckpt-600.meta")


@pytest.mark.parametrize("named", ["model.ckpt-600", *CHECKPOINT])
def test_a_tensorflow_checkpoint_is_named_by_its_prefix_or_any_of_its_files(folder, named):
    fill(folder, *CHECKPOINT, "options.json", "vocab.txt")
    assert set(find(folder / named).files) == {*CHECKPOINT, "options.json", "vocab.txt"}


def test_the_step_of_a_tensorflow_checkpoint_that_was_named_is_the_one_taken(folder):
    fill(
        folder,
        *CHECKPOINT,
        "model.ckpt-6000.index",
        "model.ckpt-60.index",
        "checkpoint",
        "options.json",
        "weights.hdf5",
    )
    assert set(find(folder / "model.ckpt-600").files) == {*CHECKPOINT, "options.json"}


def test_the_options_of_a_tensorflow_checkpoint_mean_its_folder(folder):
    fill(folder, *CHECKPOINT, "checkpoint", "options.json")
    assert find(folder / "options.json").path == folder


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "encoder.pkl", "word.dic", "checkpoint", "vocab.txt"]
)
def test_a_file_inside_a_model_folder_means_the_folder(folder, name, monkeypatch):
    fill(folder, name)
    assert find(folder / name).path == folder
    monkeypatch.chdir(folder)
    assert find(name).path == Path()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_neither_file_nor_folder_is_refused(folder):
    os.mkfifo(folder / "pipe")
    with pytest.raises(NotFound, match="is neither a file nor a folder"):
        find(folder / "pipe")


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "~nobody-of-this-name/model", "", "model.ckpt/", "\udcff"])
def test_whatever_the_name_it_is_answered_with_a_sentence(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(NotFound, match=r"no such file or folder|cannot be read: \w+|the name of the model is empty"):
        find(name)


@pytest.mark.parametrize("name", ["/", ".", ".."])
def test_any_folder_will_do_whatever_is_in_it(name):
    assert find(name).path == Path(name)


def test_the_fixtures_of_the_original_programs_are_found(shared):
    fixtures = shared / "fixtures"
    for weights in ("allennlp/lm_weights.hdf5", "bilm-tf/lm_weights.hdf5", "seqvec/weights.hdf5"):
        assert find(fixtures / weights).files["options.json"].name == "options.json"
    assert find(fixtures / "allennlp" / "options.json").files["weights.hdf5"].name == "lm_weights.hdf5"
    assert len(find(fixtures / "bilm-tf-checkpoint" / "model.ckpt-600").files) == 4
    assert find(fixtures / "elmoformanylangs" / "elmo_char_only" / "encoder.pkl").path is not None
    assert find(fixtures / "nlpl" / "nlpl_like.zip").path is not None


def test_find_restores_folder_after_interrupted_replacement(folder):
    folder.rename(_backup_name(folder))  # the state between two renames where names cannot be exchanged
    assert find(str(folder)).path == folder
    assert folder.is_dir()
