"""The verified cache: what is fetched once is whole, and stays so or is fetched again."""

import io
import json
import logging
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from disk_journal import assert_durable, recorded
from elmore.errors import FormatError, NotFound
from elmore.sources import downloads, http_requests
from elmore.sources.downloads import cache_folder, fetch

BODY = bytes(range(256)) * 1000


def get(url: str, *, digest: str | None = None) -> Path:
    return fetch(url, name=url.rpartition("/")[2], sha256=digest)


def test_fetch_uses_cache_after_first_download(website, cache):
    url = website.put("/pt/model.zip", BODY)
    first, second = get(url), get(url)
    assert first == second
    assert first.name == "model.zip"
    assert first.read_bytes() == BODY
    assert first.is_relative_to(cache / "downloads")
    assert website.requests == {"/pt/model.zip": 1}


def test_record_contains_address_and_digest(website):
    url = website.put("/model.zip", BODY)
    path = get(url)
    record = json.loads(path.with_name("model.zip.json").read_text())
    assert (record["url"], record["size"]) == (url, len(BODY))
    assert record["sha256"] == sha256(BODY).hexdigest()
    assert record["etag"] == website.pages["/model.zip"].etag
    assert {entry.name for entry in path.parent.iterdir()} == {"model.zip", "model.zip.json", "model.zip.lock"}


def test_fetch_reports_a_file_that_was_not_verified(website, caplog):
    url = website.put("/model.zip", BODY)
    get(url)
    message = f"{url}: not verified, because its SHA-256 is unknown; compare {sha256(BODY).hexdigest()}"
    assert message in caplog.text
    caplog.clear()
    get(url)
    assert not caplog.records  # only when it is downloaded


def test_fetch_does_not_report_a_verified_file(website, caplog):
    get(website.put("/model.zip", BODY), digest=sha256(BODY).hexdigest())
    assert not caplog.records


def test_fetch_separates_addresses_with_equal_file_names(website):
    assert get(website.put("/a/model.zip", b"one")).read_bytes() == b"one"
    assert get(website.put("/b/model.zip", b"two")).read_bytes() == b"two"


@pytest.mark.parametrize(
    "name", ["../../../etc/passwd", "..", "...", "a/b\\c:d", "x" * 300 + ".zip", "", "\0", "💃.zip"]
)
def test_fetch_makes_file_names_safe(website, cache, name):
    path = fetch(website.put("/file", BODY), name=name)
    assert path.resolve().parent.parent == (cache / "downloads").resolve()
    assert path.read_bytes() == BODY


def test_fetch_resumes_in_next_try(website):
    url = website.put("/model.zip", BODY, cuts=[100_000])
    assert get(url).read_bytes() == BODY
    assert website.ranges == ["bytes=100000-"]


def test_fetch_resumes_in_next_process(website):
    url = website.put("/model.zip", BODY, cuts=[100_000, 50_000, 1000])
    with pytest.raises(NotFound, match="ended after 151,000 of 256,000 bytes; try again later"):
        get(url)
    assert get(url).read_bytes() == BODY
    assert website.ranges == ["bytes=100000-", "bytes=150000-", "bytes=151000-"]


def test_fetch_restarts_if_file_changed_on_server(website):
    url = website.put("/model.zip", BODY, cuts=[100_000, 0, 0])
    with pytest.raises(NotFound):
        get(url)
    website.put("/model.zip", BODY[::-1])
    assert get(url).read_bytes() == BODY[::-1]


def test_fetch_drops_stale_part(website):
    url = website.put("/model.zip", BODY, cuts=[100_000, 0, 0])
    with pytest.raises(NotFound):
        get(url)
    # The same tag on a shorter file: the server has nothing to send from there on.
    website.put("/model.zip", b"short", headers={"ETag": website.pages["/model.zip"].etag})
    assert get(url).read_bytes() == b"short"


def test_fetch_ignores_bytes_after_recorded_part(website):
    url = website.put("/model.zip", BODY, cuts=[100_000, 0, 0])
    with pytest.raises(NotFound):
        get(url)
    (part,) = downloads.cache_folder().rglob("*.part")
    with part.open("ab") as file:
        file.write(bytes(200_000))
    pinned = sha256(BODY).hexdigest()
    assert get(url, digest=pinned).read_bytes() == BODY
    assert website.ranges[-1] == "bytes=100000-"


def test_fetch_records_progress_while_receiving(website, monkeypatch):
    written = []
    monkeypatch.setattr(downloads, "FSYNC_EVERY", 100_000)
    monkeypatch.setattr(
        downloads._CacheRecord, "write", lambda record, path: written.append((path.suffixes[-2:], record.size))
    )
    get(website.put("/model.zip", BODY))
    sizes = [size for suffixes, size in written if suffixes == [".part", ".json"]]
    assert sizes[0] == 0
    assert sizes[-1] == len(BODY)
    assert len(sizes) > 2


def test_fetch_restarts_if_server_has_no_ranges(website):
    url = website.put("/model.zip", BODY, ranges=False, cuts=[100_000])
    assert get(url).read_bytes() == BODY
    assert website.requests["/model.zip"] == 2
    assert not website.ranges


def test_fetch_never_names_incomplete_file(website, cache):
    url = website.put("/model.zip", BODY, ranges=False, cuts=[100_000] * 3)
    with pytest.raises(NotFound, match=r"model.zip: the connection ended after 100,000 of 256,000 bytes"):
        get(url)
    assert not list(cache.rglob("model.zip"))


def test_fetch_accepts_missing_content_length(website):
    assert get(website.put("/model.zip", BODY, length=False)).read_bytes() == BODY


def test_fetch_rejects_wrong_digest(website, cache):
    url = website.put("/model.zip", BODY)
    with pytest.raises(FormatError, match=f"has the SHA-256 {sha256(BODY).hexdigest()}, not 000"):
        get(url, digest="0" * 64)
    assert not list(cache.rglob("model.zip"))
    assert not list(cache.rglob("*.part"))
    assert get(url, digest=sha256(BODY).hexdigest()).read_bytes() == BODY


def test_fetch_replaces_cached_file_of_other_digest(website):
    url = website.put("/model.zip", b"old")
    get(url)
    website.put("/model.zip", BODY)
    assert get(url).read_bytes() == b"old"
    assert get(url, digest=sha256(BODY).hexdigest()).read_bytes() == BODY
    assert get(url).read_bytes() == BODY


def test_fetch_keeps_cached_file_after_wrong_pin(website):
    url = website.put("/model.zip", BODY)
    path = get(url)
    with pytest.raises(FormatError):
        get(url, digest="0" * 64)
    assert path.read_bytes() == BODY
    assert get(url) == path
    assert website.requests["/model.zip"] == 2


@pytest.mark.parametrize("damage", [BODY[:-1], BODY[:500] + b"!" + BODY[501:], b"", BODY + b"!"])
def test_fetch_replaces_damaged_copy(website, damage, caplog):
    url = website.put("/model.zip", BODY)
    path = get(url)
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_bytes(damage)
    os.utime(path, ns=times)
    assert get(url).read_bytes() == BODY
    assert website.requests["/model.zip"] == 2
    assert "damaged" in caplog.text


@pytest.mark.parametrize("record", [b"", b"{}", b"[]", b"\xff", b'{"url": 1}'])
def test_fetch_replaces_copy_without_record(website, record):
    url = website.put("/model.zip", BODY)
    path = get(url)
    path.with_name("model.zip.json").write_bytes(record)
    assert get(url).read_bytes() == BODY
    assert website.requests["/model.zip"] == 2


@pytest.mark.parametrize("status", [403, 404, 410])
def test_fetch_does_not_retry_missing_file(website, status):
    with pytest.raises(
        NotFound,
        match=rf"^{website.address('/no.zip')}: the server answered {status} .*does not exist or is not public",
    ):
        get(website.put("/no.zip", status=status))
    assert website.requests["/no.zip"] == 1


def test_fetch_retries_temporary_failure(website):
    assert get(website.put("/model.zip", BODY, failures=[503, 429])).read_bytes() == BODY


def test_fetch_stops_after_several_failures(website):
    with pytest.raises(NotFound, match="answered 500 Internal Server Error"):
        get(website.put("/model.zip", BODY, status=500))
    assert website.requests["/model.zip"] == 3


def test_fetch_retries_reset_connection(website):
    assert get(website.put("/model.zip", BODY, resets=2)).read_bytes() == BODY
    with pytest.raises(NotFound, match=r"the server cannot be reached \(.*reset.*\); try again later"):
        get(website.put("/other.zip", BODY, resets=9))


def test_fetch_stops_after_timeout(website, monkeypatch):
    monkeypatch.setattr(http_requests, "TIMEOUT", 0.1)
    assert get(website.put("/model.zip", BODY, pauses=[0.3])).read_bytes() == BODY
    with pytest.raises(NotFound, match=r"no data for 0.1 seconds"):
        get(website.put("/other.zip", BODY, pauses=[0.3, 0.3, 0.3]))


def test_fetch_rejects_web_page(website, cache):
    with pytest.raises(NotFound, match="sent a web page instead of a file"):
        get(website.put("/model.zip", b"<html>Log in", headers={"Content-Type": "text/html; charset=utf-8"}))
    assert not list(cache.rglob("model.zip"))


def test_fetch_rejects_empty_file(website, cache):
    with pytest.raises(NotFound, match="sent an empty file"):
        get(website.put("/model.zip", b""))
    assert not list(cache.rglob("model.zip"))


def test_fetch_follows_redirects_to_http_only(website):
    there = website.put("/there.zip", BODY)
    assert get(website.put("/here.zip", status=302, headers={"Location": there})).read_bytes() == BODY
    for elsewhere in ("file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x"):
        with pytest.raises(NotFound, match=r"redirect|Redirect"):
            get(website.put("/trap.zip", status=302, headers={"Location": elsewhere}))


def test_fetch_stops_circular_redirect(website):
    with pytest.raises(NotFound, match="answered 302"):
        get(website.put("/circle.zip", status=302, headers={"Location": "/circle.zip"}))


def test_fetch_reports_invalid_redirect(website):
    with pytest.raises(NotFound, match="redirects to an invalid one"):
        get(website.put("/trap.zip", status=302, headers={"Location": "http://[::1/x"}))


@pytest.mark.parametrize("header", ["9" * 5000, "-1", "many", "1e3", ""])
def test_fetch_ignores_invalid_content_length(website, header):
    url = website.put("/model.zip", BODY, headers={"Content-Length": header})
    assert get(url).read_bytes() == BODY


@pytest.mark.parametrize("response", ["bytes 0-9/256000", "bytes 100000-255999/*", "", "bytes " + "9" * 5000 + "-1/1"])
def test_fetch_rejects_wrong_range(website, response):
    url = website.put("/model.zip", BODY, cuts=[100_000])
    website.pages["/model.zip"].headers["Content-Range"] = response
    assert get(url).read_bytes() == BODY
    assert website.requests["/model.zip"] == 3


def test_fetch_ignores_multiline_etag(website):
    url = website.put("/model.zip", BODY, headers={"ETag": '"a"\r\n "b"'}, cuts=[100_000])
    assert get(url).read_bytes() == BODY
    assert not website.ranges


def test_fetch_reports_refused_connection(website):
    website.server_close()
    with pytest.raises(NotFound, match=r"^http://127.0.0.1:\d+/model.zip: the server refuses connections"):
        get(website.address("/model.zip"))


def test_fetch_reports_unknown_host():
    with pytest.raises(NotFound, match="cannot be resolved; check the address and the network"):
        get("http://no-such-host.invalid/model.zip")


def test_fetch_offline_uses_cache_only(website, monkeypatch):
    url = website.put("/model.zip", BODY)
    monkeypatch.setenv("ELMORE_OFFLINE", "1")
    with pytest.raises(NotFound, match=r"contains no intact copy, and ELMORE_OFFLINE"):
        get(url)
    assert not website.requests
    monkeypatch.setenv("ELMORE_OFFLINE", "0")
    get(url)
    monkeypatch.setenv("ELMORE_OFFLINE", "1")
    assert get(url).read_bytes() == BODY
    assert website.requests["/model.zip"] == 1


def test_fetch_offline_rejects_damaged_copy(website, monkeypatch):
    url = website.put("/model.zip", BODY)
    get(url).write_bytes(b"damaged")
    monkeypatch.setenv("ELMORE_OFFLINE", "1")
    with pytest.raises(NotFound, match="no intact copy"):
        get(url)


def test_threads_download_file_once(website):
    url = website.put("/model.zip", BODY)
    with ThreadPoolExecutor(8) as threads:
        paths = list(threads.map(get, [url] * 8))
    assert {path.read_bytes() for path in paths} == {BODY}
    assert website.requests["/model.zip"] == 1


def test_processes_download_file_once(website):
    url = website.put("/model.zip", BODY)
    program = f"from elmore.sources.downloads import fetch; print(fetch({url!r}, name='model.zip'))"
    running = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(3)]
    paths = {process.communicate(timeout=30)[0].decode().strip() for process in running}
    assert all(process.returncode == 0 for process in running)
    assert [Path(path).read_bytes() for path in paths] == [BODY]
    assert website.requests["/model.zip"] == 1


def test_fetch_reports_unwritable_cache(website, cache):
    cache.write_text("a file where the folder should be")
    with pytest.raises(NotFound, match=r"cannot be used: .*set ELMORE_CACHE"):
        get(website.put("/model.zip", BODY))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bar_appears_on_terminal_unless_silenced(website, monkeypatch, caplog):
    monkeypatch.setattr(sys, "stderr", Terminal())
    get(website.put("/loud.zip", BODY))
    assert "loud.zip" in sys.stderr.getvalue()
    caplog.set_level(logging.ERROR, logger="elmore")
    get(website.put("/quiet.zip", BODY))
    assert "quiet.zip" not in sys.stderr.getvalue()


def test_fetch_flushes_files_before_renaming(website, cache, monkeypatch):
    monkeypatch.setattr(downloads, "FSYNC_EVERY", len(BODY) // 3)
    cache.mkdir(parents=True, exist_ok=True)
    with recorded(cache) as journal:
        path = get(website.put("/model.zip", BODY))
    records = journal.of("model.zip.part.json")
    assert len(records) > 3  # while it came, too
    assert [record.neighbours_unsynced for record in records] == [[]] * len(records)
    assert [Path(target).name for target in journal.targets[-2:]] == ["model.zip", "model.zip.json"]
    assert path.parent == cache / Path(journal.targets[-1]).parent
    assert_durable(journal)


@pytest.fixture
def other_process(website, cache, monkeypatch):
    """The lock of a file, held as another process would hold it, and the file to wait for.

    On the clock of the waiting process, each look takes ten seconds.
    """
    clock = SimpleNamespace(monotonic=count(step=10).__next__, sleep=time.sleep)
    monkeypatch.setattr(downloads, "time", clock)
    monkeypatch.setattr(downloads, "SECONDS_BEFORE_NOTICE", 0.01)
    url = website.put("/model.zip", BODY)
    entry = downloads._CacheEntry.of(url, "model.zip")
    entry.folder.mkdir(parents=True)
    # The lock is released first: the thread may wait for it after a failed test.
    with ThreadPoolExecutor(1) as thread, FileLock(entry.sibling("lock")) as lock:
        yield SimpleNamespace(lock=lock, entry=entry, fetch=lambda: thread.submit(get, url))


def test_fetch_reports_that_it_waits_for_another_process(other_process, caplog, monkeypatch):
    looked = watch_progress(monkeypatch, changes=True)
    fetched = other_process.fetch()
    assert looked.wait(timeout=60)
    assert caplog.messages == ["waiting for another process that fetches model.zip"]
    assert caplog.records[0].levelno == logging.WARNING
    # Far beyond the limit of a download without progress.
    assert not fetched.done()
    other_process.lock.release()
    assert fetched.result(timeout=60).read_bytes() == BODY


def test_fetch_gives_up_when_another_process_makes_no_progress(other_process, monkeypatch):
    watch_progress(monkeypatch, changes=False)
    with pytest.raises(NotFound, match=r"another process has fetched this file .* without progress; end that process"):
        other_process.fetch().result(timeout=60)
    assert not other_process.entry.file.exists()


def test_progress_changes_with_every_part_of_a_download(other_process):
    entry = other_process.entry
    seen = [downloads._progress(entry)]
    for size in (1, 2):
        entry.sibling("part").write_bytes(bytes(size))
        os.utime(entry.sibling("part"), ns=(size, size))
        seen.append(downloads._progress(entry))
    entry.sibling("part").rename(entry.file)
    seen.append(downloads._progress(entry))
    assert len(set(seen)) == 4


def watch_progress(monkeypatch: pytest.MonkeyPatch, *, changes: bool) -> threading.Event:
    """Replace what a waiting process sees of the other; the event is set after 100 looks."""
    looks, looked = count(), threading.Event()

    def progress(entry: object) -> int:
        look = next(looks)
        if look == 100:
            looked.set()
        return look if changes else 0

    monkeypatch.setattr(downloads, "_progress", progress)
    return looked


def test_cache_folder_follows_environment_variables(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ELMORE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_folder() == tmp_path / ".cache" / "elmore"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "elmore"
    monkeypatch.setenv("ELMORE_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"
