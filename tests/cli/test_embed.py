"""`elmore embed`: every kind of input and output, and a clear word for every mistake."""

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zstandard

from elmore import Embedder, open_vectors
from elmore.embedding import embed_file

TEXT = "I took a bow. He was wielding a bow and arrow.\n\nI took a bow.\n"
SENTENCES = [
    ["I", "took", "a", "bow", "."],
    ["He", "was", "wielding", "a", "bow", "and", "arrow", "."],
    ["I", "took", "a", "bow", "."],
]
CONLLU = "# sent_id = s1\n1\tCats\t" + "\t".join("_" * 8) + "\n2\tpurr\t" + "\t".join("_" * 8) + "\n\n"
FASTA = ">P1 a protein\nMKV\nLA*\n>P2\nMM\n"
SAME = {"atol": 1e-6, "rtol": 0}


@pytest.fixture
def embed(elmore, tmp_path: Path, monkeypatch):
    """`embed(TEXT, "--layers", "top")` writes the input, runs the command and opens what it wrote."""
    monkeypatch.chdir(tmp_path)

    def run(content: str | bytes, *options: object, name: str = "text.txt", output: str = "vectors.h5"):
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        ended = elmore("embed", name, "-o", output, "--model", "tiny-random", *options)
        assert ended.code == 0, ended.err
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, output])
        return open_vectors(output)

    return run


@pytest.fixture
def text(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def words_of(vectors) -> list[list[str]]:
    return [vectors.tokens(i) for i in range(len(vectors))]


def test_it_says_in_one_line_what_it_wrote(elmore, text: Path) -> None:
    arguments = ("embed", text, "-o", "vectors.h5", "-m", "tiny-random")
    assert elmore(*arguments) == (0, "", "wrote vectors.h5: 3 sentences, 18 words\n")
    assert elmore(*arguments, "-q") == (0, "", "")
    more = elmore(*arguments, "-v")
    assert "model: tiny-random, 36,936 parameters\n" in more.err
    assert len(more.err.splitlines()) == 3


def test_one_sentence_of_one_word_is_told_in_the_singular(elmore, text: Path) -> None:
    text.write_text("Cats\n")
    assert elmore("embed", text, "-o", "v.npz", "-m", "tiny-random").err == "wrote v.npz: 1 sentence, 1 word\n"


@pytest.mark.parametrize("output", ["vectors.h5", "vectors.hdf5", "vectors.parquet", "vectors.npz"])
@pytest.mark.parametrize(
    ("layers", "asked"), [("average", "average"), ("top", "top"), ("all", "all"), ("1", 1), ("0,2", [0, 2])]
)
def test_the_file_holds_what_encode_gives(embed, tiny: Embedder, output: str, layers: str, asked) -> None:
    vectors = embed(TEXT, "--layers", layers, output=output)
    assert words_of(vectors) == SENTENCES
    for ours, expected in zip(vectors, tiny.encode(SENTENCES, layers=asked), strict=True):
        np.testing.assert_allclose(ours, expected, **SAME)
    assert vectors.meta["job"]["model"] == "tiny-random"


@pytest.mark.parametrize("output", ["vectors.h5", "vectors.parquet", "vectors.npz"])
def test_half_precision_halves_the_numbers(embed, tiny: Embedder, output: str) -> None:
    vectors = embed(TEXT, "--dtype", "float16", output=output)
    assert vectors[0].dtype == np.float16
    np.testing.assert_allclose(vectors[0], tiny.encode(SENTENCES)[0], atol=2e-3)


def test_it_computes_in_bfloat16_when_asked(embed, tiny: Embedder) -> None:
    found, exact = embed(TEXT, "--compute", "bfloat16")[0], tiny.encode(SENTENCES)[0]
    np.testing.assert_allclose(found, exact, atol=0.05)
    assert np.abs(found - exact).max() > 1e-4


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", zstandard.compress)],
)
def test_packed_text_is_unpacked(embed, suffix: str, pack) -> None:
    assert words_of(embed(pack(TEXT.encode()), name=f"text.txt{suffix}")) == SENTENCES


def test_standard_input_is_read_and_leaves_nothing_behind(elmore, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert elmore("embed", "-", "-o", "v.h5", "-m", "tiny-random").code == 0
    assert words_of(open_vectors("v.h5")) == SENTENCES
    assert [path.name for path in tmp_path.iterdir()] == ["v.h5"]


def test_treebanks_and_proteins_bring_their_names(embed) -> None:
    treebank = embed(CONLLU, name="a.conllu")
    assert (words_of(treebank), treebank.labels) == ([["Cats", "purr"]], ["s1"])


def test_a_residue_is_a_word(embed) -> None:
    proteins = embed(FASTA, name="proteins.fasta")
    assert (words_of(proteins), proteins.labels) == ([list("MKVLA"), list("MM")], ["P1", "P2"])


def test_the_format_can_be_said_where_the_name_does_not_tell(embed) -> None:
    assert words_of(embed(FASTA, "--input-format", "fasta")) == [list("MKVLA"), list("MM")]


def test_tokenized_lines_are_taken_as_they_are_blank_ones_slashes_and_duplicates_too(embed) -> None:
    content = "a/b / .\n\na/b / .\n"
    for output in ("v.h5", "v.parquet", "v.npz"):
        vectors = embed(content, "--tokenized", output=output)
        assert words_of(vectors) == [["a/b", "/", "."], [], ["a/b", "/", "."]]
        assert vectors[1].shape == (0, 32)
        np.testing.assert_array_equal(vectors[0], vectors[2])
        Path(output).unlink()


def test_without_splitting_a_line_is_a_sentence(embed) -> None:
    vectors = embed(TEXT, "--no-split")
    assert words_of(vectors) == [SENTENCES[0] + SENTENCES[1], [], SENTENCES[2]]


@pytest.mark.parametrize("content", ["", "\n\n", "  \n"])
@pytest.mark.parametrize("output", ["v.h5", "v.parquet", "v.npz"])
def test_a_file_without_a_sentence_gives_a_file_without_one(embed, content: str, output: str) -> None:
    assert len(embed(content, output=output)) == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xef\xbb\xbfa b\r\nc\r\n", [["a", "b"], ["c"]]),
        (b"a\0b \0\n", [["a\0b", "\0"]]),
        ("\U0001f600 \u4e2d\u6587 \U00020000 <S> </S>".encode(), [["\U0001f600", "中文", "\U00020000", "<S>", "</S>"]]),
        ("\u2028x y\u0085z".encode(), [["\u2028x", "y\u0085z"]]),
    ],
)
def test_odd_characters_arrive_unharmed(embed, content: bytes, words: list[list[str]]) -> None:
    assert words_of(embed(content, "--tokenized")) == words


@pytest.mark.filterwarnings("default")
def test_a_sentence_of_ten_thousand_words_and_words_without_end_are_embedded(embed) -> None:
    long = " ".join(f"w{number}" for number in range(10_000))
    vectors = embed(f"{long}\nshort\n{'x' * 5000}\n", "--tokenized", output="v.npz")
    assert [len(array) for array in vectors] == [10_000, 1, 1]
    assert all(np.isfinite(array).all() for array in vectors)


def test_bad_bytes_are_named_with_their_line_or_replaced(elmore, text: Path) -> None:
    text.write_bytes(b"fine\nb\xffd\n")
    arguments = ("embed", "text.txt", "--tokenized", "-o", "v.h5", "-m", "tiny-random")
    ended = elmore(*arguments)
    assert ended.code == 1
    assert ended.err.startswith("elmore: text.txt, line 2: not UTF-8 (byte 0xff at column 2)")
    assert sorted(path.name for path in text.parent.iterdir()) == ["text.txt"]
    assert elmore(*arguments, "--errors", "replace").code == 0
    assert words_of(open_vectors("v.h5")) == [["fine"], ["b\ufffdd"]]


@pytest.mark.parametrize("output", ["h5", "parquet", "npz"])
def test_eight_shards_together_are_the_whole(elmore, tmp_path: Path, monkeypatch, output: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("big.txt").write_text("".join(f"Sentence {n} has its words .\n" for n in range(21)))
    elmore("embed", "big.txt", "-o", f"whole.{output}", "-m", "tiny-random", "--no-split")
    for part in range(1, 9):
        elmore(
            "embed", "big.txt", "-o", f"part{part}.{output}", "-m", "tiny-random", "--no-split", "--shard", f"{part}/8"
        )
    whole, parts = open_vectors(f"whole.{output}"), open_vectors(f"part*.{output}")
    assert words_of(parts) == words_of(whole)
    assert parts.numbers.tolist() == whole.numbers.tolist() == list(range(21))
    for ours, expected in zip(parts, whole, strict=True):
        np.testing.assert_allclose(ours, expected, **SAME)


def test_several_files_folders_and_patterns_are_one_text(elmore, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("books").mkdir()
    for name, content in {"a.txt": "One.", "books/b.txt": "Two.", "books/c.conllu": CONLLU}.items():
        Path(name).write_text(content)
    for sources in (["a.txt", "books"], ["a.txt", "books/*"], ["?.txt", "books/b.txt", "books/c.conllu"]):
        assert elmore("embed", *sources, "-o", "v.npz", "-m", "tiny-random").code == 0
        vectors = open_vectors("v.npz")
        assert words_of(vectors) == [["One", "."], ["Two", "."], ["Cats", "purr"]]
        assert (vectors.numbers.tolist(), vectors.labels) == ([0, 1, 2], [None, None, "s1"])
        assert vectors.meta["job"]["input"] == ["a.txt", "b.txt", "c.conllu"]


def test_embed_takes_a_token_style_for_a_folder_of_treebanks(elmore, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("treebank").mkdir()
    Path("treebank/a.conllu").write_text(CONLLU)
    ended = elmore("embed", "treebank", "--token-style", "ud", "-o", "v.npz", "-m", "tiny-random")
    assert (ended.code, ended.err) == (0, "wrote v.npz: 1 sentence, 2 words\n")


@pytest.mark.filterwarnings("default")
def test_embed_warns_once_about_skipped_files(elmore, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("books").mkdir()
    Path("books/a.txt").write_text("One.")
    Path("books/cover.png").write_bytes(b"")
    ended = elmore("embed", "books", "-o", "v.npz", "-m", "tiny-random")
    warning = "elmore: warning: some of the input is skipped: 1 skipped file\n"
    assert ended.err == f"{warning}wrote v.npz: 1 sentence, 2 words\n"


def test_nothing_is_overwritten_by_surprise(elmore, text: Path) -> None:
    Path("v.h5").write_text("years of work")
    arguments = ("embed", "text.txt", "-o", "v.h5", "-m", "tiny-random")
    ended = elmore(*arguments)
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert ended.err.startswith("elmore: v.h5: exists, and was not written by Elmore; choose another path, or ")
    assert Path("v.h5").read_text() == "years of work"
    assert elmore(*arguments, "--force").code == 0


def test_a_file_that_is_there_is_replaced_only_by_a_whole_one(elmore, text: Path) -> None:
    arguments = ("embed", "text.txt", "-o", "v.h5", "-m", "tiny-random")
    elmore(*arguments, "--layers", "top")
    before = Path("v.h5").read_bytes()
    text.write_bytes(b"\xff")
    assert elmore(*arguments).code == 1
    assert Path("v.h5").read_bytes() == before
    text.write_text(TEXT)
    assert elmore(*arguments).code == 0
    assert Path("v.h5").read_bytes() != before


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["-o", "v.txt"], "v.txt: vectors are written to .h5, .hdf5 (HDF5), .parquet (Parquet), .npz (NumPy)"),
        (["-o", "none/v.h5"], "none/v.h5: the folder none does not exist; create it first"),
        (["-o", "folder.h5"], "folder.h5: is a folder; name a file to write"),
        (["--layers", "some"], "--layers is 'some'; give all, top, average, a number, or several as in 0,2"),
        (["--layers", "0,7"], "layers is [0, 7]; this model has layers 0 to 2"),
        (["--shard", "9/8"], "there is no part 9/8; parts are numbered 1/8 to 8/8"),
        (["--shard", "0/8"], "there is no part 0/8"),
        (["--shard", "1/2", "--state", "carry"], "a carried state needs every sentence before it"),
        (["--batch-tokens", "0"], "batch_tokens is 0; it must be a whole number, at least 1"),
        (["--device", "gpu"], "the device 'gpu' cannot be used here"),
        (["--model", "no-such-model"], "no-such-model: no such file or folder, and no model of that name"),
        (["--model", "text.txt"], "text.txt: is not a model"),
        (["--options-file", "a.json"], "give a model's name, or both its options file and its weight file"),
        (["--forget-sentences"], "--forget-sentences and --use-sentence-keys require --layout allennlp"),
        (["--tokenized", "--input-format", "fasta"], "--tokenized and --input-format fasta contradict each other"),
        (["--layout", "allennlp", "-o", "v.npz"], "v.npz: the layout of AllenNLP is one of HDF5 files"),
    ],
)
def test_a_mistake_is_told_in_one_line_and_leaves_nothing_behind(elmore, text: Path, options, complaint: str) -> None:
    Path("folder.h5").mkdir()
    before = sorted(text.parent.iterdir())
    ended = elmore("embed", "text.txt", "-o", "v.h5", "--model", "tiny-random", *options)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"elmore: {complaint}")
    assert ended.err.count("\n") == 1
    assert sorted(text.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["none.txt"], "none.txt: no such file"),
        (["empty"], "empty: contains no text"),
        (["*.none"], "*.none: matches no file"),
        (["a.conllu", "--tokenized"], "a.conllu: is conllu by its name"),
        (["treebank", "--tokenized"], "treebank/a.conllu: is conllu by its name"),
        (["treeb*", "--tokenized"], "treebank/a.conllu: is conllu by its name"),
        (["text.txt", "treebank", "--token-style", "ud"], "text.txt: is read as text, and token_style"),
        (["text.txt", "--token-style", "penn"], "text.txt: is read as text, and token_style"),
        (
            ["text.txt", "--token-style", "penn", "--input-format", "fasta"],
            "text.txt: is read as fasta, and token_style",
        ),
    ],
)
def test_embed_rejects_wrong_input_before_it_loads_a_model(
    elmore, text: Path, monkeypatch, arguments, complaint
) -> None:
    monkeypatch.setattr("elmore.model.load", lambda *_, **__: pytest.fail("loaded a model"))
    Path("empty").mkdir()
    Path("treebank").mkdir()
    for path in ("a.conllu", "treebank/a.conllu"):
        Path(path).write_text(CONLLU)
    ended = elmore("embed", *arguments, "-o", "v.h5", "-m", "tiny-random")
    assert (ended.code, ended.err.startswith(f"elmore: {complaint}")) == (1, True)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_named(elmore, text: Path) -> None:
    locked = text.parent / "locked"
    locked.mkdir(mode=0o500)
    ended = elmore("embed", text, "-o", locked / "v.h5", "-m", "tiny-random")
    assert (ended.code, "locked" in ended.err, "Permission denied" in ended.err) == (1, True, True)


def test_without_a_model_it_says_which_can_be_named(elmore, text: Path, monkeypatch) -> None:
    monkeypatch.setattr("elmore.sources._SHIPPED", text.parent / "none")
    ended = elmore("embed", text, "-o", "v.h5")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "name a folder, an archive" in ended.err


class TestStopped:
    """A job that is stopped half-way; a batch of one sentence, so that there is a half."""

    OPTIONS = ("--no-split", "--batch-tokens", "1", "-m", "tiny-random")

    @pytest.fixture
    def stopped(self, elmore, tmp_path: Path, monkeypatch):
        """Runs the command and presses Ctrl-C when it has read `after` sentences."""
        monkeypatch.chdir(tmp_path)
        Path("big.txt").write_text("".join(f"Sentence {n} has its words .\n" for n in range(400)))

        def run(*options: str, after: int):
            read = embed_file.read_sentences

            def stopping(*arguments, **named):
                for number, sentence in read(*arguments, **named):
                    if number == after:
                        raise KeyboardInterrupt
                    yield number, sentence

            with monkeypatch.context() as patch:
                patch.setattr(embed_file, "read_sentences", stopping)
                return elmore("embed", "big.txt", "-o", "v.npz", *self.OPTIONS, *options)

        return run

    def test_the_same_command_goes_on_and_ends_with_the_same_file(self, elmore, stopped) -> None:
        elmore("embed", "big.txt", "-o", "whole.npz", *self.OPTIONS)
        first = stopped(after=350)
        assert first.code == 130
        assert first.err == "stopped; the same command resumes the work\n"
        assert not Path("v.npz").exists()
        second = elmore("embed", "big.txt", "-o", "v.npz", *self.OPTIONS)
        done = int(second.err.split("(")[1].split()[0])
        assert 0 < done <= 350
        assert second.err == f"wrote v.npz: 400 sentences ({done} of them by an earlier try), 2,400 words\n"
        assert Path("v.npz").read_bytes() == Path("whole.npz").read_bytes()
        assert not Path("v.npz.partial").exists()

    def test_before_the_first_sentence_nothing_is_kept(self, stopped) -> None:
        assert stopped(after=0) == (130, "", "stopped; nothing was saved\n")
        assert not Path("v.npz.partial").exists()

    def test_what_cannot_be_gone_on_with_is_not_kept(self, stopped) -> None:
        ended = stopped("--state", "carry", "--batch-size", "2", after=350)
        said = "with --state carry an interrupted job cannot be resumed\n"
        assert ended.err == f"{said}stopped; nothing was saved\n"
        assert not Path("v.npz.partial").exists()

    def test_another_job_is_refused_with_what_differs_and_can_start_over(self, elmore, stopped) -> None:
        stopped(after=350)
        ended = elmore("embed", "big.txt", "-o", "v.npz", *self.OPTIONS, "--layers", "top")
        assert ended.code == 1
        assert 'layers was "average" and is now 2' in ended.err
        assert "--fresh" in ended.err
        ended = elmore("embed", "big.txt", "-o", "v.npz", *self.OPTIONS, "--layers", "top", "--fresh")
        assert ended.err == "wrote v.npz: 400 sentences, 2,400 words\n"

    def test_input_that_changed_meanwhile_is_refused(self, elmore, stopped) -> None:
        stopped(after=350)
        with Path("big.txt").open("a") as file:
            file.write("One more .\n")
        ended = elmore("embed", "big.txt", "-o", "v.npz", *self.OPTIONS)
        assert ended.code == 1
        assert "input_bytes was" in ended.err

    def test_bad_bytes_found_late_can_be_replaced_without_starting_over(self, elmore, stopped) -> None:
        content = Path("big.txt").read_bytes().replace(b"Sentence 355", b"Sent\xffnce 355")
        Path("big.txt").write_bytes(content)
        assert elmore("embed", "big.txt", "-o", "v.npz", *self.OPTIONS).code == 1
        ended = elmore("embed", "big.txt", "-o", "v.npz", *self.OPTIONS, "--errors", "replace")
        assert "by an earlier try" in ended.err
        assert "\ufffd" in open_vectors("v.npz").tokens(355)

    def test_a_second_process_is_kept_out(self, elmore, stopped) -> None:
        stopped(after=350)
        holding = (
            "from filelock import FileLock\nwith FileLock('v.npz.partial/lock'): print('held', flush=True); input()"
        )
        with subprocess.Popen([sys.executable, "-c", holding], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout.readline() == b"held\n"
            ended = elmore("embed", "big.txt", "-o", "v.npz", *self.OPTIONS)
            assert (ended.code, "another process is working on it" in ended.err) == (1, True)
            other.communicate(b"\n", timeout=60)
        assert elmore("embed", "big.txt", "-o", "v.npz", *self.OPTIONS).code == 0
