"""Web addresses, pinned and not, of archives and of pairs."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore import load
from elmore.errors import ElmoreError, FormatError, InputError, NotFound
from elmore.model import save
from elmore.sources import resolve_model
from elmore.sources.urls import SHA256, FileUrl


def test_fetch_model_returns_archive(website):
    address = website.put("/repository/11/144.zip", b"zip")
    found = resolve_model(address)
    assert found.path is not None
    assert found.path.name == "144.zip"
    assert found.path.read_bytes() == b"zip"
    assert found.requested == address


@pytest.mark.parametrize(
    ("weights", "options"),
    [
        ("/pt/elmo_pt_weights.hdf5", "/pt/elmo_pt_options.json"),
        ("/model.hdf5", "/options.json"),
        ("/a%20b/my%20weights.hdf5?download=1", "/a%20b/my%20options.json?download=1"),
    ],
)
def test_fetch_model_finds_other_file_of_pair(website, weights, options):
    website.put(weights, b"weights")
    website.put(options, b"options")
    for named in (weights, options):
        found = resolve_model(website.address(named))
        contents = {name: path.read_bytes() for name, path in found.files.items()}
        assert contents == {"options.json": b"options", "weights.hdf5": b"weights"}
    assert website.requests[weights] == website.requests[options] == 1


def test_fetch_model_requests_options_before_weights(website):
    website.put("/lm_weights.hdf5", b"weights")
    message = (
        r"lm_weights.hdf5: its options file is missing: looked for lm_options.json and options.json .*answered 404"
    )
    with pytest.raises(NotFound, match=message):
        resolve_model(website.address("/lm_weights.hdf5"))
    assert website.requests["/lm_weights.hdf5"] == 0


def test_fetch_model_does_not_take_failure_for_missing_file(website):
    website.put("/lm_weights.hdf5", b"weights")
    website.put("/lm_options.json", status=500)
    website.put("/options.json", b"those of another model")
    with pytest.raises(NotFound, match=r"lm_options.json: the server answered 500"):
        resolve_model(website.address("/lm_weights.hdf5"))


def test_fetch_model_verifies_pinned_digest(website):
    address = website.put("/model.zip", b"zip")
    pinned = f"{address}#sha256={sha256(b'zip').hexdigest().upper()}"
    found = resolve_model(pinned)
    assert found.path is not None
    assert found.path.read_bytes() == b"zip"
    assert found.requested == pinned
    with pytest.raises(FormatError, match=r"model.zip: the received file has the SHA-256"):
        resolve_model(f"{address}#sha256={'0' * 64}")


def test_pinned_digest_applies_to_named_file_only(website):
    website.put("/options.json", b"options")
    address = website.put("/weights.hdf5", b"weights")
    assert len(resolve_model(f"{address}#sha256={sha256(b'weights').hexdigest()}").files) == 2


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
        ("https://example.org:port/pt.zip", "not a valid address"),
        ("https://[::1/pt.zip", "not a valid address"),
        ("https://example.org/pt.zip#sha256=12", "64 hex digits"),
        ("https://example.org/pt.zip#md5=d41d8cd98f00b204e9800998ecf8427e", "64 hex digits"),
    ],
)
def test_parse_rejects_invalid_addresses(address, reason):
    with pytest.raises(InputError, match=reason) as error:
        resolve_model(address)
    assert str(error.value).startswith(address.replace("me:secret@", ""))
    assert "secret" not in str(error.value)


def test_fetch_verifies_known_digest(website, monkeypatch, caplog):
    address = website.put("/model.zip", b"zip")
    monkeypatch.setitem(SHA256, address, sha256(b"zip").hexdigest())
    assert resolve_model(address).path.read_bytes() == b"zip"
    assert not caplog.records
    other = website.put("/other.zip", b"other")
    monkeypatch.setitem(SHA256, other, sha256(b"zip").hexdigest())
    with pytest.raises(FormatError, match=r"other.zip: the received file has the SHA-256"):
        resolve_model(other)


SIGNED = "?X-Amz-Credential=SECRET&X-Amz-Signature=SECRET&token=SECRET"


def test_fetch_neither_stores_nor_logs_query(website, cache, caplog):
    """A query may be a signature, which gives access to the file."""
    caplog.set_level("INFO")
    website.put(f"/elmo_weights.hdf5{SIGNED}", b"weights", cuts=[3])  # two tries
    website.put(f"/elmo_options.json{SIGNED}", b"options")
    found = resolve_model(website.address(f"/elmo_weights.hdf5{SIGNED}"))
    assert found.files["weights.hdf5"].read_bytes() == b"weights"
    assert found.requested == website.address("/elmo_weights.hdf5?…")
    assert "trying again" in caplog.text
    stored = [file for file in cache.rglob("*") if file.is_file()]
    assert len(stored) == 6
    assert not any(b"SECRET" in file.read_bytes() or "SECRET" in str(file) for file in stored)
    assert "SECRET" not in caplog.text


def test_loaded_and_saved_model_contains_no_credentials(website, cache, tmp_path, tiny_model, caplog, capfd):
    save(tiny_model, tmp_path / "model", format="hdf5")
    for name in ("options.json", "weights.hdf5", "elmore_card.json"):
        website.put(f"/{name}{SIGNED}", (tmp_path / "model" / name).read_bytes())
    model = load(website.address(f"/weights.hdf5{SIGNED}"))
    assert model.card.source == website.address("/weights.hdf5?…")
    save(model, tmp_path / "saved")
    stored = [file for folder in (cache, tmp_path / "saved") for file in folder.rglob("*") if file.is_file()]
    assert not any(b"SECRET" in file.read_bytes() or "SECRET" in str(file) for file in stored)
    assert "SECRET" not in "".join([repr(model), model._repr_html_(), caplog.text, *capfd.readouterr()])


def test_fetch_caches_each_query_separately(website):
    for number in ("1", "2"):
        address = website.put(f"/model.zip?id={number}", number.encode())
        assert resolve_model(address).path.read_bytes() == number.encode()


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
def test_errors_hide_query_of_address(website, caplog, page):
    caplog.set_level("INFO")
    address = website.address(f"/model.zip{SIGNED}")
    if page is not None:
        website.put(f"/model.zip{SIGNED}", **page)
    with pytest.raises(ElmoreError) as error:
        resolve_model(f"{address}#sha256={'0' * 64}")
    assert str(error.value).startswith(website.address("/model.zip?…"))
    assert "SECRET" not in str(error.value)
    assert "SECRET" not in caplog.text


def test_error_for_missing_options_hides_query(website):
    with pytest.raises(NotFound, match="its options file is missing") as error:
        resolve_model(website.put(f"/weights.hdf5{SIGNED}", b"weights"))
    assert "SECRET" not in str(error.value)


@pytest.mark.parametrize("host", ["x" * 100 + ".invalid", "a..b.invalid", "exa mple.invalid"])
def test_fetch_reports_invalid_host(host):
    with pytest.raises(NotFound, match=r"not a valid address, or|cannot be resolved"):
        resolve_model(f"http://{host}/model.zip")


@given(st.text(max_size=30))
def test_parse_escapes_any_path(path):
    try:
        address = FileUrl.parse(f"https://example.org/{path}")
    except InputError:
        return
    address.url.encode("ascii")
    assert not set(address.url) & set(" \r\n\t#")
    assert FileUrl.parse(address.url) == address
