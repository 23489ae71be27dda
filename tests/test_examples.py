"""The examples run, and show what they promise."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_demo_shows_layers_sameness_and_files() -> None:
    ended = subprocess.run([sys.executable, "examples/demo.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    words_alone = re.search(r"0  characters only\s+(\S+)\s+(\S+)\s+(\S+)", ended.stdout)
    assert words_alone.groups() == ("1.00", "1.00", "1.00")
    top = re.search(r"2  second LSTM layer\s+(\S+)\s+(\S+)\s+(\S+)", ended.stdout)
    assert all(float(cosine) < 1 for cosine in top.groups())
    assert float(re.search(r"largest difference (\S+);", ended.stdout)[1]) < 1e-6
    assert "equal to the bit." in ended.stdout
    assert "(3, 8, 32)  # layers, words, size" in ended.stdout
    assert "['He', 'was', 'wielding', 'a', 'bow', 'and', 'arrow', '.']" in ended.stdout
