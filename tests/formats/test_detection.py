import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmore.errors import ElmoreError, FormatError, InputError
from elmore.formats import all_formats, read_checkpoint, write_checkpoint
from elmore.formats.storage.container import Container, FileContainer, folder, open_container
from elmore.sources.tiny_random import tiny_checkpoint

Place = Callable[[Path], Container]


def inside(name: str) -> Place:
    return lambda fixtures: open_container(fixtures / name)


def named(name: str, **files: str) -> Place:
    names = {"options": "options.json", "weights": "weights.hdf5"}
    return lambda fixtures: FileContainer({names[part]: fixtures / name / file for part, file in files.items()})


FIXTURES: list[tuple[str, Place]] = [
    ("hdf5", inside("allennlp")),
    ("hdf5", inside("bilm-tf")),
    ("hdf5", inside("seqvec")),
    ("hdf5", inside("nlpl/nlpl_like.zip")),
    ("hdf5", inside("variants/unidirectional_one_layer_words")),
    ("hdf5", named("bilm-tf-checkpoint", options="inference_options.json", weights="expected_weights.hdf5")),
    ("tensorflow", inside("bilm-tf-checkpoint")),
    ("allennlp", inside("allennlp/simple_tagger_best.th")),
    ("elmoformanylangs", inside("elmoformanylangs/elmo_word_char")),
    ("elmoformanylangs", inside("elmoformanylangs/elmo_char_only")),
    ("elmoformanylangs", inside("elmoformanylangs/elmo_word_only")),
]


@pytest.mark.parametrize(("name", "place"), FIXTURES)
def test_a_model_of_every_original_program_is_recognised(fixtures: Path, name: str, place: Place) -> None:
    container = place(fixtures)
    recognised = next(form for form in all_formats() if form.detect(container))
    assert recognised.name == name
    assert read_checkpoint(container).card.format == name


@pytest.mark.parametrize("name", ["folder", "hdf5"])
@pytest.mark.parametrize("packing", ["folder", "zip", "gztar", "xztar"])
def test_what_we_write_is_recognised_in_every_packing(tmp_path: Path, name: str, packing: str) -> None:
    write_checkpoint(tiny_checkpoint(), tmp_path / "model", format=name)
    path = tmp_path / "model"
    if packing != "folder":
        path = Path(shutil.make_archive(str(tmp_path / "packed"), packing, tmp_path, "model"))
    checkpoint = read_checkpoint(open_container(path))
    assert checkpoint.config == tiny_checkpoint().config
    assert all(np.array_equal(t, checkpoint.tensors[n]) for n, t in tiny_checkpoint().tensors.items())
    # The card names the first source. The format of a pair is hdf5, since a pair does not hold all of a model.
    first = tiny_checkpoint().card
    assert checkpoint.card.source == first.source
    assert checkpoint.card.format == (first.format if name == "folder" else "hdf5")


def test_a_checkpoint_is_preferred_to_the_weights_that_were_made_from_it(fixtures: Path, tmp_path: Path) -> None:
    shutil.copytree(fixtures / "bilm-tf-checkpoint", tmp_path / "model")
    shutil.copy(tmp_path / "model" / "expected_weights.hdf5", tmp_path / "model" / "model.hdf5")
    checkpoint = read_checkpoint(folder(tmp_path / "model"))
    assert checkpoint.card.format == "tensorflow"
    assert checkpoint.softmax is not None


def test_a_repository_archive_of_elmoformanylangs_is_not_taken_for_another(fixtures: Path, tmp_path: Path) -> None:
    shutil.copytree(fixtures / "elmoformanylangs" / "elmo_word_char", tmp_path / "model")
    (tmp_path / "model" / "expected.hdf5").rename(tmp_path / "model" / "model.hdf5")
    (tmp_path / "model" / "meta.json").write_text("{}")
    (tmp_path / "model" / "options.json").write_text("{}")
    archive = Path(shutil.make_archive(str(tmp_path / "144"), "zip", tmp_path / "model"))
    assert read_checkpoint(open_container(archive)).card.format == "elmoformanylangs"


def test_an_allennlp_archive_is_read_in_place(fixtures: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(fixtures / "allennlp" / "simple_tagger_best.th", "weights.th")
        (tmp_path / "config.json").write_text(json.dumps({"model": {"type": "simple_tagger"}}))
        archive.add(tmp_path / "config.json", "config.json")
    checkpoint = read_checkpoint(open_container(tmp_path / "model.tar.gz"))
    assert checkpoint.card.format == "allennlp"
    published = read_checkpoint(open_container(fixtures / "allennlp"))
    assert np.array_equal(checkpoint.tensors["words.characters"], published.tensors["words.characters"])


def test_formats_are_tried_in_an_order_that_tells_them_apart() -> None:
    names = [form.name for form in all_formats()]
    assert len(set(names)) == len(names)
    assert [name for name in names if name in ORDER] == ORDER
    assert all(form.files for form in all_formats())
    assert {"folder", "hdf5"} <= {form.name for form in all_formats() if form.write}


ORDER = ["folder", "tensorflow", "elmoformanylangs", "allennlp", "hdf5"]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ([], "it contains no files"),
        (["weights.hdf5"], r"it contains weights\.hdf5\."),
        (["a", "b", "c", "d", "e", "f", "g"], "it contains a, b, c, d, e and 2 more"),
    ],
)
def test_where_nothing_is_recognised_the_error_says_what_there_is_and_what_is_needed(
    tmp_path: Path, files: list[str], found: str
) -> None:
    for name in files:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(FormatError, match=found) as caught:
        read_checkpoint(folder(tmp_path))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: is not a model")
    assert all(f"{form.name} ({form.files})" in message for form in all_formats())


@pytest.mark.parametrize("content", ["{", "[]", '"elmore"', "\x00", "", "[" * 100_000])
def test_recognising_never_fails_whatever_a_file_holds(tmp_path: Path, content: str) -> None:
    for name in ("config.json", "options.json", "checkpoint", "weights.th", "model.ckpt-1.index"):
        (tmp_path / name).write_text(content)
        container = folder(tmp_path)
        assert all(form.detect(container) in (True, False) for form in all_formats())
        with pytest.raises(ElmoreError):
            read_checkpoint(container)


@pytest.mark.parametrize("name", ["onnx", "allennlp", ""])
def test_a_format_that_cannot_be_written_is_refused_with_those_that_can(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"it must be folder or folder-int8 or hdf5"):
        write_checkpoint(tiny_checkpoint(), tmp_path / "model", format=name)
    assert list(tmp_path.iterdir()) == []


def test_read_checkpoint_of_a_folder_imports_no_other_format() -> None:
    code = """
import sys
from elmore.formats import read_checkpoint
from elmore.formats.storage.container import open_container
from elmore.sources import resolve_model
read_checkpoint(open_container(resolve_model().path))
print(sorted({"tarfile", "zipfile", "elmore.formats.allennlp", "elmore.formats.bilm_hdf5"} & sys.modules.keys()))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout == "[]\n"
