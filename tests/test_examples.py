"""The examples run, and show what they promise."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


# Of each query of the demo, what the uses that it finds first are about.
MEANINGS = {
    "The hunter took his [bow]": r"arrow",
    "The violinist took a [bow]": r"actors|pianist|singer",
    "We saw a [play] at the new theatre": r"wrote|critics|Venice|opened",
    "The girls [play] tennis": r"football|chess|garden",
    "He swam to the other [bank]": r"river|stream|canal|Danube",
    "The [bank] gave them a loan": r"money|interest|bonds|savings",
}


def test_the_demo_tells_meanings_apart_and_shows_sameness_and_files() -> None:
    ended = subprocess.run([sys.executable, "examples/demo.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    for word in ("bow", "play", "bank"):
        place = next(n for n, line in enumerate(lines) if line.startswith(f"{word}, by the word alone (layer 0)"))
        assert re.fullmatch(rf"    1\.00  {word} ×\d+", lines[place + 1])
    for query, meaning in MEANINGS.items():
        place = next(n for n, line in enumerate(lines) if line.strip().startswith(query))
        # One of three may be another meaning; that is how good the model is, not how good the program.
        right = [bool(re.search(meaning, line)) for line in lines[place + 1 : place + 4]]
        assert sum(right) >= 2, lines[place : place + 4]
    assert float(re.search(r"largest difference (\S+);", ended.stdout)[1]) < 1e-6
    assert "equal to the bit." in ended.stdout
    assert "(3, 13, 512)  # layers, words, size" in ended.stdout
    assert "['The', 'archer', 'drew', 'his', 'bow'," in ended.stdout
