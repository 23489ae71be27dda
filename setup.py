"""Builds the native CPU kernels as a plain shared library; everything else about the package is in pyproject.toml.

Where there is no compiler, or ELMORE_NATIVE=0 is set, the package is installed without them and works all the same.
"""

import os
import platform
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

LIBRARY = "elmore.kernels._native"
SOURCES = Path("src/elmore/kernels/native")
# Sums must not be contracted or reordered behind our back: that every output is summed in one order is the whole point.
COMPILE_ARGUMENTS = ["-std=c++20", "-O3", "-ffp-contract=off", "-fno-exceptions", "-fvisibility=hidden", "-pthread"]
# GCC takes AVX-512's own "undefined" operands for ours.
WARNINGS = ["-Wall", "-Wextra", "-Wno-maybe-uninitialized", "-Wno-uninitialized"]
LINK_ARGUMENTS = ["-pthread", "-Wl,-s", "-static-libstdc++", "-static-libgcc"]


class BuildLibrary(build_ext):
    """Names the library without a Python version, since any Python opens it by ctypes."""

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', os.sep)}.so"

    def get_export_symbols(self, ext: Extension) -> list[str]:  # noqa: ARG002
        return []


class BuildWheel(bdist_wheel):
    """One wheel for all Pythons of a platform, or for everything, where no library was built."""

    def run(self) -> None:
        self.run_command("build")
        library = Path(self.get_finalized_command("build_ext").get_ext_fullpath(LIBRARY))
        self.root_is_pure = not library.exists()
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        if self.root_is_pure:
            return ("py3", "none", "any")
        return ("py3", "none", super().get_tag()[2])


def native_extensions() -> list[Extension]:
    wanted = os.environ.get("ELMORE_NATIVE", "1") != "0"
    if not wanted or platform.system() != "Linux" or platform.machine() != "x86_64":
        return []
    return [
        Extension(
            LIBRARY,
            sources=sorted(str(path) for path in SOURCES.glob("*.cpp")),
            depends=sorted(str(path) for path in SOURCES.glob("*.h")),
            language="c++",
            extra_compile_args=COMPILE_ARGUMENTS + WARNINGS,
            extra_link_args=LINK_ARGUMENTS,
            optional=True,
        )
    ]


setup(ext_modules=native_extensions(), cmdclass={"build_ext": BuildLibrary, "bdist_wheel": BuildWheel})
