"""JSON and TOML files: what parses, and the errors for everything else."""

import re

import pytest

from elmore.errors import FormatError, InputError
from elmore.files.json_files import check_format, parse_json, parse_toml, write_json


def test_json_reads_back_as_written(tmp_path):
    values = {"name": "東京 \ud800", "numbers": [1, 2.5, None]}
    write_json(values, tmp_path / "card.json")
    assert parse_json((tmp_path / "card.json").read_bytes()) == values


def test_parse_accepts_byte_order_mark():
    assert parse_json(b'\xef\xbb\xbf{"a": 1}') == parse_toml(b"\xef\xbb\xbfa = 1") == {"a": 1}


@pytest.mark.parametrize("content", [b"{", b"\xff{}", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"])
def test_parse_json_rejects_other_content(content):
    with pytest.raises(FormatError, match=r"^not JSON: .*; fetch it again"):
        parse_json(content, remedy="fetch it again")


def test_parse_json_rejects_other_values_than_objects():
    with pytest.raises(FormatError, match=re.escape("found '[1]' where an object was expected")):
        parse_json(b"[1]")


@pytest.mark.parametrize("content", [b"a", b"\xff", b"a = " + b"[" * 5000, b"a = " + b"9" * 5000])
def test_parse_toml_rejects_other_content(content):
    with pytest.raises(InputError, match=r"^not TOML: "):
        parse_toml(content)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "its format is 'None', not 'x'"),
        ({"format": ["x"], "version": 1}, "not 'x'"),
        ({"format": "x"}, "its version is None, and this Elmore reads 1 and 2; update"),
        ({"format": "x", "version": True}, "its version is True"),
        ({"format": "x", "version": [3]}, r"its version is \[3\]"),
    ],
)
def test_check_format_names_format_and_version(values, message):
    with pytest.raises(FormatError, match=message):
        check_format(values, "x", versions=(1, 2), remedy="update")
