"""Errors of the operating system become sentences that name the file."""

import errno
import gzip
import os
import zlib
from pathlib import Path

import pytest

from elmore.errors import ElmoreError, FormatError, InputError, NotFound
from elmore.files.atomic_files import make_folder
from elmore.files.os_errors import reading, writing

EIO = OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file"), NotFound, "v: no such file"),
        (FileNotFoundError(errno.ENOENT, "No such file", "other"), NotFound, "other: no such file"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "v"), InputError, "v: is a folder; name a file"),
        (EIO, FormatError, "v: cannot be read: Input/output error"),
        (OSError(errno.EACCES, "HDF5 says no", b"v"), FormatError, "v: cannot be read: Permission denied"),
        (gzip.BadGzipFile("CRC check failed"), FormatError, r"v: damaged \(CRC check failed\); fetch the file again"),
        (zlib.error("bad header"), FormatError, r"v: damaged \(bad header\); fetch the file again"),
        (zlib.error(), FormatError, r"v: damaged \(error\); fetch the file again"),
        (EOFError("end"), FormatError, "v: ends too soon; the file is cut short, fetch it again"),
    ],
)
def test_reading_names_file_and_reason(error: Exception, kind: type[ElmoreError], said: str) -> None:
    with (
        pytest.raises(kind, match=f"^{said}$") as caught,
        reading("v", error=FormatError, damage=(EOFError, zlib.error)),
    ):
        raise error
    assert type(caught.value) is kind


def test_reading_passes_errors_that_are_no_damage() -> None:
    with pytest.raises(EOFError), reading("v"):
        raise EOFError
    with pytest.raises(InputError, match=r"^line 3: wrong$"), reading("v"):
        raise InputError("line 3: wrong")
    with pytest.raises(NotFound, match=r"^a model$"), reading("v"):  # an OSError too
        raise NotFound("a model")


@pytest.mark.parametrize("filename", [None, "folder/v", Path("folder/v"), b"folder/v", f"folder/v{os.sep}a"])
def test_writing_names_file_of_error_about_it(filename: object) -> None:
    with pytest.raises(ElmoreError, match=r"^folder/v: cannot be written: Input/output error$"), writing("folder/v"):
        raise OSError(errno.EIO, "Input/output error", filename)


@pytest.mark.parametrize("filename", ["folder/va", "folder", "/folder/v"])
def test_writing_passes_error_about_another_file(filename: str) -> None:
    with pytest.raises(OSError, match="Input/output error") as caught, writing("folder/v"):
        raise OSError(errno.EIO, "Input/output error", filename)
    assert not isinstance(caught.value, ElmoreError)


def test_writing_names_target_for_error_about_a_part() -> None:
    with pytest.raises(ElmoreError, match=r"^v: cannot be written"), writing("v", parts=(Path(".part-v"),)):
        raise OSError(errno.EIO, "Input/output error", ".part-v")


def test_make_folder_names_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "file/a", "file/a/b", "x" * 300):
        with pytest.raises(
            ElmoreError, match=f"{name}: cannot be written: (File exists|Not a directory|File name too)"
        ):
            make_folder(tmp_path / name)
