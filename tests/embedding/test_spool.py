import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from elmore.embedding import spool as spool_module
from elmore.embedding.sinks import sink_for
from elmore.embedding.spool import EmbeddedSentence, Spool, Totals
from elmore.errors import ElmoreError, InputError, InputWarning, NotFound

JOB = {"model": "tiny", "layers": ["average", 1]}

can_be_killed = pytest.mark.skipif(os.name != "posix", reason="there is no kill -9 here")

# What a child process may use: a job of a hundred sentences, from any of them on, and death.
PRELUDE = """
import os, signal, sys
from pathlib import Path
import numpy as np
from elmore.embedding.sinks import sink_for
from elmore.embedding.spool import EmbeddedSentence, Spool

def sentence(number):
    words = [f"word{number}-{place}" for place in range(number % 7)]
    vectors = np.random.default_rng(number).standard_normal((2, len(words), 8)).astype(np.float32)
    return EmbeddedSentence(number, words, f"s{number}", vectors)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def open_spool(folder):
    return Spool(Path(folder), {"job": 1}, dim=8, layers=2)
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def sentence(number: int, words: int = 2) -> EmbeddedSentence:
    return EmbeddedSentence(number, [f"w{i}" for i in range(words)], None, np.full((words, 4), number, np.float32))


def numbers_in(spool: Spool) -> list[int]:
    return [each.number for each in spool]


def test_what_was_appended_is_read_back_in_order(tmp_path: Path) -> None:
    with Spool(tmp_path / "s", JOB, dim=4, layers=2) as spool:
        vectors = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        spool.append(EmbeddedSentence(3, ["a", "/", "ä"], "größer", vectors))
        spool.append(EmbeddedSentence(7, [], None, np.zeros((2, 0, 4), np.float32)))
        first, second = spool
    assert (first.number, first.words, first.label) == (3, ["a", "/", "ä"], "größer")
    np.testing.assert_array_equal(first.vectors, vectors)
    assert (second.number, second.words, second.label, second.vectors.shape) == (7, [], None, (2, 0, 4))


def test_reading_crosses_the_pieces_it_is_done_in(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(spool_module, "SENTENCES_AT_ONCE", 4)
    with Spool(tmp_path / "s", JOB, dim=4) as spool:
        for number in range(11):
            spool.append(sentence(number, words=number % 3))
        assert [(s.number, len(s.words), s.vectors.shape) for s in spool] == [(n, n % 3, (n % 3, 4)) for n in range(11)]


def test_a_job_goes_on_where_it_was_closed(tmp_path: Path) -> None:
    with Spool(tmp_path / "s", JOB, dim=4) as spool:
        assert spool.done == 0
        spool.append(sentence(0))
        spool.append(sentence(1))
    with Spool(tmp_path / "s", JOB, dim=4) as spool:
        assert spool.done == 2
        spool.append(sentence(2))
        assert numbers_in(spool) == [0, 1, 2]
        assert spool.totals == Totals(sentences=3, words=6, word_bytes=12, label_bytes=0, last_number=2)


@can_be_killed
def test_a_job_killed_between_commits_goes_on_from_the_last(tmp_path: Path) -> None:
    child = run(
        """
        spool = open_spool(sys.argv[1])
        for number in range(60):
            if number == 40:
                spool.commit()
            spool.append(sentence(number))
        die()
        """,
        tmp_path / "s",
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    with Spool(tmp_path / "s", {"job": 1}, dim=8, layers=2) as spool:
        assert spool.done == 40
        assert numbers_in(spool) == list(range(40))


@can_be_killed
@pytest.mark.parametrize("suffix", [".h5", ".npz", ".parquet"])
def test_a_killed_and_resumed_job_writes_the_same_bytes_as_one_that_ran_through(tmp_path: Path, suffix: str) -> None:
    work = """
        spool = open_spool(sys.argv[1])
        for number in range(spool.done, 100):
            spool.append(sentence(number))
            if number % 10 == 0:
                spool.commit()
            if number == int(sys.argv[3]):
                die()
        sink_for(sys.argv[2]).write(spool, Path(sys.argv[2]))
        spool.remove()
        """
    whole, resumed = tmp_path / f"whole{suffix}", tmp_path / f"resumed{suffix}"
    assert run(work, tmp_path / "s", whole, -1).returncode == 0
    for stop in (0, 33, 99):
        assert run(work, tmp_path / "s", resumed, stop).returncode == -signal.SIGKILL
        assert not resumed.exists()
    child = run(work, tmp_path / "s", resumed, -1)
    assert child.returncode == 0, child.stderr
    assert resumed.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([whole.name, resumed.name])


@can_be_killed
@pytest.mark.parametrize("suffix", [".h5", ".npz", ".parquet"])
def test_a_job_killed_while_it_writes_the_file_leaves_none_and_can_be_repeated(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"vectors{suffix}"
    child = run(
        """
        import elmore.embedding.columns as columns
        columns.BLOCK_BYTES = 1000
        spool = open_spool(sys.argv[1])
        for number in range(100):
            spool.append(sentence(number))
        spool.commit()
        column, span, reads = spool.columns["vectors"], spool.columns["vectors"].span, 0
        def deadly(start, stop):
            global reads
            reads += 1
            return span(start, stop) if reads < 15 else die()
        column.span = deadly
        sink_for(sys.argv[2]).write(spool, Path(sys.argv[2]))
        """,
        tmp_path / "s",
        target,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert not target.exists()
    with Spool(tmp_path / "s", {"job": 1}, dim=8, layers=2) as spool:
        assert spool.done == 100
        sink_for(target).write(spool, target)
        spool.remove()
    assert target.exists()
    assert not (tmp_path / "s").exists()


def test_half_an_append_is_cut_off(tmp_path: Path) -> None:
    with Spool(tmp_path / "s", JOB, dim=4) as spool:
        spool.append(sentence(0))
    for name in ("vectors", "offsets", "tokens"):
        with (tmp_path / "s" / name).open("ab") as file:
            file.write(b"torn")
    with Spool(tmp_path / "s", JOB, dim=4) as spool:
        spool.append(sentence(1))
        assert numbers_in(spool) == [0, 1]


def test_what_a_job_left_without_a_sentence_is_in_nobodys_way(tmp_path: Path) -> None:
    with Spool(tmp_path / "s", JOB, dim=4):
        pass
    with Spool(tmp_path / "s", {"another": "job"}, dim=5) as spool:
        assert spool.done == 0


def test_another_job_is_refused_and_told_what_differs(tmp_path: Path) -> None:
    with Spool(tmp_path / "s", JOB, dim=4) as spool:
        spool.append(sentence(0))
    with pytest.raises(InputError, match=r'model was "tiny" and is now "large".*delete the folder') as refusal:
        Spool(tmp_path / "s", {**JOB, "model": "large"}, dim=4)
    assert "layers" not in str(refusal.value)
    with pytest.raises(InputError, match='"dim": 4'):
        Spool(tmp_path / "s", JOB, dim=5)
    # The refusals let go of the lock.
    with Spool(tmp_path / "s", {"layers": ("average", 1), "model": "tiny"}, dim=4):
        pass


def test_a_fresh_start_forgets_the_other_job(tmp_path: Path) -> None:
    with Spool(tmp_path / "s", JOB, dim=4) as spool:
        spool.append(sentence(0))
    with Spool(tmp_path / "s", {"another": "job"}, dim=4, fresh=True) as spool:
        assert spool.done == 0
        spool.append(sentence(5))
        assert numbers_in(spool) == [5]


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "spool.json").write_text("{"),
        lambda folder: (folder / "spool.json").write_text("[]"),
        lambda folder: (folder / "spool.json").write_text('{"job": {}}'),
        lambda folder: (folder / "vectors").unlink(),
        lambda folder: os.truncate(folder / "vectors", 5),
        lambda folder: os.truncate(folder / "token_offsets", 8),
        lambda folder: (folder / "offsets").write_bytes(bytes(8 * 100)),
    ],
)
def test_a_damaged_spool_is_started_over_with_a_word(tmp_path: Path, damage) -> None:
    with Spool(tmp_path / "s", JOB, dim=4) as spool:
        spool.append(sentence(0))
        spool.append(sentence(1))
    damage(tmp_path / "s")
    with pytest.warns(InputWarning, match="damaged; starting over"):
        spool = Spool(tmp_path / "s", JOB, dim=4)
    with spool:
        assert spool.done == 0
        spool.append(sentence(0))
        assert numbers_in(spool) == [0]


def test_two_processes_cannot_work_on_one_spool(tmp_path: Path) -> None:
    with Spool(tmp_path / "s", JOB, dim=4), pytest.raises(InputError, match="another process is at work"):
        Spool(tmp_path / "s", JOB, dim=4)


def test_numbers_must_rise_and_shapes_must_fit(tmp_path: Path) -> None:
    with Spool(tmp_path / "s", JOB, dim=4) as spool:
        spool.append(sentence(4))
        with pytest.raises(InputError, match="numbers must rise"):
            spool.append(sentence(4))
        with pytest.raises(InputError, match=r"shape \(3, 4\); it must be \(2, 4\)"):
            spool.append(EmbeddedSentence(5, ["a", "b"], None, np.zeros((3, 4))))
        spool.append(sentence(5))
        assert numbers_in(spool) == [4, 5]


def test_a_disk_that_is_full_is_said_so_and_the_last_commit_stands(tmp_path: Path, monkeypatch) -> None:
    with Spool(tmp_path / "s", JOB, dim=4) as spool:
        spool.append(sentence(0))
        spool.commit()

        def full(data: bytes) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(spool.columns["tokens"], "write", full)
        with pytest.raises(ElmoreError, match="free some space, or write elsewhere; what is done is kept, and the"):
            spool.append(sentence(1))
    with Spool(tmp_path / "s", JOB, dim=4) as spool:
        assert numbers_in(spool) == [0]


def test_a_folder_that_cannot_be_made_is_said_so_and_nothing_else(tmp_path: Path, monkeypatch) -> None:
    def refused(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(ElmoreError, match=r"s: cannot be written: Permission denied; choose a place you may write to$"):
        Spool(tmp_path / "s", JOB, dim=4)


def test_nobody_elses_folder_is_used_or_removed(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is in the way"):
        Spool(tmp_path / "s", JOB, dim=4)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is in the way"):
        Spool(tmp_path / "file", JOB, dim=4)


def test_a_missing_parent_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist; make it first"):
        Spool(tmp_path / "nowhere" / "s", JOB, dim=4)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is counted in other units, if at all")
def test_memory_does_not_grow_with_the_number_of_sentences(tmp_path: Path) -> None:
    child = run(
        """
        import resource

        def peak():  # MB
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10

        vectors, words = np.ones((10, 256), np.float32), [f"word{i}" for i in range(10)]
        spool = Spool(Path(sys.argv[1]) / "s", {}, dim=256)
        targets = [Path(sys.argv[1]) / f"vectors{suffix}" for suffix in (".h5", ".npz", ".parquet")]

        def embed(start, stop):
            for number in range(start, stop):
                spool.append(EmbeddedSentence(number, words, f"label {number}", vectors))
            for target in targets:
                sink_for(target).write(spool, target)

        embed(0, 2_000)
        before = peak()
        embed(2_000, 12_000)  # 100 MB of vectors
        print(peak() - before)
        """,
        tmp_path,
    )
    assert child.returncode == 0, child.stderr
    assert float(child.stdout) < 30
