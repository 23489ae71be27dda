"""A job: what is checked before it starts, what makes it the same job, and what it leaves behind."""

import io
import itertools
import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from elmore import Embedder, open_vectors
from elmore.embedding import job as jobs
from elmore.embedding.job import EmbedJob, EmbedSummary, work_folder
from elmore.embedding.spool import EmbeddedSentence, Spool
from elmore.embedding.warm_start import with_warm_start
from elmore.errors import InputError, NotFound
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


def test_progress_counts_sentences_and_words_those_of_an_earlier_try_first(text, target, tiny, monkeypatch) -> None:
    job = EmbedJob(sources=(str(text),), split=False, batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    steps: list[tuple[int, int]] = []

    class Counting(Progress):
        def advance(self, sentences: int, tokens: int) -> None:
            steps.append((sentences, tokens))

    summary = job.run(tiny, target, progress=Counting())
    assert 0 < summary.resumed_after < 300
    assert steps == [(summary.resumed_after, 0)] + [(1, 5)] * (300 - summary.resumed_after)


def test_sentences_of_an_earlier_try_are_not_tokenised_again(text, target, tiny, monkeypatch) -> None:
    job = EmbedJob(sources=(str(text),), split=False, batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    seen = []
    read = jobs.read_sentences
    monkeypatch.setattr(jobs, "read_sentences", lambda *a, **k: seen.append(k["after"].sentences) or read(*a, **k))
    resumed_after = run(job, tiny, target).resumed_after
    assert resumed_after > 0
    assert seen == [resumed_after]


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError, MemoryError])
def test_a_try_without_a_sentence_leaves_nothing_behind(text, target, tiny, monkeypatch, error) -> None:
    stop_at(monkeypatch, 0, error)
    with pytest.raises(error):
        run(EmbedJob(sources=(str(text),)), tiny, target)
    assert [path.name for path in text.parent.iterdir()] == ["text.txt"]


def test_a_sink_that_fails_does_not_cost_the_vectors(text, target, tiny, monkeypatch) -> None:
    def failing(spool: Spool, path: Path) -> None:
        raise InputError(f"{path}: no")

    job = EmbedJob(sources=(str(text),), split=False)
    with monkeypatch.context() as patch:
        patch.setattr(EmbedJob, "_writer", lambda *_: failing)
        with pytest.raises(InputError, match="no"):
            run(job, tiny, target)
    assert run(job, tiny, target) == EmbedSummary(sentences=300, words=1500, resumed_after=300)


def test_the_folder_and_how_bad_bytes_are_met_may_change_between_tries(text, target, tiny, monkeypatch) -> None:
    job = EmbedJob(sources=(str(text),), split=False, batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    monkeypatch.chdir(text.parent)
    assert run(replace(job, sources=("text.txt",), errors="replace", batch_tokens=2048), tiny, target).resumed_after > 0


def test_a_carried_state_starts_over_and_leaves_another_jobs_work_alone(text, target, tiny, monkeypatch) -> None:
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


def test_what_a_killed_job_left_that_cannot_be_gone_on_with_is_done_anew(text, target, tiny) -> None:
    job = EmbedJob(sources=(str(text),), split=False, state="carry")
    with job._opened_spool(tiny, target) as spool:
        spool.append(EmbeddedSentence(0, ["a"], None, np.zeros((1, tiny.dim), np.float32)))
    assert run(job, tiny, target) == EmbedSummary(sentences=300, words=1500, resumed_after=0)


def test_blank_lines_are_refused_where_the_layout_has_no_place_for_them(text, tmp_path, tiny) -> None:
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
    ],
)
def test_what_cannot_work_is_refused_at_once(text, monkeypatch, changes, where, error, complaint) -> None:
    monkeypatch.chdir(text.parent)
    Path("folder.npz").mkdir()
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


def test_the_options_of_a_job_are_all_looked_at() -> None:
    # Others: what is read, where it goes, and that nothing is gone on with; each has a test of its own.
    assert {field.name for field in fields(EmbedJob)} - OPTIONS.keys() == {"sources", "layout", "fresh"}


@pytest.mark.parametrize("option", OPTIONS)
def test_a_job_with_another_option_goes_on_only_where_vectors_stay_the_same(
    text, target, tiny, monkeypatch, option
) -> None:
    value, differs = OPTIONS[option]
    job = EmbedJob(sources=(str(text),), input_format="tokenized", batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    changed = replace(job, **{option: value})
    if differs is None:
        assert run(changed, tiny, target).resumed_after > 0
    else:
        with pytest.raises(InputError, match=rf"unfinished work of another job \({differs} was"):
            run(changed, tiny, target)


def test_a_model_with_another_start_state_does_not_go_on(text, target, tiny, monkeypatch) -> None:
    job = EmbedJob(sources=(str(text),), input_format="tokenized", batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    warm = Embedder(with_warm_start(tiny.model, [["I", "took", "a", "bow"]], text_name="warm.txt"))
    with pytest.raises(InputError, match=r"start_state was \"zeros\" and is now"):
        run(job, warm, target)


@pytest.mark.parametrize("changed", ["Sentence 7", "Sentence 240"])
def test_an_edited_input_of_the_same_size_and_date_is_noticed(text, target, tiny, monkeypatch, changed) -> None:
    job = EmbedJob(sources=(str(text),), split=False, batch_tokens=1)
    leave_half_done(job, tiny, target, monkeypatch)
    dates = text.stat()
    text.write_text(text.read_text().replace(f"{changed} ", f"{changed.replace('S', 's')} "))
    os.utime(text, ns=(dates.st_atime_ns, dates.st_mtime_ns))
    with pytest.raises(InputError, match=r"text\.txt: has changed since its first \d+ sentences were read"):
        run(job, tiny, target)
    assert run(replace(job, fresh=True), tiny, target) == EmbedSummary(sentences=300, words=1500, resumed_after=0)


def test_other_weights_under_the_same_name_are_noticed(text, target, monkeypatch) -> None:
    job = EmbedJob(sources=(str(text),), split=False, batch_tokens=1)
    leave_half_done(job, Embedder.from_pretrained("tiny-random"), target, monkeypatch)
    other = Embedder.from_pretrained("tiny-random")
    with torch.no_grad():
        other.model.network.words.projection.weight[0, 0] += 1e-3
    with pytest.raises(InputError, match=r"model_sha256 was .* and is now"):
        run(job, other, target)


@pytest.fixture
def pipe(text, monkeypatch):
    """Puts a text into standard input."""

    def fill(content: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))

    return fill


def test_a_job_from_a_pipe_goes_on_with_the_same_input(text, target, tiny, monkeypatch, pipe) -> None:
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
def test_another_input_from_a_pipe_is_refused(text, target, tiny, monkeypatch, pipe, change) -> None:
    job = EmbedJob(sources=("-",), split=False, batch_tokens=1)
    pipe(text.read_text())
    leave_half_done(job, tiny, target, monkeypatch)
    pipe(change(text.read_text()))
    with pytest.raises(InputError, match=r"standard input: has changed since its first \d+ sentences were read"):
        run(job, tiny, target)
    assert work_folder(target).exists()


def test_the_first_commit_comes_with_the_first_batch_that_ends_a_second_later(text, target, tiny, monkeypatch) -> None:
    seconds = itertools.count(step=0.6)  # at each look at the clock
    monkeypatch.setattr(jobs, "monotonic", lambda: next(seconds))
    done: list[int] = []
    commit = Spool.commit

    def noting(spool: Spool) -> None:
        done.append(spool.done)
        commit(spool)

    monkeypatch.setattr(Spool, "commit", noting)
    run(EmbedJob(sources=(str(text),), split=False, batch_tokens=7), tiny, target)
    # Opened; then after a batch's worth (a sentence is 7 positions) and four; then every ten seconds, and at the end.
    assert done[:2] == [0, 1 + 4]
    assert [later - sooner for sooner, later in itertools.pairwise(done[1:-2])] == [16 * 16] * (len(done) - 4)
    assert done[-1] == 300
