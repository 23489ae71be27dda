"""Where the Triton kernels can run: on a GPU, or with TRITON_INTERPRET=1 anywhere, slowly."""

import importlib.util
import os
from collections.abc import Callable
from typing import TypeVar

import pytest
import torch

Test = TypeVar("Test", bound=Callable[..., None])

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

IS_HERE = importlib.util.find_spec("triton") is not None and (
    DEVICE == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
)


def needs_triton(test: Test) -> Test:
    """Mark a test that runs Triton kernels, for `make test-kernels` to find, and skip it where they cannot run."""
    skipped = pytest.mark.skipif(not IS_HERE, reason="Triton, and a GPU or TRITON_INTERPRET=1, are needed")
    return pytest.mark.triton(skipped(test))
