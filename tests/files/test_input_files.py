"""What a user names becomes files, in one settled order, and nothing is passed over without a count."""

import os
from pathlib import Path

import pytest

from elmore.errors import InputError, NotFound
from elmore.files.input_files import find_inputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt.xz", "AA/wiki_00", "AA/wiki_01.gz", "README.md", ".hidden/c.txt", ".d.txt", "LICENSE"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def names(files: list[str], folder: Path) -> list[str]:
    return [Path(file).relative_to(folder).as_posix() for file in files]


def test_a_folder_gives_its_texts_sorted_however_deep(folder):
    found = find_inputs([str(folder)])
    assert names(found.files, folder) == ["AA/wiki_00", "AA/wiki_01.gz", "a.txt.xz", "b.txt"]
    assert found.skipped == {"skipped_files": 2}  # README.md and LICENSE; what is hidden was never there


def test_a_quoted_glob_is_sorted_and_takes_names_as_they_are(folder):
    assert names(find_inputs([f"{folder}/*.*"]).files, folder) == ["README.md", "a.txt.xz", "b.txt"]
    assert names(find_inputs([f"{folder}/A*"]).files, folder) == ["AA/wiki_00", "AA/wiki_01.gz"]
    assert names(find_inputs([f"{folder}/**/wiki*"]).files, folder) == ["AA/wiki_00", "AA/wiki_01.gz"]


def test_what_is_named_keeps_its_order_and_counts_once(folder):
    found = find_inputs([f"{folder}/b.txt", f"{folder}/*.txt*", "-", "-"])
    assert found.files == [f"{folder}/b.txt", f"{folder}/a.txt.xz", "-"]
    assert found.skipped == {"repeated_files": 2}


def test_brackets_in_a_file_name_are_no_pattern(tmp_path):
    (tmp_path / "a[1].txt").touch()
    assert find_inputs([f"{tmp_path}/a[1].txt"]).files == [f"{tmp_path}/a[1].txt"]


def test_a_folder_gives_the_formats_that_are_asked_for_and_a_name_gives_any(folder):
    for name in ("t.conllu.gz", "c.conll", "p.fasta"):
        (folder / name).touch()
    assert names(find_inputs([folder]).files, folder)[2:] == ["a.txt.xz", "b.txt", "c.conll", "p.fasta", "t.conllu.gz"]
    found = find_inputs([folder, folder / "c.conll"], formats=("text", "fasta"))
    assert names(found.files, folder)[2:] == ["a.txt.xz", "b.txt", "p.fasta", "c.conll"]
    assert found.skipped == {"skipped_files": 4}


def test_what_cannot_be_found_is_named(folder, tmp_path):
    (folder / "empty").mkdir()
    for inputs, complaint in (
        ([f"{folder}/*.zip"], r"\*\.zip: matches no file"),
        ([f"{folder}/none.txt"], r"none\.txt: no such file or folder"),
        ([f"{folder}/empty"], "empty: contains no text"),
    ):
        with pytest.raises(NotFound, match=complaint):
            find_inputs(inputs)
    for inputs, complaint in (
        ([], "no input; name files"),
        ("b.txt", "the string 'b.txt'"),
    ):
        with pytest.raises(InputError, match=complaint):
            find_inputs(inputs)


@pytest.mark.parametrize("text", ["A sentence. " * 500, "x" * 5000 + "/x"])
def test_find_inputs_rejects_text_given_as_path(text):
    with pytest.raises(
        InputError, match=r"^'.{57}\.\.\. is too long for a path; name files, and pass texts to Embedder"
    ):
        find_inputs([text])


@pytest.mark.parametrize("each", [["I", "took"], 3, None])
def test_find_inputs_rejects_what_is_no_path(each):
    with pytest.raises(InputError, match="is not a path; name files, folders or globs"):
        find_inputs([each])


def test_find_inputs_accepts_any_path_object(folder):
    with os.scandir(folder) as entries:
        (entry,) = [entry for entry in entries if entry.name == "b.txt"]
    assert find_inputs([entry, os.fsencode(folder / "a.txt.xz")]).files == [f"{folder}/b.txt", f"{folder}/a.txt.xz"]
