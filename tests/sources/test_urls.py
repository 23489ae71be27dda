"""Web addresses, pinned and not, of archives and of pairs."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import ElmoreError, FormatError, InputError, NotFound
from elmore.sources import find
from elmore.sources.published import SHA256
from elmore.sources.urls import FileUrl


def test_an_archive_is_fetched_and_taken_as_it_is(website):
    address = website.put("/repository/11/144.zip", b"zip")
    found = find(address)
    assert found.path is not None
    assert found.path.name == "144.zip"
    assert found.path.read_bytes() == b"zip"
    assert found.origin == address


@pytest.mark.parametrize(
    ("weights", "options"),
    [
        ("/pt/elmo_pt_weights.hdf5", "/pt/elmo_pt_options.json"),
        ("/model.hdf5", "/options.json"),
        ("/a%20b/my%20weights.hdf5?download=1", "/a%20b/my%20options.json?download=1"),
    ],
)
def test_the_address_of_weights_finds_the_options_and_the_other_way_round(website, weights, options):
    website.put(weights, b"weights")
    website.put(options, b"options")
    for named in (weights, options):
        found = find(website.address(named))
        contents = {name: path.read_bytes() for name, path in found.files.items()}
        assert contents == {"options.json": b"options", "weights.hdf5": b"weights"}
    assert website.requests[weights] == website.requests[options] == 1


def test_weights_without_options_are_not_even_begun(website):
    website.put("/lm_weights.hdf5", b"weights")
    message = (
        r"lm_weights.hdf5: its options file is missing: looked for lm_options.json and options.json .*answered 404"
    )
    with pytest.raises(NotFound, match=message):
        find(website.address("/lm_weights.hdf5"))
    assert website.requests["/lm_weights.hdf5"] == 0


def test_trouble_on_the_way_is_not_taken_for_a_missing_file(website):
    website.put("/lm_weights.hdf5", b"weights")
    website.put("/lm_options.json", status=500)
    website.put("/options.json", b"those of another model")
    with pytest.raises(NotFound, match=r"lm_options.json: the server answered 500"):
        find(website.address("/lm_weights.hdf5"))


def test_a_digest_is_pinned_behind_the_address(website):
    address = website.put("/model.zip", b"zip")
    pinned = f"{address}#sha256={sha256(b'zip').hexdigest().upper()}"
    found = find(pinned)
    assert found.path is not None
    assert found.path.read_bytes() == b"zip"
    assert found.origin == pinned
    with pytest.raises(FormatError, match=r"model.zip: what came has the SHA-256"):
        find(f"{address}#sha256={'0' * 64}")


def test_a_pinned_digest_is_that_of_the_named_file_only(website):
    website.put("/options.json", b"options")
    address = website.put("/weights.hdf5", b"weights")
    assert len(find(f"{address}#sha256={sha256(b'weights').hexdigest()}").files) == 2


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("file:///models/pt.zip", "give the path itself, without file:"),
        ("file:models/pt.zip", "give the path itself"),
        ("ftp://example.org/pt.zip", "only http and https"),
        ("s3://bucket/pt.zip", "only http and https"),
        ("https://me:secret@example.org/pt.zip", "password"),
        ("https://example.org/models/", "names no file"),
        ("https://example.org", "names no file"),
        ("https:///pt.zip", "names no file"),
        ("https://example.org:port/pt.zip", "no valid address"),
        ("https://[::1/pt.zip", "no valid address"),
        ("https://example.org/pt.zip#sha256=12", "64 hex digits"),
        ("https://example.org/pt.zip#md5=d41d8cd98f00b204e9800998ecf8427e", "64 hex digits"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused_before_any_request(address, reason):
    with pytest.raises(InputError, match=reason) as error:
        find(address)
    assert str(error.value).startswith(address.replace("me:secret@", ""))
    assert "secret" not in str(error.value)


def test_a_published_file_is_verified_by_its_known_digest(website, monkeypatch, caplog):
    address = website.put("/model.zip", b"zip")
    monkeypatch.setitem(SHA256, address, sha256(b"zip").hexdigest())
    assert find(address).path.read_bytes() == b"zip"
    assert not caplog.records
    other = website.put("/other.zip", b"other")
    monkeypatch.setitem(SHA256, other, sha256(b"zip").hexdigest())
    with pytest.raises(FormatError, match=r"other.zip: what came has the SHA-256"):
        find(other)


SIGNED = "?X-Amz-Credential=SECRET&X-Amz-Signature=SECRET"


def test_the_query_of_an_address_is_neither_stored_nor_shown(website, cache, caplog):
    """A query may be a signature, which gives access to the file."""
    caplog.set_level("INFO")
    website.put(f"/elmo_weights.hdf5{SIGNED}", b"weights", cuts=[3])  # two tries
    website.put(f"/elmo_options.json{SIGNED}", b"options")
    found = find(website.address(f"/elmo_weights.hdf5{SIGNED}"))
    assert found.files["weights.hdf5"].read_bytes() == b"weights"
    assert found.origin == website.address("/elmo_weights.hdf5?…")
    assert "trying again" in caplog.text
    stored = [file for file in cache.rglob("*") if file.is_file()]
    assert len(stored) == 6
    assert not any(b"SECRET" in file.read_bytes() or "SECRET" in str(file) for file in stored)
    assert "SECRET" not in caplog.text


def test_two_queries_of_one_address_are_two_files(website):
    for number in ("1", "2"):
        address = website.put(f"/model.zip?id={number}", number.encode())
        assert find(address).path.read_bytes() == number.encode()


@pytest.mark.parametrize(
    "page",
    [
        {"status": 404},
        {"status": 500},
        {"status": 302, "headers": {"Location": f"ftp://me:SECRET@example.org/x{SIGNED}"}},
        {"status": 302, "headers": {"Location": f"http://[::1/x{SIGNED}"}},
        {"status": 302, "headers": {"Location": f"http://a b/x{SIGNED}"}},
        {"body": b""},
        {"body": b"<html>", "headers": {"Content-Type": "text/html"}},
        {"body": b"other than pinned"},
        None,
    ],
)
def test_no_error_shows_the_query_of_an_address(website, caplog, page):
    caplog.set_level("INFO")
    address = website.address(f"/model.zip{SIGNED}")
    if page is not None:
        website.put(f"/model.zip{SIGNED}", **page)
    with pytest.raises(ElmoreError) as error:
        find(f"{address}#sha256={'0' * 64}")
    assert str(error.value).startswith(website.address("/model.zip?…"))
    assert "SECRET" not in str(error.value)
    assert "SECRET" not in caplog.text


def test_missing_options_do_not_show_the_query_of_an_address(website):
    with pytest.raises(NotFound, match="its options file is missing") as error:
        find(website.put(f"/weights.hdf5{SIGNED}", b"weights"))
    assert "SECRET" not in str(error.value)


@pytest.mark.parametrize("host", ["x" * 100 + ".invalid", "a..b.invalid", "exa mple.invalid"])
def test_a_host_that_cannot_exist_is_said_in_a_sentence(host):
    with pytest.raises(NotFound, match=r"no valid address \(|not known here"):
        find(f"http://{host}/model.zip")


@given(st.text(max_size=30))
def test_any_path_makes_an_address_that_can_be_sent(path):
    try:
        address = FileUrl.parse(f"https://example.org/{path}")
    except InputError:
        return
    address.url.encode("ascii")
    assert not set(address.url) & set(" \r\n\t#")
    assert FileUrl.parse(address.url) == address
