"""Inference, conversion and scoring work without torch, with equal results, and do not load an installed torch."""

import ast
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conftest
from cpu_environment import ON_THE_CPU

PROGRAM = Path(__file__).with_name("work_without_torch.py")
HIDE_TORCH = Path(__file__).with_name("without_torch")
STEPS = [
    node.name
    for node in ast.parse(PROGRAM.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.decorator_list
]

Results = dict[str, tuple[Any, bool]]


def results_of(folder: Path, *, hide_torch: bool) -> Results:
    """Run the program in a process of its own; both runs use a folder of the same name."""
    paths = [str(HIDE_TORCH)] if hide_torch else []
    environment = {
        **ON_THE_CPU,
        "PYTHONPATH": os.pathsep.join([*paths, *filter(None, sys.path)]),
        "OMP_NUM_THREADS": "1",
        "ELMORE_THREADS": "1",
        "PYTHONHASHSEED": "0",
    }
    work = folder / "work"
    work.mkdir()
    fixtures = [str(conftest.SHARED / "fixtures")] if conftest.SHARED.is_dir() else []
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(work), str(folder / "results"), *fixtures],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    results: Results = pickle.loads((folder / "results").read_bytes())
    return results


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of(tmp_path_factory.mktemp("with"), hide_torch=False)


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of(tmp_path_factory.mktemp("without"), hide_torch=True)


@pytest.mark.parametrize("name", STEPS)
def test_step_has_equal_results_without_torch(with_torch: Results, without_torch: Results, name: str) -> None:
    found, expected = without_torch[name][0], with_torch[name][0]
    assert not isinstance(expected, str), expected  # an error
    assert_equal(found, expected)


@pytest.mark.parametrize("name", STEPS)
def test_step_does_not_load_torch(with_torch: Results, name: str) -> None:
    result, loaded = with_torch[name]
    assert not loaded, f"{name} or an earlier step loaded torch"
    assert not isinstance(result, str), result


def test_import_of_elmore_loads_no_large_library(with_torch: Results) -> None:
    assert with_torch["import_elmore"][0][0] == []


def assert_equal(found: Any, expected: Any) -> None:
    """Equal in type and every bit."""
    assert type(found) is type(expected), (found, expected)
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert_equal(found[key], value)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    else:
        assert found == expected
