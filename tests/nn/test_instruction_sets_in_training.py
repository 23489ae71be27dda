"""Native training on CPUs with fewer instructions: its tests again, in processes that ELMORE_ISA limits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elmore.engine.native_library import INSTRUCTION_SETS, Precision, native_library, why_unavailable

pytestmark = pytest.mark.skipif(why_unavailable(Precision.FLOAT32) is not None, reason="needs the native kernels")

ROOT = Path(__file__).resolve().parents[2]
TESTS = ["tests/nn/test_native_recurrence.py", "tests/nn/test_native_training.py"]
HAS_INSTRUCTIONS = (
    "import sys; from elmore.engine.native_library import *; sys.exit(native_library().instructions(0) != {!r})"
)
INSTRUCTIONS = {"portable": "portable", "neon": "NEON", "avx2": "AVX2", "avx512": "AVX-512"}


@pytest.mark.parametrize("instructions", [name for name in INSTRUCTION_SETS if name != "none"])
def test_training_agrees_with_torch_on_each_instruction_set(instructions: str) -> None:
    library = native_library()
    assert not isinstance(library, str)
    if library.instructions(Precision.FLOAT32) == INSTRUCTIONS[instructions]:
        pytest.skip("the other tests use these instructions")
    environment = {**os.environ, "ELMORE_ISA": instructions, "PYTHONPATH": os.pathsep.join(sys.path)}
    probe = [sys.executable, "-c", HAS_INSTRUCTIONS.format(INSTRUCTIONS[instructions])]
    if subprocess.run(probe, env=environment, timeout=120, check=False).returncode:
        pytest.skip("this CPU does not have these instructions")
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *TESTS]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout[-3000:]
