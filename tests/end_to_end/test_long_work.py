"""Long work: killed without warning it goes on where it was, and its memory does not grow with the text."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest

from elmore import open_vectors
from elmore.engine.native_library import Precision, why_unavailable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="looks at processes the POSIX way")

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PATH": "",
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
}


def elmore(*arguments: object, **options: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "elmore", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, **options)


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


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".parquet"])
def test_embed_killed_and_resumed_writes_the_same_file(tmp_path: Path, suffix: str) -> None:
    text, whole, target = tmp_path / "text.txt", tmp_path / f"whole{suffix}", tmp_path / f"vectors{suffix}"
    # A Parquet file commits whole row groups, so its job must be longer.
    sentences = 100_000 if suffix == ".parquet" else 20_000
    write_text(text, sentences)
    arguments = ("--tokenized", "-m", "tiny-random")
    killed = elmore("embed", text, "-o", target, *arguments, "--batch-tokens", "16")
    deadline = monotonic() + 60
    while not committed(target) and monotonic() < deadline:
        sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait(timeout=60) == -signal.SIGKILL
    killed.stderr.close()
    done = committed(target)
    assert 0 < done < sentences
    assert not target.exists()

    resumed = elmore("embed", text, "-o", target, *arguments)
    said = resumed.communicate(timeout=300)[1]
    assert resumed.returncode == 0
    assert f"wrote {target}: {sentences:,} sentences ({done:,} of them by an earlier try)" in said
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["text.txt", target.name]

    assert elmore("embed", text, "-o", whole, *arguments, "-q").communicate(timeout=300)[1] == ""
    if why_unavailable(Precision.FLOAT32) is None:
        assert target.read_bytes() == whole.read_bytes()
    with open_vectors(target) as ours, open_vectors(whole) as expected:
        assert len(ours) == len(expected) == sentences
        for number in range(0, sentences, 997):
            assert ours.tokens(number) == expected.words(number)
            np.testing.assert_allclose(ours[number], expected[number], atol=1e-6, rtol=0)


def test_embed_stopped_by_ctrl_c_commits_and_resumes(tmp_path: Path) -> None:
    text, target = tmp_path / "text.txt", tmp_path / "vectors.h5"
    write_text(text, 20_000)
    arguments = ("embed", text, "-o", target, "--tokenized", "-m", "tiny-random")
    stopped = elmore(*arguments, "--batch-tokens", "16")
    deadline = monotonic() + 60
    while not committed(target) and monotonic() < deadline:
        sleep(0.05)
    before = committed(target)
    stopped.send_signal(signal.SIGINT)
    assert stopped.communicate(timeout=60)[1] == "stopped; the same command resumes the work\n"
    assert stopped.returncode == 130
    done = committed(target)
    assert 0 < before <= done < 20_000
    assert not target.exists()
    said = elmore(*arguments).communicate(timeout=300)[1]
    assert f"20,000 sentences ({done:,} of them by an earlier try)" in said


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
        env=ENVIRONMENT,
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
