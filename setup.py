"""Build the native CPU kernels as a plain shared library; pyproject.toml describes the rest of the package.

Without a C++ compiler, on a 32-bit platform, or with ELMORE_NATIVE=0, the package is installed without the library.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

LIBRARY = "elmore.engine._native"
SOURCES = (Path("src/elmore/engine/native"), Path("src/elmore/nn/native"))
# Sums must not be contracted or reordered: each output is summed in one order.
GNU_ARGUMENTS = ["-std=c++20", "-O3", "-ffp-contract=off", "-fwrapv", "-fvisibility=hidden", "-pthread"]
# GCC reports undefined operands of the AVX-512 intrinsics themselves.
GNU_WARNINGS = ["-Wall", "-Wextra", "-Wno-maybe-uninitialized", "-Wno-uninitialized"]
LINUX_LINK_ARGUMENTS = ["-pthread", "-Wl,-s", "-static-libstdc++", "-static-libgcc"]
MSVC_ARGUMENTS = ["/std:c++20", "/O2", "/EHsc", "/fp:precise", "/utf-8"]
# Other compilers read the instructions of a file from a pragma.
MSVC_INSTRUCTIONS = {"avx2": "/arch:AVX2", "avx512": "/arch:AVX512"}


class BuildLibrary(build_ext):
    """Names the library without a Python version, because any Python opens it with ctypes."""

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', os.sep)}.so"

    def get_export_symbols(self, ext: Extension) -> list[str]:  # noqa: ARG002
        return []

    def build_extension(self, ext: Extension) -> None:
        msvc = self.compiler.compiler_type == "msvc"
        ext.extra_compile_args = MSVC_ARGUMENTS if msvc else GNU_ARGUMENTS + GNU_WARNINGS
        ext.extra_link_args = LINUX_LINK_ARGUMENTS if sys.platform == "linux" else []
        compile_one = self.compiler.compile

        def compile_all(sources: list[str], **options: object) -> list[str]:
            """Compile each source with the arguments of its instructions, several at a time."""
            own = options.pop("extra_postargs")

            def compile_source(source: str) -> list[str]:
                instructions = Path(source).stem.removeprefix("training_").split("_")[0]
                more = [MSVC_INSTRUCTIONS[instructions]] if msvc and instructions in MSVC_INSTRUCTIONS else []
                return compile_one([source], extra_postargs=[*own, *more], **options)

            with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
                return [path for paths in threads.map(compile_source, sources) for path in paths]

        self.compiler.compile = compile_all
        try:
            super().build_extension(ext)
        finally:
            self.compiler.compile = compile_one


class BuildWheel(bdist_wheel):
    """One wheel for all Pythons of a platform, or for all platforms, if no library was built."""

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
    if os.environ.get("ELMORE_NATIVE", "1") == "0" or sys.maxsize < 2**32:
        return []
    files = [path for folder in SOURCES for path in sorted(folder.iterdir())]
    return [
        Extension(
            LIBRARY,
            sources=[str(path) for path in files if path.suffix == ".cpp"],
            depends=[str(path) for path in files if path.suffix == ".h"],
            include_dirs=[str(folder) for folder in SOURCES],
            language="c++",
            optional=True,
        )
    ]


setup(ext_modules=native_extensions(), cmdclass={"build_ext": BuildLibrary, "bdist_wheel": BuildWheel})
