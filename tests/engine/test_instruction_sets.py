"""The engines on CPUs with fewer instructions: ELMORE_ISA limits the library, in a process of its own."""

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from elmore import load
from elmore.engine.native_library import INSTRUCTION_SETS, Precision, why_unavailable
from elmore.engine.numpy_engine import NumpyEngine
from packed_sentences import run_sentences, store_for

pytestmark = pytest.mark.skipif(why_unavailable(Precision.FLOAT32) is not None, reason="needs the native kernels")

SENTENCE = ["I", "took", "a", "bow", "."]
PROGRAM = f"""
import json
from elmore import load
from elmore.engine import open_engine
from elmore.engine.native_library import Precision, native_library
from elmore.errors import InputError
from packed_sentences import run_sentences, store_for
from elmore.engine.threads import set_threads
checkpoint = load("tiny-random").checkpoint
vectors, errors, names = {{}}, {{}}, {{}}
for compute in ("float32", "bfloat16", "int8"):
    try:
        engine = open_engine(checkpoint, device="cpu", compute=compute)
    except InputError as error:
        errors[compute] = str(error)
    else:
        names[compute] = engine.name
        store = store_for(engine, checkpoint)
        alone = run_sentences(engine, store, [{SENTENCE!r}])[0][0]
        vectors[compute] = alone.tolist()
        if engine.name == "native":
            # Rows of unequal length, several pieces of rows, and teams of threads.
            for threads, copies in ((1, 1), (2, 5), (3, 40)):
                set_threads(threads)
                others = [["word"] * (number % 9) for number in range(copies)]
                together = run_sentences(engine, store, [*others, {SENTENCE!r}, *others], rows=3 * copies)[0]
                assert (together[copies] == alone).all()
lanes = [native_library().lanes(precision) for precision in Precision]
print(json.dumps({{"vectors": vectors, "errors": errors, "names": names, "lanes": lanes}}))
"""


def run_with(instructions: str) -> dict[str, Any]:
    environment = {**os.environ, "ELMORE_ISA": instructions, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.fixture(scope="module")
def expected() -> Any:
    checkpoint = load("tiny-random").checkpoint
    engine = NumpyEngine(checkpoint)
    return run_sentences(engine, store_for(engine, checkpoint), [SENTENCE])[0][0]


def test_open_engine_without_native_instructions_is_numpy(expected: Any) -> None:
    found = run_with("none")
    assert (found["lanes"], found["names"]) == ([0, 0, 0], {"float32": "numpy"})
    for compute in ("bfloat16", "int8"):
        message = f"compute='{compute}' requires the native engine: ELMORE_ISA=none excludes them"
        assert found["errors"][compute] == message
    np.testing.assert_allclose(found["vectors"]["float32"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("instructions", [name for name in INSTRUCTION_SETS if name != "none"])
def test_engine_agrees_with_numpy_on_each_instruction_set(expected: Any, instructions: str) -> None:
    found = run_with(instructions)
    assert found["errors"] == {}
    assert found["names"] == {"float32": "native", "bfloat16": "native", "int8": "native"}
    np.testing.assert_allclose(found["vectors"]["float32"], expected, rtol=1e-5, atol=1e-5)
    for compute in ("bfloat16", "int8"):
        error = np.linalg.norm(np.array(found["vectors"][compute]) - expected)
        assert 0 < error < 0.03 * np.linalg.norm(expected)
