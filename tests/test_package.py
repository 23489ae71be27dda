"""What `import elmore` offers, and what it does not do."""

import subprocess
import sys

import elmore


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    ).stdout.strip()


def test_everything_in_all_can_be_imported_and_nothing_else_is_offered() -> None:
    assert elmore.__all__ == sorted(elmore.__all__)
    assert dir(elmore) == elmore.__all__
    for name in elmore.__all__:
        assert getattr(elmore, name) is not None


def test_importing_elmore_imports_neither_torch_nor_numpy() -> None:
    assert run("import sys, elmore; print({'torch', 'numpy', 'h5py'} & set(sys.modules))") == "set()"


def test_the_help_of_every_verb_does_without_torch() -> None:
    code = """
import sys
from elmore.cli.app import VERBS, main
for arguments in (['--help'], ['--version'], *([verb, '--help'] for verb in VERBS)):
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
