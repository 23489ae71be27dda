import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from elmore.embedding.spool import Spool, Totals
from elmore.embedding.vector_files import EmbeddedSentences, Layout, VectorType, parquet, writer_for
from elmore.embedding.vectors import open_vectors
from elmore.errors import ElmoreError, InputError, InputWarning, NotFound
from elmore.files import atomic_files
from embedded_sentences import numbered, one_by_one

JOB = {"model": "tiny", "layers": ["average", 1]}

KINDS: list[tuple[str, Layout]] = [
    ("v.h5", "default"),
    ("v.npz", "default"),
    ("v.parquet", "default"),
    ("v.hdf5", "allennlp"),
    ("v.hdf5", "allennlp-without-sentences"),
    ("v.hdf5", "allennlp-sentence-keys"),
]
each_kind = pytest.mark.parametrize(("name", "layout"), KINDS)
each_way_to_write = pytest.mark.parametrize(("name", "layout"), KINDS[:4])  # the others differ in the end only

can_be_killed = pytest.mark.skipif(os.name != "posix", reason="there is no kill -9 here")

# For child processes: a job of a hundred sentences, which can be stopped anywhere.
PRELUDE = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from elmore.embedding.spool import Spool
from elmore.embedding.vector_files import VectorType, parquet, writer_for
from embedded_sentences import numbered

parquet.ROW_GROUP_BYTES = 500
folder, target, layout = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
# AllenNLP's layout does not store sentences without words.
numbers = [number for number in range(100) if number % 7]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def open_spool():
    return Spool(folder, {{"job": 1}}, writer_for(target, layout), VectorType(4, 2))
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def open_spool(folder: Path, job: object = None, target: str = "v.npz", **options: object) -> Spool:
    return Spool(folder, job or JOB, writer_for(target), VectorType(4), **options)


def numbers_in(spool: Spool, target: Path) -> list[int]:
    """Finish the file, and read the numbers back."""
    spool.finish(target)
    with open_vectors(target) as vectors:
        return vectors.numbers.tolist()


@each_kind
@pytest.mark.parametrize("layers", [None, 2])
def test_spool_writes_a_file_of_all_sentences_in_order(
    tmp_path: Path, vectors_of, name: str, layout: Layout, layers: int | None
) -> None:
    numbers = [number for number in range(30) if number % 7]
    with Spool(tmp_path / "s", JOB, writer_for(name, layout), VectorType(4, layers)) as spool:
        for batch in (numbered(numbers[:1], layers=layers), numbered(numbers[1:], layers=layers)):
            spool.append(batch)
        assert spool.num_sentences == len(numbers)
        spool.finish(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with open_vectors(tmp_path / name) as vectors:
        assert len(vectors) == len(numbers)
        for number in numbers if "keys" not in layout else []:  # there the order is that of the names
            expected = vectors_of(number, number % 7, layers)
            np.testing.assert_array_equal(vectors[vectors.index_of(number)], expected)


@pytest.mark.parametrize("name", ["v.h5", "v.npz", "v.parquet"])
def test_spool_stores_words_labels_and_sentences_without_words(tmp_path: Path, name: str) -> None:
    batch = EmbeddedSentences(
        [3, 7, 8],
        [["a", "/", "ä"], [], ["nu\0l"]],
        ["größer", "x", None],
        np.zeros((4, 4), np.float32),
        ["00" * 16] * 3,
    )
    with open_spool(tmp_path / "s", target=name) as spool:
        spool.append(batch)
        spool.finish(tmp_path / name)
    with open_vectors(tmp_path / name) as vectors:
        assert [vectors.tokens(i) for i in range(3)] == batch.words
        assert vectors.labels == ["größer", "x", None]
        assert vectors.numbers.tolist() == [3, 7, 8]


def test_spool_is_equal_for_any_batches(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 200)
    for name in ("v.h5", "v.npz", "v.parquet"):
        files = set()
        for batches in ([numbered(range(40))], one_by_one(range(40)), [numbered(range(9)), numbered(range(9, 40))]):
            with open_spool(tmp_path / "s", target=name) as spool:
                for batch in batches:
                    spool.append(batch)
                spool.finish(tmp_path / name)
            files.add((tmp_path / name).read_bytes())
        assert len(files) == 1, name


def test_spool_goes_on_after_it_was_closed(tmp_path: Path) -> None:
    with open_spool(tmp_path / "s") as spool:
        assert spool.num_sentences == 0
        spool.append(numbered([0, 1]))
    with open_spool(tmp_path / "s") as spool:
        assert spool.num_sentences == 2
        spool.append(numbered([2]))
        words = ["wörd1-0", "wörd2-0", "wörd2-1"]
        digest = f"{2:032x}"
        assert spool.totals == Totals(
            sentences=3,
            words=3,
            word_bytes=sum(len(word.encode()) for word in words),
            label_bytes=len("s1s2"),
            last_number=2,
            digest=digest,
        )
        assert numbers_in(spool, tmp_path / "v.npz") == [0, 1, 2]


def test_spool_of_parquet_goes_on_after_the_last_row_group(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 5 * 16)
    with open_spool(tmp_path / "s", target="v.parquet") as spool:
        spool.append(numbered([2, 3, 9, 10, 15]))  # of 2, 3, 2, 3 and 1 words
        assert spool.num_sentences == 5
    with open_spool(tmp_path / "s", target="v.parquet") as spool:
        assert spool.totals == Totals(
            sentences=4,
            words=10,
            word_bytes=7 * len("wörd2-0".encode()) + 3 * len("wörd10-0".encode()),
            label_bytes=len("s2s10"),
            last_number=10,
            digest=f"{10:032x}",
        )


@can_be_killed
@each_way_to_write
def test_spool_killed_between_commits_goes_on_from_the_last(tmp_path: Path, name: str, layout: Layout) -> None:
    arguments = (tmp_path / "s", tmp_path / name, layout)
    child = run(
        """
        spool = open_spool()
        for number in numbers[:60]:
            if number == 40:
                spool.commit()
            spool.append(numbered([number], layers=2))
        die()
        """,
        *arguments,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    child = run("print(open_spool().num_sentences)", *arguments)
    # Before 40 there are 34 sentences; Parquet has them in row groups of at most 15 words.
    assert int(child.stdout) == 34 if "parquet" not in name else 25 < int(child.stdout) <= 34, child.stderr


@can_be_killed
@each_way_to_write
def test_spool_killed_and_resumed_writes_the_same_bytes(tmp_path: Path, name: str, layout: Layout) -> None:
    work = """
        spool = open_spool()
        stop = int(sys.argv[4])
        for number in numbers[spool.num_sentences :]:
            spool.append(numbered([number], layers=2))
            if number % 10 == 0:
                spool.commit()
            if number == stop:
                die()
        spool.finish(target)
        """
    folder, whole, resumed = tmp_path / "s", tmp_path / f"whole-{name}", tmp_path / f"resumed-{name}"
    assert run(work, folder, whole, layout, -1).returncode == 0
    for stop in (1, 33, 99):
        assert run(work, folder, resumed, layout, stop).returncode == -signal.SIGKILL
        assert not resumed.exists()
    child = run(work, folder, resumed, layout, -1)
    assert (child.returncode, child.stderr) == (0, "")
    assert resumed.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([whole.name, resumed.name])


@can_be_killed
@each_way_to_write
@pytest.mark.parametrize("point", ["before the end is written", "when half is written", "before it gets its name"])
def test_spool_killed_while_it_finishes_writes_the_same_bytes(
    tmp_path: Path, name: str, layout: Layout, point: str
) -> None:
    work = """
        import elmore.embedding.spool as module
        from elmore.embedding.vector_files.flat import Column
        spool = open_spool()
        for number in numbers[spool.num_sentences :]:
            spool.append(numbered([number], layers=2))
        spool.commit()
        point = sys.argv[4]
        if point == "before the end is written":
            spool._writer.finish = lambda *_: die()
        if point == "when half is written":
            reads, blocks, slices = 0, Column.blocks, Column.__getitem__
            def deadly(read):
                def reading(*arguments):
                    global reads
                    reads += 1
                    return read(*arguments) if reads < 3 else die()
                return reading
            Column.blocks, Column.__getitem__ = deadly(blocks), deadly(slices)
        if point == "before it gets its name":
            module.replace_file = lambda *_: die()
        spool.finish(target)
        """
    folder, whole, target = tmp_path / "s", tmp_path / f"whole-{name}", tmp_path / name
    assert run(work, folder, whole, layout, "none").returncode == 0
    child = run(work, folder, target, layout, point)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert not target.exists()
    child = run(work, folder, target, layout, "none")
    assert (child.returncode, child.stderr) == (0, "")
    assert target.read_bytes() == whole.read_bytes()
    assert not folder.exists()


def test_spool_cuts_off_what_was_not_committed(tmp_path: Path) -> None:
    with open_spool(tmp_path / "s") as spool:
        spool.append(numbered([0, 1]))
    for name in ("vectors", "offsets", "tokens"):
        with (tmp_path / "s" / name).open("ab") as file:
            file.write(b"torn")
    with open_spool(tmp_path / "s") as spool:
        spool.append(numbered([2]))
        assert numbers_in(spool, tmp_path / "v.npz") == [0, 1, 2]


def test_spool_without_a_sentence_leaves_no_folder(tmp_path: Path) -> None:
    with open_spool(tmp_path / "s"):
        pass
    assert not (tmp_path / "s").exists()


def test_spool_that_is_not_resumable_leaves_no_folder(tmp_path: Path) -> None:
    with open_spool(tmp_path / "s", resumable=False) as spool:
        spool.append(numbered([0, 1]))
        spool.commit()
        assert not (tmp_path / "s" / "spool.json").exists()
    assert not (tmp_path / "s").exists()


def test_spool_rejects_another_job_and_says_what_differs(tmp_path: Path) -> None:
    with open_spool(tmp_path / "s") as spool:
        spool.append(numbered([0]))
    with pytest.raises(InputError, match=r'model was "tiny" and is now "large".*delete the folder') as refusal:
        open_spool(tmp_path / "s", {**JOB, "model": "large"})
    assert "layers" not in str(refusal.value)
    with pytest.raises(InputError, match='"dim": 4'):
        Spool(tmp_path / "s", JOB, writer_for("v.npz"), VectorType(5))
    with pytest.raises(InputError, match="another job"):
        open_spool(tmp_path / "s", {"another": "job"}, resumable=False)
    # The errors released the lock.
    with open_spool(tmp_path / "s", {"layers": ("average", 1), "model": "tiny"}) as spool:
        assert spool.num_sentences == 1


def test_spool_starts_over_if_asked_to(tmp_path: Path) -> None:
    with open_spool(tmp_path / "s") as spool:
        spool.append(numbered([0, 1]))
    with open_spool(tmp_path / "s", {"another": "job"}, fresh=True) as spool:
        assert spool.num_sentences == 0
        spool.append(numbered([5]))
        assert numbers_in(spool, tmp_path / "v.npz") == [5]


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "spool.json").write_text("{"),
        lambda folder: (folder / "spool.json").write_text("[]"),
        lambda folder: (folder / "spool.json").write_text('{"job": {}}'),
        lambda folder: change_state(folder, words=-1),
        lambda folder: change_state(folder, crc32="x"),
        lambda folder: os.truncate(folder / "vectors", 5),
        lambda folder: os.truncate(folder / "token_offsets", 8),
        lambda folder: (folder / "offsets").write_bytes(bytes(8 * 100)),
    ],
)
def test_spool_that_is_damaged_starts_over_with_a_warning(tmp_path: Path, damage) -> None:
    with open_spool(tmp_path / "s") as spool:
        spool.append(numbered([1, 2]))
    damage(tmp_path / "s")
    with pytest.warns(InputWarning, match="damaged; starting over"):
        spool = open_spool(tmp_path / "s")
    with spool:
        assert spool.num_sentences == 0
        spool.append(numbered([1]))
        assert numbers_in(spool, tmp_path / "v.npz") == [1]


def change_state(folder: Path, **changes: object) -> None:
    state = json.loads((folder / "spool.json").read_text())
    state["file"] |= changes
    (folder / "spool.json").write_text(json.dumps(state))


def test_spool_whose_file_has_its_name_already_starts_over(tmp_path: Path) -> None:
    with open_spool(tmp_path / "s") as spool:
        spool.append(numbered([1, 2]))
    (tmp_path / "s" / "vectors").unlink()
    with open_spool(tmp_path / "s", {"another": "job"}) as spool:
        assert spool.num_sentences == 0


def test_spool_rejects_a_second_process(tmp_path: Path) -> None:
    with open_spool(tmp_path / "s"), pytest.raises(InputError, match="another process is working on it"):
        open_spool(tmp_path / "s")


@can_be_killed
def test_spool_is_locked_until_its_folder_is_deleted(tmp_path: Path, monkeypatch) -> None:
    tried = []

    def trying(call):
        def called(path: Path, *arguments: object, **options: object) -> None:
            if tmp_path / "s" in (path, path.parent):
                try:
                    open_spool(tmp_path / "s").close()
                    tried.append("opened")
                except InputError as error:
                    tried.append("rejected" if "another process is working" in str(error) else str(error))
            call(path, *arguments, **options)

        return called

    with open_spool(tmp_path / "s") as spool:
        spool.append(numbered([1]))
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", trying(Path.unlink))
            spool.finish(tmp_path / "v.npz")
    assert len(tried) >= 8  # a file for each column, the vectors' successor in name, the commit and the lock
    assert set(tried) == {"rejected"}


def test_spool_does_not_use_the_lock_of_a_deleted_folder(tmp_path: Path, monkeypatch) -> None:
    folder, others = tmp_path / "s", []
    acquire = FileLock.acquire

    def acquire_then_delete(lock: FileLock, *arguments: object, **options: object) -> None:
        """As if another process deleted the folder after this one opened the lock, and a third one made it anew."""
        acquire(lock, *arguments, **options)
        if not others:
            others.append(None)
            (folder / "lock").unlink()
            folder.rmdir()
            others[0] = open_spool(folder)

    monkeypatch.setattr(FileLock, "acquire", acquire_then_delete)
    with pytest.raises(InputError, match="another process is working on it"):
        open_spool(folder)
    others[0].append(numbered([1]))
    assert numbers_in(others[0], tmp_path / "v.npz") == [1]


def test_spool_rejects_numbers_that_fall_and_shapes_that_do_not_fit(tmp_path: Path) -> None:
    with open_spool(tmp_path / "s") as spool:
        spool.append(numbered([4]))
        with pytest.raises(InputError, match="sentence 4 comes after sentence 4; numbers must rise"):
            spool.append(numbered([4]))
        with pytest.raises(InputError, match="sentence 6 comes after sentence 8"):
            spool.append(numbered([5, 8, 6]))
        with pytest.raises(InputError, match=r"sentences 5 to 6: .* shape \(12, 4\); it must be \(11, 4\)"):
            spool.append(numbered([5, 6])._replace(vectors=np.zeros((12, 4))))
        spool.append(numbered([5]))
        assert numbers_in(spool, tmp_path / "v.npz") == [4, 5]


def test_spool_on_a_full_disk_saves_the_last_commit(tmp_path: Path, monkeypatch) -> None:
    with open_spool(tmp_path / "s") as spool:
        spool.append(numbered([1]))
        spool.commit()

        def full(data: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(spool.columns["tokens"], "write", full)
        with pytest.raises(
            ElmoreError, match="free some space, or write elsewhere; the same command resumes from the last"
        ):
            spool.append(numbered([2]))
        with pytest.raises(InputError, match="is closed"):
            spool.append(numbered([2]))
    with open_spool(tmp_path / "s") as spool:
        assert numbers_in(spool, tmp_path / "v.npz") == [1]


def test_spool_without_a_commit_is_deleted_after_an_error(tmp_path: Path, monkeypatch) -> None:
    with open_spool(tmp_path / "s") as spool:
        monkeypatch.setattr(spool._writer, "append", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            spool.append(numbered([2]))
    assert list(tmp_path.iterdir()) == []


def test_spool_reports_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch) -> None:
    def refused(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(ElmoreError, match=r"s: cannot be written: Permission denied; choose a \w+ .*you may write to$"):
        open_spool(tmp_path / "s")


def test_spool_does_not_use_or_delete_a_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not a folder of Elmore"):
        open_spool(tmp_path / "s")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is not a folder of Elmore"):
        open_spool(tmp_path / "file")


def test_spool_names_a_missing_parent_folder(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist; create it first"):
        open_spool(tmp_path / "nowhere" / "s")


def test_spool_imports_neither_torch_nor_h5py(tmp_path: Path) -> None:
    child = run("open_spool(); print({'torch', 'h5py'} & sys.modules.keys())", tmp_path / "s", "v.h5", "allennlp")
    assert (child.stdout, child.stderr) == ("set()\n", "")


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege elsewhere")
def test_spool_finishes_through_a_link_to_another_disk(tmp_path: Path, monkeypatch) -> None:
    devices = itertools.count()
    stat = Path.stat

    def another_device(path: Path, **options: object) -> os.stat_result:
        found = stat(path, **options)
        return os.stat_result([*found[:2], next(devices), *found[3:]])

    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "v.npz").symlink_to(tmp_path / "elsewhere" / "v.npz")
    with open_spool(tmp_path / "s") as spool:
        spool.append(numbered([1]))
        with monkeypatch.context() as patch:
            original = atomic_files.replace_file

            def replacing(source: Path, path: Path) -> None:
                patch.setattr(Path, "stat", another_device)
                original(source, path)

            patch.setattr("elmore.embedding.spool.replace_file", replacing)
            spool.finish(tmp_path / "v.npz")
    assert (tmp_path / "v.npz").is_symlink()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["v.npz"]
    with open_vectors(tmp_path / "v.npz") as vectors:
        assert vectors.numbers.tolist() == [1]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is counted in other units, if at all")
@each_way_to_write
def test_spool_memory_does_not_grow_with_the_sentences(tmp_path: Path, name: str, layout: Layout) -> None:
    child = run(
        """
        import resource
        import numpy as np
        from elmore.embedding.vector_files import EmbeddedSentences

        def peak():  # MB
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10

        vectors = np.ones((1000, 256), np.float32)
        parquet.ROW_GROUP_BYTES = 2**22

        def embed(batches):
            with Spool(folder, {}, writer_for(target, layout), VectorType(256)) as spool:
                for first in range(0, 100 * batches, 100):
                    some = range(first, first + 100)
                    words = [[f"word{number}-{i}" for i in range(10)] for number in some]
                    labels, digests = [f"label {number}" for number in some], ["00" * 16] * 100
                    spool.append(EmbeddedSentences(some, words, labels, vectors, digests))
                spool.finish(target)

        embed(20)
        before = peak()
        embed(120)  # 120 MB of vectors
        print(peak() - before)
        """,
        tmp_path / "s",
        tmp_path / name,
        layout,
    )
    assert child.returncode == 0, child.stderr
    assert float(child.stdout) < 30
