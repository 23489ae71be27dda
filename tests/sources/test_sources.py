"""Names of models, and the errors for unknown names."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import elmore.sources
from elmore.errors import NotFound
from elmore.sources import PUBLISHED, list_models, resolve_files, resolve_model
from elmore.sources.urls import SHA256


def test_resolve_fetches_published_model_by_name(website, monkeypatch):
    website.put("/elmo_tiny_options.json", b"options")
    address = website.put("/elmo_tiny_weights.hdf5", b"weights")
    monkeypatch.setitem(elmore.sources.PUBLISHED, "tiny-published", address)
    found = resolve_model("tiny-published")
    assert {name: path.read_bytes() for name, path in found.files.items()} == {
        "options.json": b"options",
        "weights.hdf5": b"weights",
    }
    assert found.requested == f"tiny-published ({address})"


def test_resolve_error_contains_requested_name(monkeypatch):
    monkeypatch.setenv("ELMORE_OFFLINE", "1")
    with pytest.raises(NotFound, match=r"^efml-en: https://vectors.nlpl.eu/repository/11/144.zip: .*ELMORE_OFFLINE"):
        resolve_model("efml-en")


def test_resolve_finds_shipped_model_by_name(tmp_path, monkeypatch):
    (tmp_path / "english").mkdir()
    (tmp_path / "english" / "config.json").write_text("{}")
    (tmp_path / "__pycache__").mkdir()
    monkeypatch.setattr(elmore.sources, "_SHIPPED", tmp_path)
    assert resolve_model("english").path == tmp_path / "english"
    assert list_models()[:2] == ["english", "tiny-random"]


def test_resolve_without_name_returns_default_model():
    assert resolve_model().path == resolve_model("elmore-en").path
    assert list_models()[0] == "elmore-en"


def test_resolve_reports_missing_default_model(tmp_path, monkeypatch):
    monkeypatch.setattr(elmore.sources, "_SHIPPED", tmp_path)
    with pytest.raises(NotFound, match=r"^elmore-en, .*, is missing from .*; install .*, or name a folder, .* small, "):
        resolve_model()


def test_resolve_suggests_similar_names():
    with pytest.raises(NotFound, match=r"^orginal: no such file or folder.*did you mean original"):
        resolve_model("orginal")
    with pytest.raises(NotFound, match=r"\(names: elmore-en, tiny-random, small, .* and \d+ more\)"):
        resolve_model("something else")


def test_resolve_suggests_similar_paths(tmp_path):
    (tmp_path / "elmo-portuguese").mkdir()
    with pytest.raises(NotFound, match=r"did you mean .*elmo-portuguese\?"):
        resolve_model(tmp_path / "elmo-portugese")


def test_resolve_reports_missing_parent_folder(tmp_path):
    with pytest.raises(NotFound, match=f"{tmp_path / 'nowhere'} does not exist"):
        resolve_model(tmp_path / "nowhere" / "model.zip")


def test_resolve_never_takes_path_object_for_name():
    with pytest.raises(NotFound):
        resolve_model(Path("small"))
    with pytest.raises(NotFound, match="give addresses as strings"):
        resolve_model(Path("https://example.org/model.zip"))


def test_resolve_files_hides_query_of_address(website, tmp_path):
    (tmp_path / "mine.json").write_bytes(b"options")
    found = resolve_files(tmp_path / "mine.json", website.put("/any?sig=SECRET", b"weights"))
    assert found.requested == website.address("/any?…")
    with pytest.raises(NotFound, match="lacks a slash") as error:
        resolve_model("https:/example.org/model.zip?sig=SECRET")
    assert "SECRET" not in str(error.value)


def test_resolve_files_takes_paths_and_addresses(website, tmp_path):
    (tmp_path / "mine.json").write_bytes(b"options")
    found = resolve_files(tmp_path / "mine.json", website.put("/any", b"weights"))
    assert {name: path.read_bytes() for name, path in found.files.items()} == {
        "options.json": b"options",
        "weights.hdf5": b"weights",
    }
    assert found.requested == website.address("/any")


def test_resolve_files_reports_missing_file(tmp_path):
    (tmp_path / "options.json").write_bytes(b"")
    with pytest.raises(NotFound, match=r"weights.hdf5: no such file$"):
        resolve_files(tmp_path / "options.json", tmp_path / "weights.hdf5")
    with pytest.raises(NotFound, match=r"option.json: no such file; did you mean .*options.json\?"):
        resolve_files(tmp_path / "option.json", tmp_path / "weights.hdf5")


def test_resolve_shipped_model_imports_no_network_modules():
    slow = "torch", "numpy", "rich", "filelock", "http.client", "urllib.request"
    program = f"""
import sys
from elmore.sources import resolve_model
resolve_model()
sys.exit(bool(set({slow!r}) & sys.modules.keys()))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=120).returncode == 0


# The table of published models, compared with the lists of their publishers


def test_published_english_models_have_their_authors_addresses():
    assert PUBLISHED["original-5.5B"] == (
        "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B/"
        "elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5"
    )
    assert [name for name in PUBLISHED if not name.startswith("efml-")] == [
        "small",
        "medium",
        "original",
        "original-5.5B",
    ]


def test_published_languages_have_nlpl_numbers():
    # From the table in the README of ELMoForManyLangs.
    numbers = {"ar": 136, "en": 144, "fr": 150, "grc": 153, "nl": 164, "nb": 165, "pt": 168, "ru": 170, "zh": 179}
    for code, number in numbers.items():
        assert PUBLISHED[f"efml-{code}"] == f"https://vectors.nlpl.eu/repository/11/{number}.zip"
    assert len([name for name in PUBLISHED if name.startswith("efml-")]) == 44


def test_published_addresses_are_https_and_digests_match():
    assert all(address.startswith("https://") for address in PUBLISHED.values())
    assert SHA256.keys() <= set(PUBLISHED.values())
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in SHA256.values())
