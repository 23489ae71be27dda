"""What runs on CPUs that lack instructions: the library is told to leave them alone, in a process of its own."""

import json
import subprocess
import sys

import numpy as np
import pytest

from cpu_environment import ON_THE_CPU
from elmore import Embedder
from elmore.engine.native_library import Precision, native_library, why_unavailable

pytestmark = pytest.mark.skipif(why_unavailable(Precision.FLOAT32) is not None, reason="needs the native kernels")

SENTENCE = "I took a bow ."
ASK = f"""
import json, torch
from elmore import Embedder
from elmore.errors import InputError
from elmore.engine.native_library import Precision, native_library
from elmore.nn.kernels import describe_kernels, describe_native_kernels
try:
    refused = Embedder.from_pretrained("tiny-random", compute="int8").compute
except InputError as error:
    refused = str(error)
print(json.dumps({{
    "reading": describe_kernels(torch.device("cpu"))["reading"],
    "native": describe_native_kernels(),
    "lanes": [native_library().lanes(number) for number in Precision],
    "int8": refused,
    "bfloat16": Embedder.from_pretrained("tiny-random", compute="bfloat16").encode([{SENTENCE!r}.split()])[0].tolist(),
    "vectors": Embedder.from_pretrained("tiny-random").encode([{SENTENCE!r}.split()], layers="all")[0].tolist(),
}}))
"""


def told_with(instructions: str) -> dict:
    environment = {**ON_THE_CPU, "ELMORE_ISA": instructions}
    ended = subprocess.run(
        [sys.executable, "-c", ASK], capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    return json.loads(ended.stdout)


@pytest.fixture
def expected() -> np.ndarray:
    embedder = Embedder.from_pretrained("tiny-random")
    embedder.model.network.use_kernels("reference")
    return embedder.encode([SENTENCE.split()], layers="all")[0]


def test_a_cpu_without_avx2_reads_by_the_reference_and_says_so(expected: np.ndarray) -> None:
    told = told_with("none")
    assert told["lanes"] == [0, 0, 0]
    assert told["reading"] == "reference"
    assert told["native"] == "this CPU has no AVX2"
    assert "this CPU has no AVX-512 with VNNI; there are float32 and bfloat16" in told["int8"]
    np.testing.assert_allclose(told["vectors"], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(told["bfloat16"], np.mean(expected, axis=0), rtol=0, atol=0.05)


def test_a_cpu_without_avx512_has_kernels_for_float32_alone(expected: np.ndarray) -> None:
    told = told_with("avx2")
    assert told["lanes"] == [8, 0, 0]
    assert told["reading"] == "native"
    assert told["native"].startswith("float32; not bfloat16: this CPU has no AVX-512 with BF16; not int8: ")
    np.testing.assert_allclose(told["vectors"], expected, rtol=1e-5, atol=1e-5)


def test_on_this_machine_nothing_is_left_out() -> None:
    library = native_library()
    assert not isinstance(library, str)
    assert told_with("avx512")["lanes"] == [library.lanes(number) for number in Precision]
