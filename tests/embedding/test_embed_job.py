"""An `EmbedJob`: its checks, its description, its errors, and the files that it leaves."""

import io
import itertools
import os
from dataclasses import fields, replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from elmore import Embedder, Model, load, open_vectors
from elmore.embedding import embed_file as jobs
from elmore.embedding.embed_file import EmbedJob, EmbedSummary, work_folder
from elmore.embedding.spool import Spool
from elmore.embedding.vector_files import EmbeddedSentences
from elmore.embedding.vector_files import numpy as numpy_file
from elmore.embedding.warm_start import compute_warm_start
from elmore.errors import ElmoreError, InputError, NotFound
from elmore.progress import Progress, progress_bar


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"Sentence {n} has words .\n" for n in range(300)))
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "vectors.npz"


def run(job: EmbedJob, embedder: Embedder, target: Path) -> EmbedSummary:
    with progress_bar("embedding", show=False) as progress:
        return job.run(embedder, target, progress=progress)


def stop_at(monkeypatch, number: int, error: type[BaseException]) -> None:
    """Raise an error when the sentence of this number is read."""
    read = jobs.read_sentences

    def stopping(*arguments, **options):
        for found in read(*arguments, **options):
            if found[0] == number:
                raise error
            yield found

    monkeypatch.setattr(jobs, "read_sentences", stopping)


def leave_half_done(job: EmbedJob, embedder: Embedder, target: Path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        stop_at(patch, 250, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            run(job, embedder, target)


def test_embed_job_progress_counts_sentences_of_an_earlier_process_first(text, target, tiny, monkeypatch) -> None:
    job = EmbedJob(sources=(str(text),), split=False, batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    steps: list[tuple[int, int]] = []

    class Counting(Progress):
        def advance(self, sentences: int, tokens: int) -> None:
            steps.append((sentences, tokens))

    summary = job.run(tiny, target, progress=Counting())
    assert 0 < summary.resumed_after < 300
    assert steps[0] == (summary.resumed_after, 0)
    assert sum(sentences for sentences, _ in steps) == 300
    assert all(tokens == 5 * sentences for sentences, tokens in steps[1:])


def test_embed_job_tokenizes_no_sentence_of_an_earlier_process(text, target, tiny, monkeypatch) -> None:
    job = EmbedJob(sources=(str(text),), split=False, batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    seen = []
    read = jobs.read_sentences
    monkeypatch.setattr(jobs, "read_sentences", lambda *a, **k: seen.append(k["after"].sentences) or read(*a, **k))
    resumed_after = run(job, tiny, target).resumed_after
    assert resumed_after > 0
    assert seen == [resumed_after]


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError, MemoryError])
def test_embed_job_without_a_sentence_leaves_no_file(text, target, tiny, monkeypatch, error) -> None:
    stop_at(monkeypatch, 0, error)
    with pytest.raises(error):
        run(EmbedJob(sources=(str(text),)), tiny, target)
    assert [path.name for path in text.parent.iterdir()] == ["text.txt"]


def test_embed_job_saves_the_vectors_if_the_end_of_the_file_fails(text, target, tiny, monkeypatch) -> None:
    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    job = EmbedJob(sources=(str(text),), split=False)
    with monkeypatch.context() as patch:
        patch.setattr(numpy_file.Writer, "finish", failing)
        with pytest.raises(
            ElmoreError, match=r"vectors.npz.partial: cannot be written: No space .* from its last commit"
        ):
            run(job, tiny, target)
    assert not target.exists()
    assert run(job, tiny, target) == EmbedSummary(sentences=300, words=1500, resumed_after=300)


@pytest.mark.parametrize("call", [1, 3])
def test_embed_job_raises_the_error_of_the_writer_thread(text, target, tiny, monkeypatch, call: int) -> None:
    calls = itertools.count(1)
    append = numpy_file.Writer.append

    def failing(writer: numpy_file.Writer, batch: EmbeddedSentences) -> None:
        if next(calls) == call:
            raise PermissionError(13, "Permission denied")
        append(writer, batch)

    monkeypatch.setattr(numpy_file.Writer, "append", failing)
    with pytest.raises(ElmoreError, match=r"vectors.npz.partial: cannot be written: Permission denied"):
        run(EmbedJob(sources=(str(text),), split=False, batch_tokens=1), tiny, target)
    assert [path.name for path in text.parent.iterdir()] == ["text.txt"]


def test_embed_job_computes_while_it_writes(text, target, tiny, monkeypatch) -> None:
    written, gate = [], Event()
    append = numpy_file.Writer.append

    def waiting(writer: numpy_file.Writer, batch: EmbeddedSentences) -> None:
        assert gate.wait(60)
        written.append(batch)
        append(writer, batch)

    class Opening(Progress):
        """Lets the writer go on when two batches are computed."""

        def __init__(self) -> None:
            self.batches = 0

        def advance(self, sentences: int, tokens: int) -> None:
            self.batches += sentences > 0
            if self.batches == 2:
                assert written == []
                gate.set()

    monkeypatch.setattr(numpy_file.Writer, "append", waiting)
    EmbedJob(sources=(str(text),), split=False, batch_tokens=1).run(tiny, target, progress=Opening())
    assert sum(len(batch.words) for batch in written) == 300


def test_embed_job_resumes_with_another_folder_and_errors_option(text, target, tiny, monkeypatch) -> None:
    job = EmbedJob(sources=(str(text),), split=False, batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    monkeypatch.chdir(text.parent)
    assert run(replace(job, sources=("text.txt",), errors="replace", batch_tokens=2048), tiny, target).resumed_after > 0


def test_embed_job_with_carried_state_rejects_the_work_of_another_job(text, target, tiny, monkeypatch) -> None:
    resumable = EmbedJob(sources=(str(text),), split=False, batch_tokens=1)
    leave_half_done(resumable, tiny, target, monkeypatch)
    carrying = replace(resumable, state="carry", batch_size=7)
    with pytest.raises(InputError, match="carried_rows was null and is now 7"):
        run(carrying, tiny, target)
    assert work_folder(target).exists()
    assert run(replace(carrying, fresh=True), tiny, target).resumed_after == 0
    words = [line.split() for line in text.read_text().splitlines()]
    expected = tiny.encode(words, state="carry", batch_size=7)
    with open_vectors(target) as vectors:
        np.testing.assert_array_equal(np.concatenate(vectors[:]), np.concatenate(expected))


def test_embed_job_with_carried_state_starts_over_after_a_kill(text, target, tiny) -> None:
    job = EmbedJob(sources=(str(text),), split=False, state="carry")
    spool = job._spool(tiny, target)
    spool.append(EmbeddedSentences([0], [["a"]], [None], np.zeros((1, tiny.dim), np.float32), ["00" * 16]))
    # As the system does when a process is killed.
    spool._close_files()
    spool._lock.release()
    assert work_folder(target).exists()
    assert run(job, tiny, target) == EmbedSummary(sentences=300, words=1500, resumed_after=0)


def test_embed_job_rejects_a_blank_line_that_the_layout_cannot_store(text, tmp_path, tiny) -> None:
    target = tmp_path / "vectors.h5"
    text.write_text("One .\n\nTwo .\n")
    with pytest.raises(InputError, match=r"text\.txt, line 2: a blank line"):
        run(EmbedJob(sources=(str(text),), input_format="tokenized", layout="allennlp"), tiny, target)
    assert not work_folder(target).exists()


@pytest.mark.parametrize(
    ("changes", "where", "error", "complaint"),
    [
        ({"sources": ("none.txt",)}, "v.npz", NotFound, "none.txt: no such file"),
        ({"sources": (".",)}, "v.npz", InputError, "is a folder; name a file"),
        ({}, "none/v.npz", NotFound, "the folder none does not exist"),
        ({}, "folder.npz", InputError, "folder.npz: is a folder; name a file to write"),
        ({"state": "carry", "shard": (1, 2)}, "v.npz", InputError, "a carried state needs every sentence before it"),
        ({"shard": "1/2"}, "v.npz", InputError, r"shard is '1/2'; it must be \[a whole number, a whole number\]"),
        ({"shard": (3, 2)}, "v.npz", InputError, "there is no part 3/2"),
        ({"tokenizer": "spacy"}, "v.npz", InputError, "tokenizer is 'spacy'; it must be one of moses, whitespace"),
        ({"errors": "ignore"}, "v.npz", InputError, "errors is 'ignore'; it must be strict or replace"),
        ({"layout": "elmo"}, "v.h5", InputError, "layout is 'elmo'; it must be one of default, allennlp"),
        ({"input_format": "word"}, "v.npz", InputError, "input_format is 'word'; it must be one of text, tokenized"),
        ({"paragraphs": "page"}, "v.npz", InputError, "paragraphs is 'page'; it must be line or blank-line"),
        ({"compute": "int4"}, "v.npz", InputError, "compute is 'int4'; it must be one of float32, tf32, bfloat16"),
        ({"layout": "allennlp"}, "v.npz", InputError, r"v\.npz: the layout of AllenNLP is one of HDF5 files"),
        ({"token_style": "penn"}, "v.npz", InputError, r"text\.txt: is read as text, and a token style is for"),
        ({"sources": ("p.fasta",), "token_style": "penn"}, "v.npz", InputError, r"p\.fasta: is read as fasta, and a"),
    ],
)
def test_embed_job_check_rejects_what_cannot_work(text, monkeypatch, changes, where, error, complaint) -> None:
    monkeypatch.chdir(text.parent)
    Path("folder.npz").mkdir()
    Path("p.fasta").write_text(">P\nMK\n")
    with pytest.raises(error, match=complaint):
        replace(EmbedJob(sources=("text.txt",)), **changes).check(Path(where))


# Every option of a job: what it is changed to and what is then said to differ, or nothing where vectors stay the same.
OPTIONS = {
    "layers": ("top", "layers"),
    "dtype": ("float16", "vectors"),
    "state": ("carry", "carried_rows"),
    "input_format": ("text", "input_format"),
    "split": (False, "split"),
    "paragraphs": ("blank-line", "paragraphs"),
    "language": ("de", "text"),
    "tokenizer": ("whitespace", "text"),
    "token_style": ("penn", "token_style"),
    "shard": ((1, 2), "shard"),
    "batch_tokens": (64, None),
    "batch_size": (3, None),
    "errors": ("replace", None),
    "force": (True, None),
}


def test_embed_job_options_are_all_tested() -> None:
    # Other tests cover the rest.
    others = {"sources", "layout", "fresh", "compute", "device"}
    assert {field.name for field in fields(EmbedJob)} - OPTIONS.keys() == others


@pytest.mark.parametrize("option", OPTIONS)
def test_embed_job_resumes_only_with_options_that_keep_the_vectors(text, target, tiny, monkeypatch, option) -> None:
    value, differs = OPTIONS[option]
    job = EmbedJob(sources=(str(text),), input_format="tokenized", batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    changed = replace(job, **{option: value})
    if differs is None:
        assert run(changed, tiny, target).resumed_after > 0
    else:
        with pytest.raises(InputError, match=rf"unfinished work of another job \({differs} was"):
            run(changed, tiny, target)


def test_embed_job_with_another_start_state_is_not_resumed(text, target, tiny, monkeypatch) -> None:
    job = EmbedJob(sources=(str(text),), input_format="tokenized", batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    warm = Embedder(compute_warm_start(tiny.model, [["I", "took", "a", "bow"]], text_name="warm.txt"))
    with pytest.raises(InputError, match=r"start_state was \"zeros\" and is now"):
        run(job, warm, target)


def test_embed_job_with_another_compute_is_not_resumed(text, target, tiny, monkeypatch) -> None:
    job = EmbedJob(sources=(str(text),), split=False, batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    rougher = Embedder.from_pretrained("tiny-random", compute="bfloat16")
    with pytest.raises(InputError, match=r'compute was "float32" and is now "bfloat16"'):
        run(job, rougher, target)


def test_embed_job_with_another_layout_is_not_resumed(text, tiny, monkeypatch) -> None:
    target = text.with_name("v.h5")
    job = EmbedJob(sources=(str(text),), split=False, batch_tokens=1, layout="allennlp")
    leave_half_done(job, tiny, target, monkeypatch)
    with pytest.raises(InputError, match=r'layout was "allennlp" and is now "default"'):
        run(replace(job, layout="default"), tiny, target)
    # The variants of that layout differ only at the end.
    assert run(replace(job, layout="allennlp-without-sentences"), tiny, target).resumed_after > 0


@pytest.mark.parametrize("changed", ["Sentence 7", "Sentence 240"])
def test_embed_job_notices_an_edited_input_of_equal_size_and_date(text, target, tiny, monkeypatch, changed) -> None:
    job = EmbedJob(sources=(str(text),), split=False, batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    dates = text.stat()
    text.write_text(text.read_text().replace(f"{changed} ", f"{changed.replace('S', 's')} "))
    os.utime(text, ns=(dates.st_atime_ns, dates.st_mtime_ns))
    with pytest.raises(InputError, match=r"text\.txt: has changed since its first \d+ sentences were read"):
        run(job, tiny, target)
    assert run(replace(job, fresh=True), tiny, target) == EmbedSummary(sentences=300, words=1500, resumed_after=0)


def test_embed_job_notices_other_weights_of_the_same_name(text, target, monkeypatch) -> None:
    job = EmbedJob(sources=(str(text),), split=False, batch_tokens=1)
    leave_half_done(job, Embedder.from_pretrained("tiny-random"), target, monkeypatch)
    checkpoint = load("tiny-random").checkpoint
    weight = checkpoint.tensors["words.projection.weight"].copy()
    weight[0, 0] += 1e-3
    tensors = {**checkpoint.tensors, "words.projection.weight": weight}
    other = Embedder(Model(replace(checkpoint, tensors=tensors)), device="cpu")
    with pytest.raises(InputError, match=r"model_sha256 was .* and is now"):
        run(job, other, target)


@pytest.fixture
def pipe(text, monkeypatch):
    """Puts a text into standard input."""

    def fill(content: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))

    return fill


def test_embed_job_from_a_pipe_resumes_with_the_same_input(text, target, tiny, monkeypatch, pipe) -> None:
    job = EmbedJob(sources=("-",), split=False, batch_tokens=1)
    pipe(text.read_text())
    leave_half_done(job, tiny, target, monkeypatch)
    pipe(text.read_text())
    summary = run(job, tiny, target)
    assert 0 < summary.resumed_after < 300
    assert summary.sentences == 300
    run(EmbedJob(sources=(str(text),), split=False, batch_tokens=1), tiny, target.with_name("whole.npz"))
    with open_vectors(target) as ours, open_vectors(target.with_name("whole.npz")) as whole:
        np.testing.assert_allclose(np.concatenate(ours[:]), np.concatenate(whole[:]), atol=1e-6)


@pytest.mark.parametrize("change", [lambda content: content.replace("Sentence 7 ", "Sentence 8 "), lambda _: "short\n"])
def test_embed_job_rejects_another_input_from_a_pipe(text, target, tiny, monkeypatch, pipe, change) -> None:
    job = EmbedJob(sources=("-",), split=False, batch_tokens=1)
    pipe(text.read_text())
    leave_half_done(job, tiny, target, monkeypatch)
    pipe(change(text.read_text()))
    with pytest.raises(InputError, match=r"standard input: has changed since its first \d+ sentences were read"):
        run(job, tiny, target)
    assert work_folder(target).exists()


def test_embed_job_commits_first_after_a_second_and_then_every_ten(text, target, tiny, monkeypatch) -> None:
    seconds = itertools.count(step=0.6)  # at each call of the clock
    monkeypatch.setattr(jobs, "monotonic", lambda: next(seconds))
    committed: list[int] = []
    commit = Spool.commit

    def noting(spool: Spool) -> None:
        committed.append(spool.num_sentences)
        commit(spool)

    monkeypatch.setattr(Spool, "commit", noting)
    run(EmbedJob(sources=(str(text),), split=False, batch_tokens=7), tiny, target)
    # A sentence is 7 positions, so groups have 1, 4 and then 16 sentences. The clock is read after each group and after
    # each commit: the second group ends after 1.2 seconds, and 17 groups after a commit 10.2 seconds have passed.
    assert committed == [1 + 4, 1 + 4 + 17 * 16, 300]
