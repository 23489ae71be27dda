"""The examples run, and show what they promise."""

import re
import subprocess
import sys
from pathlib import Path

from cpu_environment import ON_THE_CPU
from elmore.engine.native_library import Precision, why_unavailable

ROOT = Path(__file__).resolve().parents[1]


def test_the_demo_tells_meanings_apart_and_shows_sameness_and_files() -> None:
    ended = subprocess.run(
        [sys.executable, "examples/demo.py"],
        cwd=ROOT,
        env=ON_THE_CPU,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert ended.stderr == ""
    for word in ("bow", "play", "bank"):
        assert re.search(rf"^{word}, by its letters alone .*\n    {word} ×\d+ 1\.00, ", ended.stdout, re.MULTILINE)
    found = re.findall(r"^    \d\.\d\d  ([=≠]) (\w*)", ended.stdout, re.MULTILINE)
    assert len(found) == 18
    # Not all are right; that is how good the model is, not how good the program.
    assert sum(mark == "=" for mark, _ in found) == 16
    assert "16 of 18 neighbours in context have the sense" in ended.stdout
    if why_unavailable(Precision.FLOAT32) is None:
        assert "bit-identical, as always with the native kernels" in ended.stdout
    else:
        assert float(re.search(r"largest difference (\S+);", ended.stdout)[1]) < 1e-6
        assert "called twice, bit-identical." in ended.stdout
    assert "(3, 13, 512)  # layers, words, size" in ended.stdout
    assert "['The', 'archer', 'drew', 'his', 'bow'," in ended.stdout
