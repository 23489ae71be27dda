"""Nothing is overwritten by surprise."""

import os
from pathlib import Path

import pytest

from elmore.errors import InputError, NotFound
from elmore.files.output_paths import check_output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "thesis.txt"
    path.write_text("years of work")
    return path


@pytest.mark.parametrize("force", [False, True])
def test_an_input_is_never_replaced_whatever_name_it_goes_by(file: Path, monkeypatch, force: bool) -> None:
    link, other_name = file.with_name("link.txt"), file.with_name("hard.txt")
    link.symlink_to(file)
    os.link(file, other_name)
    monkeypatch.chdir(file.parent)
    for name in (file, Path("thesis.txt"), Path("../", file.parent.name, "thesis.txt"), link, other_name):
        with pytest.raises(InputError, match=f"{name.name}: is an input, and would be replaced by the output"):
            check_output(name, inputs=["-", "other.txt", file], may_replace=lambda _: True, force=force)


def test_a_folder_that_holds_an_input_is_not_replaced(file: Path) -> None:
    for name in (file.parent, file.parent.parent):
        with pytest.raises(InputError, match=f"{name.name}: is an input, and would be replaced by the output"):
            check_output(name, inputs=[file], force=True)
    (file.parent / "elsewhere").mkdir()
    check_output(file.parent / "elsewhere", inputs=[file], force=True)


def test_what_is_there_is_replaced_only_by_force(file: Path) -> None:
    with pytest.raises(InputError, match=r"thesis\.txt: exists; choose another path, or .* --force"):
        check_output(file)
    check_output(file, force=True)
    with pytest.raises(InputError, match=r"exists; choose"):
        check_output(file.parent)


def test_what_is_elmores_own_may_be_replaced_by_its_like(file: Path) -> None:
    check_output(file, may_replace=lambda path: path.read_text() == "years of work")
    with pytest.raises(InputError, match=r"thesis\.txt: exists, and was not written by Elmore"):
        check_output(file, may_replace=lambda _: False)


def test_a_new_name_and_an_empty_folder_are_free(file: Path) -> None:
    check_output(file.with_name("new.txt"), inputs=[file])
    (file.parent / "empty").mkdir()
    check_output(file.parent / "empty")


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"the folder .*nowhere does not exist; create it first"):
        check_output(tmp_path / "nowhere" / "v.npz")
