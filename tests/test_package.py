"""What `import elmore` offers, and what it does not do."""

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import elmore
import elmore.tasks
from elmore import errors


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    ).stdout.strip()


def test_everything_in_all_can_be_imported_and_nothing_else_is_offered() -> None:
    assert elmore.__all__ == sorted(elmore.__all__)
    assert dir(elmore) == elmore.__all__
    for name in elmore.__all__:
        assert getattr(elmore, name) is not None


def test_package_exports_the_family_of_errors() -> None:
    family = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__module__ == "elmore.errors"
    }
    assert family <= set(elmore.__all__)
    assert run("import elmore; print(elmore.errors.NotFound is elmore.NotFound)") == "True"


@pytest.mark.parametrize("package", [elmore, elmore.tasks])
def test_names_for_type_checkers_are_the_names_loaded_on_first_use(package: ModuleType) -> None:
    tree = ast.parse(Path(package.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    modules = {name.name: node.module for node in block.body for name in node.names if node.module != "elmore"}
    assert modules == package._MODULES
    assert {*package._MODULES} == {*package.__all__} - {"__version__", "errors", "tasks"}


def test_importing_elmore_imports_neither_torch_nor_numpy() -> None:
    assert run("import sys, elmore; print({'torch', 'numpy', 'h5py'} & set(sys.modules))") == "set()"


@pytest.mark.parametrize("package", ["corpus", "files", "formats", "sources", "text"])
def test_package_imports_without_torch(package: str) -> None:
    code = f"""
import importlib, pkgutil, sys
sys.modules["torch"] = None  # so that importing torch is an ImportError
package = importlib.import_module("elmore.{package}")
modules = list(pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + "."))
for module in modules:
    importlib.import_module(module.name)
print(len(modules))
"""
    assert int(run(code)) > 3


def test_the_help_of_every_verb_does_without_torch() -> None:
    code = """
import sys
from elmore.cli.app import COMMANDS, main
for arguments in (['--help'], ['--version'], *([command, '--help'] for command in COMMANDS)):
    try:
        main(arguments)
    except SystemExit as end:
        assert end.code == 0, arguments
print('torch' in sys.modules)
"""
    assert run(code).endswith("False")


def test_importing_elmore_configures_nothing() -> None:
    code = """
import logging, warnings, torch, h5py, sacremoses  # which may do what they like
before = list(warnings.filters), list(logging.root.handlers)
from elmore import Elmo, Embedder, load, open_vectors
print(before == (list(warnings.filters), list(logging.root.handlers)), torch.is_grad_enabled())
"""
    assert run(code) == "True True"
