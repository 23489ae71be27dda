"""What a user names becomes files, in one settled order, and nothing is passed over without a count."""

from pathlib import Path

import pytest

from elmore.errors import InputError, NotFound
from elmore.text.inputs import find_inputs


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
    assert found.dropped == {"skipped_files": 2}  # README.md and LICENSE; what is hidden was never there


def test_a_quoted_glob_is_sorted_and_takes_names_as_they_are(folder):
    assert names(find_inputs([f"{folder}/*.*"]).files, folder) == ["README.md", "a.txt.xz", "b.txt"]
    assert names(find_inputs([f"{folder}/A*"]).files, folder) == ["AA/wiki_00", "AA/wiki_01.gz"]
    assert names(find_inputs([f"{folder}/**/wiki*"]).files, folder) == ["AA/wiki_00", "AA/wiki_01.gz"]


def test_what_is_named_keeps_its_order_and_counts_once(folder):
    found = find_inputs([f"{folder}/b.txt", f"{folder}/*.txt*", "-", "-"])
    assert found.files == [f"{folder}/b.txt", f"{folder}/a.txt.xz", "-"]
    assert found.dropped == {"repeated_files": 2}


def test_brackets_in_a_file_name_are_no_pattern(tmp_path):
    (tmp_path / "a[1].txt").touch()
    assert find_inputs([f"{tmp_path}/a[1].txt"]).files == [f"{tmp_path}/a[1].txt"]


def test_names_tell_fasta_from_text(folder):
    (folder / "p.fasta").touch()
    assert find_inputs([f"{folder}/p.fasta"]).format == "fasta"
    assert find_inputs([f"{folder}/b.txt", "-"]).format == "text"
    assert find_inputs(["-"], format="tokenized").format == "tokenized"
    with pytest.raises(InputError, match=r"b\.txt is text and .*p\.fasta is FASTA"):
        find_inputs([f"{folder}/b.txt", f"{folder}/p.fasta"])


def test_what_cannot_be_found_is_named(folder, tmp_path):
    (folder / "empty").mkdir()
    (folder / "t.conllu").touch()
    for inputs, complaint in (
        ([f"{folder}/*.zip"], r"\*\.zip: matches no file"),
        ([f"{folder}/none.txt"], r"none\.txt: no such file or folder"),
        ([f"{folder}/empty"], "empty: holds no text"),
    ):
        with pytest.raises(NotFound, match=complaint):
            find_inputs(inputs)
    for inputs, complaint in (
        ([], "no input; name files"),
        ("b.txt", "bare string 'b.txt'"),
        ([f"{folder}/t.conllu"], r"t\.conllu: is a treebank"),
    ):
        with pytest.raises(InputError, match=complaint):
            find_inputs(inputs)
    with pytest.raises(InputError, match="text, tokenized or fasta, and is 'csv'"):
        find_inputs([f"{folder}/b.txt"], format="csv")
