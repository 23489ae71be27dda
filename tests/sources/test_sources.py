"""Names of models, and what is said of those that do not exist."""

import subprocess
import sys
from pathlib import Path

import pytest

import elmore.sources
from elmore.errors import NotFound
from elmore.sources import find, find_pair, known_names


def test_a_published_model_is_fetched_by_its_name(website, monkeypatch):
    website.put("/elmo_tiny_options.json", b"options")
    address = website.put("/elmo_tiny_weights.hdf5", b"weights")
    monkeypatch.setitem(elmore.sources.PUBLISHED, "tiny-published", address)
    found = find("tiny-published")
    assert {name: path.read_bytes() for name, path in found.files.items()} == {
        "options.json": b"options",
        "weights.hdf5": b"weights",
    }
    assert found.origin == f"tiny-published ({address})"


def test_a_published_model_that_cannot_be_had_is_named_as_the_user_named_it(monkeypatch):
    monkeypatch.setenv("ELMORE_OFFLINE", "1")
    with pytest.raises(NotFound, match=r"^efml-en: https://vectors.nlpl.eu/repository/11/144.zip: .*ELMORE_OFFLINE"):
        find("efml-en")


def test_a_shipped_model_is_found_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "english").mkdir()
    (tmp_path / "english" / "config.json").write_text("{}")
    (tmp_path / "__pycache__").mkdir()
    monkeypatch.setattr(elmore.sources, "_SHIPPED", tmp_path)
    assert find("english").path == tmp_path / "english"
    assert known_names()[:2] == ["english", "small"]


def test_without_a_name_it_is_the_model_inside():
    assert find().path == find("elmore-en").path
    assert known_names()[0] == "elmore-en"


def test_an_installation_without_its_model_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(elmore.sources, "_SHIPPED", tmp_path)
    with pytest.raises(NotFound, match=r"^elmore-en, .*, is missing from .*; install .*, or name a folder, .* small, "):
        find()


def test_a_slip_in_a_name_is_answered_with_the_right_one():
    with pytest.raises(NotFound, match=r"^orginal: no such file or folder.*did you mean original"):
        find("orginal")
    with pytest.raises(NotFound, match=r"\(known are tiny-random, elmore-en, small, .* and \d+ more\)"):
        find("something else")


def test_a_slip_in_a_path_is_answered_with_what_is_there(tmp_path):
    (tmp_path / "elmo-portuguese").mkdir()
    with pytest.raises(NotFound, match=r"did you mean .*elmo-portuguese\?"):
        find(tmp_path / "elmo-portugese")


def test_a_path_in_a_folder_that_does_not_exist_says_so(tmp_path):
    with pytest.raises(NotFound, match=f"for {tmp_path / 'nowhere'} does not exist"):
        find(tmp_path / "nowhere" / "model.zip")


def test_a_path_object_is_only_looked_for_here():
    with pytest.raises(NotFound):
        find(Path("small"))
    with pytest.raises(NotFound, match="give addresses as strings"):
        find(Path("https://example.org/model.zip"))


def test_a_pair_does_not_show_the_query_of_an_address(website, tmp_path):
    (tmp_path / "mine.json").write_bytes(b"options")
    found = find_pair(tmp_path / "mine.json", website.put("/any?sig=SECRET", b"weights"))
    assert found.origin == website.address("/any?…")
    with pytest.raises(NotFound, match="lacks a slash") as error:
        find("https:/example.org/model.zip?sig=SECRET")
    assert "SECRET" not in str(error.value)


def test_a_pair_may_be_paths_or_addresses(website, tmp_path):
    (tmp_path / "mine.json").write_bytes(b"options")
    found = find_pair(tmp_path / "mine.json", website.put("/any", b"weights"))
    assert {name: path.read_bytes() for name, path in found.files.items()} == {
        "options.json": b"options",
        "weights.hdf5": b"weights",
    }
    assert found.origin == website.address("/any")


def test_the_missing_one_of_a_pair_is_named(tmp_path):
    (tmp_path / "options.json").write_bytes(b"")
    with pytest.raises(NotFound, match=r"weights.hdf5: no such file$"):
        find_pair(tmp_path / "options.json", tmp_path / "weights.hdf5")
    with pytest.raises(NotFound, match=r"option.json: no such file; did you mean .*options.json\?"):
        find_pair(tmp_path / "option.json", tmp_path / "weights.hdf5")


def test_find_imports_no_network_modules_for_a_shipped_model():
    slow = "torch", "rich", "filelock", "http.client", "urllib.request"
    program = f"import sys; from elmore.sources import find; find(); sys.exit(bool(set({slow!r}) & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=120).returncode == 0
