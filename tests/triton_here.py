"""Where the Triton kernels can run: on a GPU, or with TRITON_INTERPRET=1 anywhere, slowly."""

import importlib.util
import os

import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or (DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1"),
    reason="Triton, and a GPU or TRITON_INTERPRET=1, are needed",
)
