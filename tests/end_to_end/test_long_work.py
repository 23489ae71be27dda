"""Long work: killed without warning it goes on where it was, and its memory does not grow with the text."""

import re
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest

from elmore import open_vectors

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="looks at processes the POSIX way")


def elmore(*arguments: object, **options: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "elmore", *map(str, arguments)]
    environment = {"OMP_NUM_THREADS": "1", "PATH": "", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, **options)


def write_text(path: Path, sentences: int) -> None:
    """Lines of one to ten words, out of some thousands of distinct ones."""
    random = np.random.RandomState(sentences)
    with path.open("w") as file:
        for length in random.randint(1, 11, size=sentences):
            file.write(" ".join(f"Word{n}" for n in random.randint(0, 5000, size=length)) + "\n")


def committed(target: Path) -> int:
    """How many sentences a running job has put on disk."""
    state = target.with_name(f"{target.name}.partial") / "spool.json"
    found = re.search(r'"sentences": (\d+)', state.read_text()) if state.exists() else None
    return int(found[1]) if found else 0


def test_a_killed_job_goes_on_where_it_was_and_gives_the_same_file(tmp_path: Path) -> None:
    text, whole, target = (tmp_path / name for name in ("text.txt", "whole.npz", "vectors.npz"))
    write_text(text, 60_000)
    arguments = ("--tokenized", "-m", "tiny-random")
    killed = elmore("embed", text, "-o", target, *arguments, "--batch-tokens", "16")
    deadline = monotonic() + 60
    while not committed(target) and monotonic() < deadline:
        sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait(timeout=60) == -signal.SIGKILL
    killed.stderr.close()
    done = committed(target)
    assert 0 < done < 60_000
    assert not target.exists()

    resumed = elmore("embed", text, "-o", target, *arguments)
    said = resumed.communicate(timeout=300)[1]
    assert resumed.returncode == 0
    assert f"wrote {target}: 60,000 sentences ({done:,} of them by an earlier try)" in said
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["text.txt", "vectors.npz"]

    assert elmore("embed", text, "-o", whole, *arguments, "-q").communicate(timeout=300)[1] == ""
    with open_vectors(target) as ours, open_vectors(whole) as expected:
        assert len(ours) == len(expected) == 60_000
        for number in range(0, 60_000, 997):
            assert ours.words(number) == expected.words(number)
            np.testing.assert_allclose(ours[number], expected[number], atol=1e-6, rtol=0)


def peak_megabytes(text: Path, target: Path) -> float:
    """The most memory that embedding a file took, measured in a process of its own."""
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'elmore', *sys.argv[1:]], check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    arguments = ("embed", text, "-o", target, "--tokenized", "--layers", "all", "-m", "tiny-random", "-q")
    ended = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        env={"OMP_NUM_THREADS": "1", "PATH": "", "CUDA_VISIBLE_DEVICES": ""},
        timeout=120,
    )
    # Kilobytes on Linux, bytes on a Mac.
    return int(ended.stdout) / (2**20 if sys.platform == "darwin" else 2**10)


def assert_flat(tmp_path: Path, *, sentences: int, suffix: str) -> None:
    """Ten times the sentences add less than a third of their vectors, which take some 2 kB a sentence."""
    tenth, whole = tmp_path / "tenth.txt", tmp_path / "whole.txt"
    write_text(tenth, sentences // 10)
    write_text(whole, sentences)
    less, more = (peak_megabytes(path, path.with_suffix(suffix)) for path in (tenth, whole))
    assert more < less + sentences * 0.7e-3, f"{less:.0f} MB for a tenth, {more:.0f} MB for the whole"


def test_ten_times_the_text_takes_no_more_memory(tmp_path: Path) -> None:
    assert_flat(tmp_path, sentences=60_000, suffix=".npz")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".npz", ".h5", ".parquet"])
def test_hundreds_of_thousands_of_sentences_take_no_more_memory(tmp_path: Path, suffix: str) -> None:
    assert_flat(tmp_path, sentences=200_000, suffix=suffix)
