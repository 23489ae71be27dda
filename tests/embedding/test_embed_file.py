"""`embed_file`: its result, its checks, its resumption after a stop, and the files that it leaves."""

import inspect
import io
import itertools
import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from elmore import Embedder, Model, embed_file, load, open_vectors
from elmore.embedding.embed_file import EmbedSummary, work_folder
from elmore.embedding.options import InferenceArguments
from elmore.embedding.spool import Spool
from elmore.embedding.vector_files import EmbeddedSentences, VectorType, writer_for
from elmore.embedding.vector_files import numpy as numpy_file
from elmore.embedding.warm_start import compute_warm_start
from elmore.errors import ElmoreError, InputError, InputWarning, NotFound
from elmore.progress import Progress

jobs = sys.modules["elmore.embedding.embed_file"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"Sentence {n} has words .\n" for n in range(600)))
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "vectors.npz"


@pytest.fixture
def bow(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("I took a bow. Me too.\n")
    return path


@pytest.mark.parametrize("name", ["v.h5", "v.npz", "v.parquet"])
def test_embed_file_stores_what_encode_returns(bow: Path, tiny: Embedder, name: str) -> None:
    target = bow.with_name(name)
    summary = embed_file(bow, target, model=tiny, layers=-1, dtype=np.float16)
    assert summary == (2, 8, 0)
    with open_vectors(target) as vectors:
        assert vectors[0].dtype == np.float16
        assert (vectors.meta["job"]["input"], vectors.meta["job"]["layers"]) == (["text.txt"], 2)
        for i, sentence in enumerate(["I took a bow.", "Me too."]):
            np.testing.assert_allclose(vectors[i], tiny.encode(sentence, layers="top"), atol=2e-3)


@pytest.mark.parametrize("model", ["tiny-random", load("tiny-random"), lambda: Embedder.from_pretrained("tiny-random")])
def test_embed_file_accepts_a_model_in_any_form(bow: Path, model) -> None:
    assert embed_file(str(bow), str(bow.with_name("v.npz")), model=model).sentences == 2


@pytest.mark.parametrize("model", ["tiny-random", load("tiny-random")])
def test_embed_file_computes_in_the_chosen_number_type(bow: Path, tiny: Embedder, model) -> None:
    embed_file(bow, bow.with_name("v.npz"), model=model, compute="bfloat16", device="cpu")
    with open_vectors(bow.with_name("v.npz")) as vectors:
        assert vectors.meta["job"]["compute"] == "bfloat16"
        exact = tiny.encode("I took a bow.")
        np.testing.assert_allclose(vectors[0], exact, atol=0.05)
        assert np.abs(vectors[0] - exact).max() > 1e-4


def test_embed_file_rejects_options_that_differ_from_the_embedder(bow: Path, tiny: Embedder) -> None:
    target = bow.with_name("v.npz")
    with pytest.raises(InputError, match="compute is 'int8', and this model was opened with 'float32'"):
        embed_file(bow, target, model=tiny, compute="int8")
    with pytest.raises(InputError, match="the device 'gpu' cannot be used here"):
        embed_file(bow, target, model="tiny-random", device="gpu")
    assert [path.name for path in bow.parent.iterdir()] == ["text.txt"]
    assert embed_file(bow, target, model=tiny, compute="float32").sentences == 2


@pytest.mark.parametrize("compute", ["bfloat16", "int8"])
def test_embed_file_parts_of_another_compute_are_not_joined(bow: Path, compute: str) -> None:
    parts = [bow.with_name(f"{number}.npz") for number in (1, 2)]
    for number, own in ((1, "float32"), (2, compute)):
        embed_file(bow, parts[number - 1], model="tiny-random", compute=own, shard=(number, 2))
    with pytest.raises(InputError, match=rf"are of different jobs \(compute float32 and {compute}\)"):
        open_vectors(parts)


def test_embed_file_warns_about_files_that_are_not_read(bow: Path, tiny: Embedder) -> None:
    bow.with_name("notes.docx").write_text("not read")
    with pytest.warns(InputWarning, match="input is skipped: 1 skipped file, 1 repeated file$"):
        summary = embed_file([bow.parent, bow], bow.with_name("v.npz"), model=tiny)
    assert summary.sentences == 2


def test_embed_file_never_overwrites_an_input(bow: Path) -> None:
    source = bow.rename(bow.with_name("text.npz"))
    for force in (False, True):
        with pytest.raises(InputError, match=r"text\.npz: is an input, and would be replaced"):
            embed_file(source, source, model="tiny-random", force=force)
    assert source.read_text() == "I took a bow. Me too.\n"


def test_embed_file_replaces_other_files_only_with_force(bow: Path, tiny: Embedder) -> None:
    target = bow.with_name("v.h5")
    target.write_bytes(b"years of work")
    with pytest.raises(InputError, match=r"v\.h5: exists, and was not written by Elmore; .*--force"):
        embed_file(bow, target, model=tiny)
    assert target.read_bytes() == b"years of work"
    embed_file(bow, target, model=tiny, force=True)
    embed_file(bow, target, model=tiny, layers="top")
    with open_vectors(target) as vectors:
        assert vectors.meta["job"]["layers"] == 2


def test_embed_file_replaces_allennlp_layout_only_with_force(bow: Path, tiny: Embedder) -> None:
    target = bow.with_name("v.h5")
    embed_file(bow, target, model=tiny, layout="allennlp")
    with pytest.raises(InputError, match="not written by Elmore"):
        embed_file(bow, target, model=tiny, layout="allennlp")
    embed_file(bow, target, model=tiny, layout="allennlp", force=True)
    with open_vectors(target) as vectors:
        assert vectors.tokens(1) == ["Me", "too", "."]


def test_embed_file_does_not_replace_arrays_of_another_program(bow: Path, tiny: Embedder) -> None:
    target = bow.with_name("v.npz")
    np.savez(target, vectors=np.zeros((2, 3)))
    with pytest.raises(InputError, match="not written by Elmore"):
        embed_file(bow, target, model=tiny)


def test_embed_file_accepts_another_language_and_tokenizer(bow: Path, tiny: Embedder) -> None:
    bow.write_text("C'est l'homme.\n")
    embed_file(bow, bow.with_name("en.npz"), model=tiny)
    embed_file(bow, bow.with_name("fr.npz"), model=tiny, language="fr")
    embed_file(bow, bow.with_name("blanks.npz"), model=tiny, tokenizer="whitespace")
    words = [open_vectors(bow.with_name(f"{name}.npz")).tokens(0) for name in ("en", "fr", "blanks")]
    assert words == [["C", "'est", "l", "'homme", "."], ["C'", "est", "l'", "homme", "."], ["C'est", "l'homme."]]


def test_embed_file_parts_of_other_weights_are_not_joined(bow: Path, monkeypatch) -> None:
    parts = []
    for number in (1, 2):
        model = load("tiny-random") if number == 1 else with_other_weights()
        parts.append(bow.with_name(f"{number}.npz"))
        embed_file(bow, parts[-1], model=model, shard=(number, 2))
    with pytest.raises(InputError, match=r"are of different jobs \(model_sha256"):
        open_vectors(parts)


@pytest.mark.parametrize("edited", ["She sat down.\nCats purr.\n", "She sat down.\nCats meow.\nDogs bark.\n"])
def test_embed_file_parts_of_an_edited_input_are_not_joined(bow: Path, tiny: Embedder, edited: str) -> None:
    given = "He sat downs.\nCats purr.\n" if len(edited) == 25 else "She sat down.\nCats purr.\nDogs bark.\n"
    assert len(given) == len(edited)
    parts = [bow.with_name(f"{number}.npz") for number in (1, 2)]
    for number, written in enumerate((given, edited), start=1):
        bow.write_text(written)
        embed_file(bow, parts[number - 1], model=tiny, shard=(number, 2))
    with pytest.raises(InputError, match=r"are of different jobs \(input_digest"):
        open_vectors(parts)
    bow.write_text(given)
    embed_file(bow, parts[1], model=tiny, shard=(2, 2))
    assert len(open_vectors(parts)) == len(given.splitlines())


def with_other_weights() -> Model:
    """tiny-random with one number changed."""
    checkpoint = load("tiny-random").checkpoint
    weight = checkpoint.tensors["words.projection.weight"].copy()
    weight[0, 0] += 1e-3
    return Model(replace(checkpoint, tensors={**checkpoint.tensors, "words.projection.weight": weight}))


def run(job: dict[str, Any], embedder: Embedder, target: Path) -> EmbedSummary:
    return embed_file(target=target, model=embedder, show_progress_bar=False, **job)


def with_progress(monkeypatch, progress: Progress) -> None:
    monkeypatch.setattr(jobs, "progress_bar", lambda *_, **__: nullcontext(progress))


def stop_at(monkeypatch, number: int, error: type[BaseException]) -> None:
    """Raise an error when the sentence of this number is read."""
    read = jobs.read_sentences

    def stopping(*arguments, **options):
        for found in read(*arguments, **options):
            if found[0] == number:
                raise error
            yield found

    monkeypatch.setattr(jobs, "read_sentences", stopping)


def leave_half_done(job: dict[str, Any], embedder: Embedder, target: Path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        stop_at(patch, 550, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            run(job, embedder, target)


def test_embed_file_progress_counts_sentences_of_an_earlier_process_first(text, target, tiny, monkeypatch) -> None:
    job = {"source": text, "split": False, "batch_tokens": 1}
    leave_half_done(job, tiny, target, monkeypatch)
    steps: list[tuple[int, int]] = []

    class Counting(Progress):
        def advance(self, sentences: int, tokens: int) -> None:
            steps.append((sentences, tokens))

    with_progress(monkeypatch, Counting())
    summary = run(job, tiny, target)
    assert 0 < summary.resumed_after < 600
    assert steps[0] == (summary.resumed_after, 0)
    assert sum(sentences for sentences, _ in steps) == 600
    assert all(tokens == 5 * sentences for sentences, tokens in steps[1:])


def test_embed_file_tokenizes_no_sentence_of_an_earlier_process(text, target, tiny, monkeypatch) -> None:
    job = {"source": text, "split": False, "batch_tokens": 1}
    leave_half_done(job, tiny, target, monkeypatch)
    seen = []
    read = jobs.read_sentences
    monkeypatch.setattr(jobs, "read_sentences", lambda *a, **k: seen.append(k["after"].sentences) or read(*a, **k))
    resumed_after = run(job, tiny, target).resumed_after
    assert resumed_after > 0
    assert seen == [resumed_after]


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError, MemoryError])
def test_embed_file_without_a_sentence_leaves_no_file(text, target, tiny, monkeypatch, error) -> None:
    stop_at(monkeypatch, 0, error)
    with pytest.raises(error):
        run({"source": text}, tiny, target)
    assert [path.name for path in text.parent.iterdir()] == ["text.txt"]


def test_embed_file_saves_the_vectors_if_the_end_of_the_file_fails(text, target, tiny, monkeypatch) -> None:
    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    job = {"source": text, "split": False}
    with monkeypatch.context() as patch:
        patch.setattr(numpy_file.Writer, "finish", failing)
        with pytest.raises(
            ElmoreError, match=r"vectors.npz.partial: cannot be written: No space .* from the last commit"
        ):
            run(job, tiny, target)
    assert not target.exists()
    assert run(job, tiny, target) == EmbedSummary(sentences=600, words=3000, resumed_after=600)


@pytest.mark.parametrize("call", [1, 3])
def test_embed_file_raises_the_error_of_the_writer_thread(text, target, tiny, monkeypatch, call: int) -> None:
    calls = itertools.count(1)
    append = numpy_file.Writer.append

    def failing(writer: numpy_file.Writer, batch: EmbeddedSentences) -> None:
        if next(calls) == call:
            raise PermissionError(13, "Permission denied")
        append(writer, batch)

    monkeypatch.setattr(numpy_file.Writer, "append", failing)
    with pytest.raises(ElmoreError, match=r"vectors.npz.partial: cannot be written: Permission denied"):
        run({"source": text, "split": False, "batch_tokens": 1}, tiny, target)
    assert [path.name for path in text.parent.iterdir()] == ["text.txt"]


def test_embed_file_computes_while_it_writes(text, target, tiny, monkeypatch) -> None:
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
    with_progress(monkeypatch, Opening())
    run({"source": text, "split": False, "batch_tokens": 1}, tiny, target)
    assert sum(len(batch.words) for batch in written) == 600


def test_embed_file_resumes_with_another_folder_and_errors_option(text, target, tiny, monkeypatch) -> None:
    job = {"source": text, "split": False, "batch_tokens": 1}
    leave_half_done(job, tiny, target, monkeypatch)
    monkeypatch.chdir(text.parent)
    assert run(dict(job, source="text.txt", errors="replace", batch_tokens=2048), tiny, target).resumed_after > 0


def test_embed_file_with_carried_state_rejects_the_work_of_another_job(text, target, tiny, monkeypatch) -> None:
    resumable = {"source": text, "split": False, "batch_tokens": 1}
    leave_half_done(resumable, tiny, target, monkeypatch)
    carrying = dict(resumable, state="carry", batch_size=7)
    with pytest.raises(InputError, match="carried_rows was null and is now 7"):
        run(carrying, tiny, target)
    assert work_folder(target).exists()
    assert run(dict(carrying, fresh=True), tiny, target).resumed_after == 0
    words = [line.split() for line in text.read_text().splitlines()]
    expected = tiny.encode(words, state="carry", batch_size=7)
    with open_vectors(target) as vectors:
        np.testing.assert_array_equal(np.concatenate(vectors[:]), np.concatenate(expected))


def test_embed_file_with_carried_state_starts_over_after_a_kill(text, target, tiny) -> None:
    job = {"source": text, "split": False, "state": "carry"}
    spool = Spool(work_folder(target), {}, writer_for(target), VectorType(tiny.dim), resumable=False)
    spool.append(EmbeddedSentences([0], [["a"]], [None], np.zeros((1, tiny.dim), np.float32), ["00" * 16]))
    # As the system does when a process is killed.
    spool._close_files()
    spool._lock.release()
    assert work_folder(target).exists()
    assert run(job, tiny, target) == EmbedSummary(sentences=600, words=3000, resumed_after=0)


def test_embed_file_rejects_a_blank_line_that_the_layout_cannot_store(text, tmp_path, tiny) -> None:
    target = tmp_path / "vectors.h5"
    text.write_text("One .\n\nTwo .\n")
    with pytest.raises(InputError, match=r"text\.txt, line 2: a blank line"):
        run({"source": text, "input_format": "tokenized", "layout": "allennlp"}, tiny, target)
    assert not work_folder(target).exists()


@pytest.mark.parametrize(
    ("changes", "where", "error", "complaint"),
    [
        ({"source": "none.txt"}, "v.npz", NotFound, "none.txt: no such file"),
        ({"source": []}, "v.npz", InputError, "no input; name files"),
        ({"source": "empty"}, "v.npz", NotFound, "empty: contains no text"),
        ({"state": "warm"}, "v.npz", InputError, "state is 'warm'"),
        ({}, "text.txt", InputError, r"text\.txt: vectors are written to"),
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
        ({"token_style": "penn"}, "v.npz", InputError, r"text\.txt: is read as text, and token_style"),
        (
            {"source": "p.fasta", "token_style": "penn"},
            "v.npz",
            InputError,
            r"p\.fasta: is read as fasta, and token_style",
        ),
    ],
)
def test_embed_file_rejects_wrong_arguments_before_it_opens_a_model(
    text, monkeypatch, changes, where, error, complaint
) -> None:
    monkeypatch.chdir(text.parent)
    Path("folder.npz").mkdir()
    Path("empty").mkdir()
    Path("p.fasta").write_text(">P\nMK\n")
    with pytest.raises(error, match=complaint):
        embed_file(**{"source": "text.txt", "target": where, "model": lambda: pytest.fail("opened a model"), **changes})


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


def test_embed_file_options_are_all_tested() -> None:
    # Other tests cover the rest.
    others = {"source", "target", "model", "layout", "fresh", "compute", "show_progress_bar"}
    equal_bits_or_rounding = {"device", "engine", "batch_invariant"}
    parameters = inspect.signature(embed_file).parameters.keys() - {"options"}
    assert {*parameters, *InferenceArguments.__annotations__} - OPTIONS.keys() == others | equal_bits_or_rounding


@pytest.mark.parametrize("option", OPTIONS)
def test_embed_file_resumes_only_with_options_that_keep_the_vectors(text, target, tiny, monkeypatch, option) -> None:
    value, differs = OPTIONS[option]
    job = {"source": text, "input_format": "tokenized", "batch_tokens": 1}
    leave_half_done(job, tiny, target, monkeypatch)
    changed = dict(job, **{option: value})
    if differs is None:
        assert run(changed, tiny, target).resumed_after > 0
    else:
        with pytest.raises(InputError, match=rf"unfinished work of another job \({differs} was"):
            run(changed, tiny, target)


def test_embed_file_with_another_start_state_is_not_resumed(text, target, tiny, monkeypatch) -> None:
    job = {"source": text, "input_format": "tokenized", "batch_tokens": 1}
    leave_half_done(job, tiny, target, monkeypatch)
    warm = Embedder(compute_warm_start(tiny.model, [["I", "took", "a", "bow"]], text_name="warm.txt"))
    with pytest.raises(InputError, match=r"start_state was \"zeros\" and is now"):
        run(job, warm, target)


def test_embed_file_with_another_compute_is_not_resumed(text, target, tiny, monkeypatch) -> None:
    job = {"source": text, "split": False, "batch_tokens": 1}
    leave_half_done(job, tiny, target, monkeypatch)
    rougher = Embedder.from_pretrained("tiny-random", compute="bfloat16")
    with pytest.raises(InputError, match=r'compute was "float32" and is now "bfloat16"'):
        run(job, rougher, target)


def test_embed_file_with_another_layout_is_not_resumed(text, tiny, monkeypatch) -> None:
    target = text.with_name("v.h5")
    job = {"source": text, "split": False, "batch_tokens": 1, "layout": "allennlp"}
    leave_half_done(job, tiny, target, monkeypatch)
    with pytest.raises(InputError, match=r'layout was "allennlp" and is now "default"'):
        run(dict(job, layout="default"), tiny, target)
    # The variants of that layout differ only at the end.
    assert run(dict(job, layout="allennlp-without-sentences"), tiny, target).resumed_after > 0


@pytest.mark.parametrize("changed", ["Sentence 7", "Sentence 240"])
def test_embed_file_notices_an_edited_input_of_equal_size_and_date(text, target, tiny, monkeypatch, changed) -> None:
    job = {"source": text, "split": False, "batch_tokens": 1}
    leave_half_done(job, tiny, target, monkeypatch)
    dates = text.stat()
    text.write_text(text.read_text().replace(f"{changed} ", f"{changed.replace('S', 's')} "))
    os.utime(text, ns=(dates.st_atime_ns, dates.st_mtime_ns))
    with pytest.raises(InputError, match=r"text\.txt: has changed since its first \d+ sentences were read"):
        run(job, tiny, target)
    assert run(dict(job, fresh=True), tiny, target) == EmbedSummary(sentences=600, words=3000, resumed_after=0)


def test_embed_file_notices_other_weights_of_the_same_name(text, target, monkeypatch) -> None:
    job = {"source": text, "split": False, "batch_tokens": 1}
    leave_half_done(job, Embedder.from_pretrained("tiny-random"), target, monkeypatch)
    other = Embedder(with_other_weights(), device="cpu")
    with pytest.raises(InputError, match=r"model_sha256 was .* and is now"):
        run(job, other, target)


@pytest.fixture
def pipe(text, monkeypatch):
    """Puts a text into standard input."""

    def fill(content: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))

    return fill


def test_embed_file_from_a_pipe_resumes_with_the_same_input(text, target, tiny, monkeypatch, pipe) -> None:
    job = {"source": "-", "split": False, "batch_tokens": 1}
    pipe(text.read_text())
    leave_half_done(job, tiny, target, monkeypatch)
    pipe(text.read_text())
    summary = run(job, tiny, target)
    assert 0 < summary.resumed_after < 600
    assert summary.sentences == 600
    run({"source": text, "split": False, "batch_tokens": 1}, tiny, target.with_name("whole.npz"))
    with open_vectors(target) as ours, open_vectors(target.with_name("whole.npz")) as whole:
        np.testing.assert_allclose(np.concatenate(ours[:]), np.concatenate(whole[:]), atol=1e-6)


@pytest.mark.parametrize("name", ["v.h5", "v.npz", "v.parquet"])
@pytest.mark.parametrize("stops", [[290], [550], [290, 550, 590]])
def test_embed_file_resumed_has_the_same_bytes(text, target, tiny, monkeypatch, name: str, stops: list[int]) -> None:
    monkeypatch.setattr("elmore.embedding.vector_files.parquet.ROW_GROUP_BYTES", 20_000)
    job = {"source": text, "split": False, "layers": "all", "batch_tokens": 100}
    run(job, tiny, target.with_name(name))
    whole = target.with_name(name).read_bytes()
    for stop in stops:
        with monkeypatch.context() as patch:
            stop_at(patch, stop, KeyboardInterrupt)
            with pytest.raises(KeyboardInterrupt):
                run(job, tiny, target.with_name(f"resumed-{name}"))
    assert 0 < run(job, tiny, target.with_name(f"resumed-{name}")).resumed_after < 600
    assert target.with_name(f"resumed-{name}").read_bytes() == whole


@pytest.mark.parametrize("change", [lambda content: content.replace("Sentence 7 ", "Sentence 8 "), lambda _: "short\n"])
def test_embed_file_rejects_another_input_from_a_pipe(text, target, tiny, monkeypatch, pipe, change) -> None:
    job = {"source": "-", "split": False, "batch_tokens": 1}
    pipe(text.read_text())
    leave_half_done(job, tiny, target, monkeypatch)
    pipe(change(text.read_text()))
    with pytest.raises(InputError, match=r"standard input: has changed since its first \d+ sentences were read"):
        run(job, tiny, target)
    assert work_folder(target).exists()


def test_embed_file_commits_first_after_a_second_and_then_every_ten(text, target, tiny, monkeypatch) -> None:
    seconds = itertools.count(step=0.6)  # at each call of the clock
    monkeypatch.setattr(jobs, "monotonic", lambda: next(seconds))
    committed: list[int] = []
    commit = Spool.commit

    def noting(spool: Spool) -> None:
        committed.append(spool.num_sentences)
        commit(spool)

    monkeypatch.setattr(Spool, "commit", noting)
    run({"source": text, "split": False, "batch_tokens": 7}, tiny, target)
    # A sentence is a batch. The clock is read at the start, after each batch and after each commit: the second batch
    # ends after 1.2 seconds, and 17 batches after a commit 10.2 seconds have passed.
    assert committed == [*range(2, 600, 17), 600]
