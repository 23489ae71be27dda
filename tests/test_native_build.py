"""Where the native CPU kernels are built, and that nothing fails where they cannot be."""

import os
import platform
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import setuptools

ROOT = Path(__file__).resolve().parents[1]


def extensions(monkeypatch: pytest.MonkeyPatch) -> list[setuptools.Extension]:
    asked: dict = {}
    monkeypatch.setattr(setuptools, "setup", lambda **given: asked.update(given))
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"))
    return asked["ext_modules"]


def test_setup_builds_library_unless_variable_excludes_it(monkeypatch) -> None:
    monkeypatch.delenv("ELMORE_NATIVE", raising=False)
    assert [extension.name for extension in extensions(monkeypatch)] == ["elmore.engine._native"]
    monkeypatch.setenv("ELMORE_NATIVE", "0")
    assert extensions(monkeypatch) == []


def test_setup_builds_no_library_on_32_bit_platform(monkeypatch) -> None:
    monkeypatch.delenv("ELMORE_NATIVE", raising=False)
    monkeypatch.setattr(sys, "maxsize", 2**31 - 1)
    assert extensions(monkeypatch) == []


@pytest.mark.skipif((platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="is about a build there")
def test_a_compiler_that_fails_leaves_a_package_without_the_library(tmp_path: Path) -> None:
    # As one for another kind of CPU does, which has no headers for these instructions.
    environment = {**os.environ, "CC": "false", "CXX": "false"}
    folders = ["--build-lib", str(tmp_path / "lib"), "--build-temp", str(tmp_path / "temp")]
    ended = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--force", *folders],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "building extension" in ended.stderr + ended.stdout
    assert not list(tmp_path.rglob("*.so"))


def test_a_source_distribution_has_the_sources_wherever_it_is_made(tmp_path: Path) -> None:
    # As on a system for which nothing is built.
    subprocess.run(
        [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "ELMORE_NATIVE": "0"},
        timeout=120,
        check=True,
    )
    (listed,) = tmp_path.glob("*.egg-info/SOURCES.txt")
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "src/elmore/engine/native").iterdir()}
    assert sources
    assert sources <= set(listed.read_text(encoding="utf-8").splitlines())
