import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from elmore.errors import ElmoreError, FormatError, NotFound
from elmore.formats.storage import archives
from elmore.formats.storage.archives import TarContainer
from elmore.formats.storage.container import Container, FileContainer, OverlayContainer, open_container

actually_opened = archives._opened

CONTENT = {"options.json": b"{}", "weights.hdf5": b"\x89HDF" + bytes(range(256)), "vocabulary/tokens.txt": b"a\nb\n"}

Pack = Callable[[Path, Mapping[str, bytes]], Path]


def as_folder(place: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        file = place / "model" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return place / "model"


def as_zip(place: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(place / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return place / "model.zip"


def as_tar(place: Path, files: Mapping[str, bytes], *, compression: str = "") -> Path:
    path = place / f"model.tar{compression and f'.{compression}'}"
    with tarfile.open(path, f"w:{compression}") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def compressed(compression: str) -> Pack:
    return lambda place, files: as_tar(place, files, compression=compression)


PACKINGS = [as_folder, as_zip, as_tar, compressed("gz"), compressed("xz"), compressed("bz2")]
NAMES = ["folder", "zip", "tar", "tar.gz", "tar.xz", "tar.bz2"]
every_packing = pytest.mark.parametrize("pack", PACKINGS, ids=NAMES)
every_archive = pytest.mark.parametrize("pack", PACKINGS[1:], ids=NAMES[1:])


@every_packing
def test_the_same_files_come_out_of_every_packing(tmp_path: Path, pack: Pack) -> None:
    container = open_container(pack(tmp_path, CONTENT))
    assert sorted(container.names()) == sorted(CONTENT)
    for name, content in CONTENT.items():
        assert container.read(name) == content
        with container.open(name) as file:
            file.seek(2)
            assert file.read() == content[2:]


@pytest.mark.parametrize("compression", ["gz", "xz", "bz2"])
def test_small_files_of_a_tar_archive_are_read_with_its_list(
    tmp_path: Path, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compressed tar archive is decompressed from its start for each file that is read later."""
    files = {**CONTENT, "empty.txt": b"", "large.bin": bytes(range(256)) * 5000, "last.json": b"[]"}
    path = as_tar(tmp_path, files, compression=compression)
    opened = []
    monkeypatch.setattr(archives, "_opened", lambda path: opened.append(path) or actually_opened(path))
    container = open_container(path)
    passes = len(opened)
    for name in CONTENT.keys() | {"empty.txt", "last.json"}:
        assert container.read(name) == files[name]
    assert len(opened) == passes
    assert container.read("large.bin") == files["large.bin"]
    assert len(opened) == passes + 1


def test_small_files_of_a_tar_archive_take_a_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_MAX_CACHED_BYTES", 25)
    files = {str(number): bytes([number]) * 10 for number in range(4)}
    container = open_container(as_tar(tmp_path, files))
    assert isinstance(container, TarContainer)
    assert [member.content is not None for member in container.members.values()] == [True, True, False, False]
    assert {name: container.read(name) for name in container.names()} == files


def test_the_last_of_two_members_with_one_name_counts(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "model.tar", "w") as archive:
        for content in (b"first", b"second"):
            member = tarfile.TarInfo("options.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    assert open_container(tmp_path / "model.tar").read("options.json") == b"second"


@every_packing
def test_a_missing_file_is_named_with_what_there_is(tmp_path: Path, pack: Pack) -> None:
    container = open_container(pack(tmp_path, CONTENT))
    for ask in (container.read, container.open, container.path):
        with pytest.raises(NotFound, match=r"encoder\.pkl is missing; there are options\.json, vocabulary/tokens\.txt"):
            ask("encoder.pkl")


@every_archive
def test_a_folder_around_all_files_of_an_archive_does_not_count(tmp_path: Path, pack: Pack) -> None:
    container = open_container(pack(tmp_path, {f"./elmo/large/{name}": content for name, content in CONTENT.items()}))
    assert sorted(container.names()) == sorted(CONTENT)
    assert container.read("options.json") == b"{}"


@every_archive
def test_what_macos_adds_to_an_archive_is_left_out(tmp_path: Path, pack: Pack) -> None:
    added = {"__MACOSX/elmo/._options.json": b"junk", "elmo/._weights.hdf5": b"junk"}
    container = open_container(pack(tmp_path, {f"elmo/{name}": content for name, content in CONTENT.items()} | added))
    assert sorted(container.names()) == sorted(CONTENT)


@every_archive
def test_names_that_lead_out_of_an_archive_lead_nowhere(tmp_path: Path, pack: Pack) -> None:
    archive = pack(tmp_path, {"../../outside": b"1", "/etc/passwd": b"2", "options.json": b"{}"})
    before = set(tmp_path.rglob("*"))
    container = open_container(archive)
    assert container.read("options.json") == b"{}"
    assert all(container.path(name) is None for name in container.names())
    assert set(tmp_path.rglob("*")) == before


@every_archive
def test_an_archive_in_an_archive_is_a_file_like_any_other(tmp_path: Path, pack: Pack) -> None:
    inner = as_zip(tmp_path, CONTENT).read_bytes()
    place = tmp_path / "outer"
    place.mkdir()
    assert open_container(pack(place, {"inner.zip": inner})).names() == ["inner.zip"]


@every_archive
def test_an_archive_cut_anywhere_gives_an_error_or_whole_files(tmp_path: Path, pack: Pack) -> None:
    whole = pack(tmp_path, CONTENT)
    content = whole.read_bytes()
    for length in range(0, len(content), max(1, len(content) // 200)):
        whole.write_bytes(content[:length])
        with suppress(ElmoreError):
            container = open_container(whole)
            for name in set(container.names()) & CONTENT.keys():
                assert container.read(name) == CONTENT[name]


def test_a_folder_and_files_tell_where_they_lie_and_archives_do_not(tmp_path: Path) -> None:
    path = as_folder(tmp_path, CONTENT)
    assert open_container(path).path("options.json") == path / "options.json"
    assert open_container(path).where == str(path)
    assert open_container(as_zip(tmp_path, CONTENT)).path("options.json") is None


def test_a_folder_is_listed_two_levels_deep(tmp_path: Path) -> None:
    path = as_folder(tmp_path, {"a": b"", "b/c": b"", "b/d/e": b""})
    assert open_container(path).names() == ["a", "b/c"]


def test_files_may_lie_apart_and_be_called_something_else(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1")
    container = FileContainer({"options.json": tmp_path / "one", "weights.hdf5": tmp_path / "absent"})
    assert container.read("options.json") == b"1"
    with pytest.raises(NotFound, match=r"weights\.hdf5: no such file"):
        container.read("weights.hdf5")


def test_a_file_laid_over_a_container_replaces_the_one_below(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    below = open_container(as_zip(tmp_path, CONTENT))
    container: Container = OverlayContainer(below, {"vocab.txt": tmp_path / "mine", "options.json": tmp_path / "mine"})
    assert container.names() == ["vocab.txt", "options.json", "weights.hdf5", "vocabulary/tokens.txt"]
    assert container.read("vocab.txt") == container.read("options.json") == b"mine"
    assert container.read("weights.hdf5") == CONTENT["weights.hdf5"]
    assert (container.path("vocab.txt"), container.path("weights.hdf5")) == (tmp_path / "mine", None)
    assert container.where == below.where


def test_nothing_at_a_path_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="absent: no such file or folder"):
        open_container(tmp_path / "absent")


def test_a_plain_file_is_a_container_of_one(tmp_path: Path) -> None:
    (tmp_path / "weights.hdf5").write_bytes(b"\x89HDF")
    assert open_container(tmp_path / "weights.hdf5").names() == ["weights.hdf5"]


def test_a_file_of_torch_is_one_file_although_it_is_a_zip_archive(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(2)}, tmp_path / "best.th")
    assert zipfile.is_zipfile(tmp_path / "best.th")
    assert open_container(tmp_path / "best.th").names() == ["best.th"]


def test_a_tar_archive_with_a_file_of_torch_at_its_end_is_no_zip_archive(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(2)}, tmp_path / "best.th")
    archive = as_tar(tmp_path, {"config.json": b"{}", "weights.th": (tmp_path / "best.th").read_bytes()})
    assert open_container(archive).names() == ["config.json", "weights.th"]


def test_a_damaged_member_of_a_zip_archive_is_named(tmp_path: Path) -> None:
    archive = as_zip(tmp_path, {"weights.hdf5": bytes(1000) + bytes(range(256)) * 4})
    content = bytearray(archive.read_bytes())
    content[60] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(FormatError, match=r"weights\.hdf5: damaged \(.*fetch it again"):
        open_container(archive).read("weights.hdf5")


def test_a_zip_archive_that_is_cut_short_is_named(tmp_path: Path) -> None:
    archive = as_zip(tmp_path, CONTENT)
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(FormatError, match=r"model\.zip: damaged"):
        open_container(archive)


def test_an_encrypted_member_is_refused_with_the_remedy(tmp_path: Path) -> None:
    archive = as_zip(tmp_path, {"weights.hdf5": b"12345678"})
    content = bytearray(archive.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\1\2") + 8] |= 1
    archive.write_bytes(content)
    with pytest.raises(FormatError, match=r"weights\.hdf5: encrypted; unpack the archive with its password"):
        open_container(archive).read("weights.hdf5")


def test_a_zip_archive_packed_by_lzma_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("weights.hdf5", b"12345678")
    with pytest.raises(FormatError, match=r"weights\.hdf5: compressed by another method than deflate"):
        open_container(tmp_path / "model.zip").read("weights.hdf5")


@pytest.mark.parametrize("pack", [as_zip, compressed("gz"), compressed("xz")], ids=["zip", "tar.gz", "tar.xz"])
def test_an_archive_that_would_unpack_to_something_absurd_is_refused(tmp_path: Path, pack: Pack) -> None:
    bomb = pack(tmp_path, {"weights.hdf5": bytes(90 << 20), "options.json": b"{}"})
    assert bomb.stat().st_size < 1 << 18
    with pytest.raises(FormatError, match=r"model\.\S+: would expand to more than 200 times its size"):
        open_container(bomb)


def test_a_tar_archive_that_leads_back_into_itself_is_no_endless_loop(tmp_path: Path) -> None:
    archive = as_tar(tmp_path, {"a": b"1" * 600})
    header = bytearray(archive.read_bytes()[:512])
    header[124:136] = (-1024).to_bytes(12, "big", signed=True)  # the size, in the way that allows negative ones
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    archive.write_bytes(bytes(header) + archive.read_bytes()[512:])
    with pytest.raises(FormatError, match=r"model\.tar"):
        open_container(archive)
