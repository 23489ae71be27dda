"""The tables of the tokenizer equal their sources. `experiments/tokenizer/write_tables.py` writes them."""

import importlib.util
from pathlib import Path
from types import ModuleType
from unicodedata import unidata_version

import pytest
from sacremoses.corpus import NonbreakingPrefixes

from elmore.text import unicode_tables
from elmore.text.moses_rules import CharacterClasses
from elmore.text.nonbreaking import abbreviations, nonbreaking_prefixes

SCRIPT = Path(__file__).resolve().parents[2] / "experiments" / "tokenizer" / "write_tables.py"


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_tables", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_character_classes_equal_sacremoses(writer: ModuleType) -> None:
    tables = writer.character_tables()
    assert len(tables) == 8
    assert {name: getattr(unicode_tables, name) for name in tables} == tables


@pytest.mark.skipif(unidata_version != "14.0.0", reason="the table has the marks of Unicode 14")
def test_combining_marks_equal_unicode_14(writer: ModuleType) -> None:
    tables = writer.mark_tables()
    assert {name: getattr(unicode_tables, name) for name in tables} == tables


def test_nonbreaking_prefixes_equal_sacremoses_in_each_language(writer: ModuleType) -> None:
    assert len(writer.languages()) == 38
    assert {language: nonbreaking_prefixes(language) for language in writer.languages()} == {
        language: writer.prefixes(language) for language in writer.languages()
    }


def test_nonbreaking_prefixes_of_other_language_is_none() -> None:
    assert nonbreaking_prefixes("tlh") is None


def test_each_file_of_prefixes_names_its_license(writer: ModuleType) -> None:
    files = sorted(writer.PREFIXES.glob("*.txt"))
    assert {path.stem for path in files} == {*writer.languages(), "LGPL-2.1"}
    for path in files:
        if path.stem != "LGPL-2.1":
            assert "LGPL-2.1-or-later" in path.read_text(encoding="utf-8").splitlines()[0]


def test_abbreviations_contain_english_list_except_common_words() -> None:
    words = set(abbreviations().replace("\\", "").split("|"))
    listed = {entry for entry in NonbreakingPrefixes().words("en") if not entry.endswith("#NUMERIC_ONLY#")}
    assert listed - words == {"Bart", "Con", "Mar"}
    assert {"etc", "Inc", "Calif"} <= words - listed


def test_to_ascii_gives_class_of_each_character() -> None:
    assert CharacterClasses().to_ascii("“Ça coûte 3½ €” Ⅷ٣\u00a0中") == "|Aa coAte 3| || \x030 |"
    assert CharacterClasses(unicode_tables.HAN).to_ascii("中㊀a") == "A\x03a"
    assert CharacterClasses(symbols="中丮").to_ascii("中é") == "|A"


def test_character_classes_store_characters_of_plane_0_only() -> None:
    classes = CharacterClasses()
    assert classes.to_ascii("é\U00011046😀") == "AA|"
    assert set(classes) == {ord("é")}
