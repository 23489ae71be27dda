"""Text becomes a corpus: every word in its place, the same bytes whoever does the work, and nothing lost in silence."""

import gzip
import io
import json
import lzma
import sys
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from elmore.corpus import prepare as preparing
from elmore.corpus.corpus import FILES, Corpus, CorpusPart
from elmore.corpus.prepare import prepare
from elmore.errors import InputError, InputWarning, NotFound
from elmore.files.text_files import read_lines
from elmore.progress import Progress
from elmore.text.sentence_reader import read_sentences
from elmore.text.style import TokenizerConfig

Write = Callable[..., str]


@pytest.fixture
def file(tmp_path: Path) -> Write:
    def written(content: str | bytes, name: str = "input.txt") -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return written


def sentences(corpus: Corpus, part: str) -> list[list[str]]:
    """A stream read back as words."""
    stream = getattr(corpus, part).tolist()
    found: list[list[str]] = [[]]
    for number in stream[1:]:
        if number:
            found[-1].append(corpus.types[number])
        else:
            found.append([])
    assert found.pop() == []
    return found


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_small_corpus_comes_out_as_worked_out_by_hand(file, tmp_path):
    source = file("the cat sat\nthe dog\n\nthe bird <S> sat\n\na cat\n")
    # With seed 1 the hash of document 0 is the lowest of the three, so it is held out.
    corpus = prepare([source], tmp_path / "out", input_format="tokenized", heldout=0.25, vocabulary_size=5)
    assert corpus.types == ["<S>", "</S>", "a", "bird", "cat", "sat", "the", "dog"]
    assert corpus.train.tolist() == [0, 6, 3, 5, 0, 2, 4, 0]
    assert corpus.heldout.tolist() == [0, 6, 4, 5, 0, 6, 7, 0]
    assert corpus.vocabulary.words == ("<S>", "</S>", "<UNK>", "a", "bird")
    assert corpus.classes.tolist() == [0, 1, 3, 4, 2, 2, 2, 2]
    assert corpus.style == TokenizerConfig(tokenizer="whitespace", tokenizer_version=2)
    manifest = corpus.manifest
    assert manifest.parts == {
        "train": CorpusPart(documents=2, sentences=2, tokens=5, types=5, unknown_tokens=3, unknown_share=0.6),
        "heldout": CorpusPart(documents=1, sentences=2, tokens=5, types=4, unknown_tokens=5, unknown_share=1.0),
    }
    assert manifest.dropped["boundary_words"]["count"] == 1
    assert manifest.inputs == ({"name": source, "bytes": 45},)
    assert (manifest.seed, manifest.heldout_share, manifest.types) == (1, 0.25, 8)
    assert set(content(tmp_path / "out")) == {*FILES, "manifest.json"}


WORDS = st.text(st.characters(codec="utf-8", exclude_characters=" \t\n\r\f\v"), min_size=1, max_size=4).filter(
    lambda word: word.strip() and not word.startswith("<")
)
DOCUMENTS = st.lists(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4), min_size=2, max_size=8)


@given(DOCUMENTS, st.integers(4, 12), st.floats(0, 0.9), st.integers(0, 3))
def test_no_word_is_lost_and_all_tables_agree(tmp_path_factory, texts, vocabulary_size, heldout, seed):
    folder = tmp_path_factory.mktemp("prepare")
    source = folder / "input.txt"
    text = "\n\n".join("\n".join(" ".join(sentence) for sentence in document) for document in texts)
    source.write_bytes(text.encode())
    corpus = prepare(
        [str(source)],
        folder / "out",
        input_format="tokenized",
        vocabulary_size=vocabulary_size,
        heldout=heldout,
        seed=seed,
    )

    def as_text(several: list[list[str]]) -> list[str]:
        return [" ".join(sentence) for sentence in several]

    train, apart = as_text(sentences(corpus, "train")), as_text(sentences(corpus, "heldout"))
    whole = [as_text(document) for document in texts]
    # Each part is a row of whole documents in their order: take them off one by one.
    for document in whole:
        part = train if train[: len(document)] == document else apart
        if train[: len(document)] == apart[: len(document)] == document:
            break  # alike in both parts, so there is no telling which is which
        assert part[: len(document)] == document
        del part[: len(document)]
    assert Counter(as_text(sentences(corpus, "train")) + as_text(sentences(corpus, "heldout"))) == Counter(
        sentence for document in whole for sentence in document
    )

    counts = np.bincount(corpus.train, minlength=len(corpus.types))
    ranks = [(-int(count), word) for count, word in zip(counts[2:], corpus.types[2:], strict=True)]
    assert ranks == sorted(ranks)
    assert len(corpus.vocabulary) <= vocabulary_size
    unknown = corpus.vocabulary.index["<UNK>"]
    assert corpus.classes.tolist() == [corpus.vocabulary.index.get(word, unknown) for word in corpus.types]
    for part in ("train", "heldout"):
        facts, stream = corpus.manifest.parts[part], getattr(corpus, part)
        assert facts.sentences == np.count_nonzero(stream == 0) - 1
        assert facts.tokens == np.count_nonzero(stream)
        assert facts.unknown_tokens == np.count_nonzero((corpus.classes[stream] == unknown) & (stream > 0))
        assert facts.types == len(set(stream.tolist()) - {0})


def test_the_number_of_workers_does_not_show_in_a_single_byte(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(preparing, "BLOCK_CHARACTERS", 20_000)
    source = tmp_path / "news.txt"
    lines = islice(read_lines(shared / "data" / "text" / "news-01.txt.xz"), 700)
    source.write_text("\n".join(lines), encoding="utf-8")
    written = []
    for workers in (1, 3):
        prepare([str(source)], tmp_path / f"out{workers}", workers=workers, heldout=0.1)
        written.append(content(tmp_path / f"out{workers}"))
    assert written[0] == written[1]


def test_two_workers_do_what_one_does(file, tmp_path, monkeypatch):
    monkeypatch.setattr(preparing, "BLOCK_CHARACTERS", 60)
    source = file("".join(f"Sentence {number} of {number % 7}. Is it?\n\n" for number in range(40)))
    for workers in (1, 2):
        prepare([source], tmp_path / str(workers), workers=workers)
    assert content(tmp_path / "1") == content(tmp_path / "2")


def test_running_text_gives_the_sentences_that_embedding_would_read(shared, tmp_path):
    source = tmp_path / "news.txt"
    lines = islice(read_lines(shared / "data" / "text" / "news-01.txt.xz"), 150)
    source.write_text("\n".join(lines), encoding="utf-8")
    corpus = prepare([str(source)], tmp_path / "out", heldout=0)
    expected = [sentence.words for _, sentence in read_sentences(source, style=TokenizerConfig(tokenizer_version=2))]
    assert sentences(corpus, "train") == expected
    assert corpus.heldout.tolist() == [0]


def test_packed_files_folders_and_standard_input_are_the_same_corpus(file, tmp_path, monkeypatch):
    text = b"One. Two.\n\nThree.\n"
    (tmp_path / "folder").mkdir()
    packed = {
        "a.txt": text,
        "b.txt.gz": gzip.compress(text),
        "c.txt.xz": lzma.compress(text),
        "d.txt.zst": zstandard.compress(text),
        "folder/e.txt": text,
    }
    streams = []
    for number, (name, packing) in enumerate(packed.items()):
        path = Path(file(packing, name))
        corpus = prepare([str(path.parent if "/" in name else path)], tmp_path / str(number))
        streams.append((corpus.train.tolist(), corpus.heldout.tolist(), corpus.types))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    corpus = prepare(["-"], tmp_path / "stdin")
    streams.append((corpus.train.tolist(), corpus.heldout.tolist(), corpus.types))
    assert all(stream == streams[0] for stream in streams)
    assert corpus.manifest.inputs == ({"name": "standard input", "bytes": None},)


def test_proteins_are_read_a_residue_a_word(file, tmp_path):
    corpus = prepare([file(">a\nMKV\n>b\nMM\n", "p.fasta")], tmp_path / "out", heldout=0.1)
    assert sorted([*sentences(corpus, "train"), *sentences(corpus, "heldout")]) == [["M", "K", "V"], ["M", "M"]]
    assert corpus.style == TokenizerConfig(tokenizer="characters", tokenizer_version=2)
    with pytest.raises(InputError, match="lowercase is for text"):
        prepare([file(">a\nMKV\n", "p.fasta")], tmp_path / "other", lowercase=True)


def test_lower_case_is_noted_in_the_style(file, tmp_path):
    corpus = prepare([file("The END\n\nthe end")], tmp_path / "out", lowercase=True, language="de", heldout=0)
    assert corpus.types[2:] == ["end", "the"]
    assert corpus.style == TokenizerConfig(tokenizer_version=2, language="de", lowercase=True)


def test_a_vocabulary_from_a_file_is_taken_as_it_is(file, tmp_path):
    vocabulary = file("<UNK>\nb\n</S>\nnever\n<S>\n", "vocab.txt")
    corpus = prepare(
        [file("b <UNK> b b b b b b b\n\nb")], tmp_path / "o", input_format="tokenized", vocabulary=vocabulary, heldout=0
    )
    assert corpus.vocabulary.words == ("<UNK>", "b", "</S>", "never", "<S>")
    assert dict(zip(corpus.types, corpus.classes.tolist(), strict=True)) == {"<S>": 4, "</S>": 2, "b": 1, "<UNK>": 0}
    assert corpus.manifest.vocabulary == {"words": 5, "origin": f"the file {vocabulary}"}
    assert corpus.manifest.parts["train"].unknown_share == 0.1


def test_what_will_be_read_changed_is_counted_with_its_reason(file, tmp_path):
    source = file(b"x " + b"w" * 49 + b" " + "é".encode() * 24 + b" a\xc2\xa0 \xff\n\n" + b"w" * 49)
    with pytest.raises(InputError, match=r"line 1: not UTF-8 .* --errors replace"):
        prepare([source], tmp_path / "out", input_format="tokenized")
    assert not (tmp_path / "out").exists()
    corpus = prepare([source], tmp_path / "out", input_format="tokenized", errors="replace", heldout=0)
    changed = {name: (change["types"], change["tokens"]) for name, change in corpus.manifest.changed.items()}
    assert changed == {"long_words": (1, 2), "unlisted_words": (1, 1), "replaced_characters": (1, 1)}
    assert all(change["why"] for change in corpus.manifest.changed.values())
    assert "a\u00a0" in corpus.types
    assert "a\u00a0" not in corpus.vocabulary.words


def test_one_document_leaves_nothing_to_hold_out_and_says_so(file, tmp_path):
    with pytest.warns(InputWarning, match="one document, so nothing was held out"):
        corpus = prepare([file("One. Two.")], tmp_path / "out")
    assert corpus.heldout.tolist() == [0]
    assert corpus.manifest.parts["heldout"].tokens == 0


def test_another_seed_holds_other_documents_out(file, tmp_path):
    source = file("".join(f"w{number}\n\n" for number in range(200)))
    is_heldout = [
        sentences(prepare([source], tmp_path / str(seed), heldout=0.1, seed=seed), "heldout") for seed in (1, 2)
    ]
    assert is_heldout[0] != is_heldout[1]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"vocabulary_size": 9, "vocabulary": "v"}, "give vocabulary_size or vocabulary, not both"),
        ({"vocabulary_size": 3}, "vocabulary_size is 3; it must be at least 4"),
        ({"heldout": 1.0}, "heldout is 1.0; it must be a share"),
        ({"heldout": float("nan")}, "heldout is nan"),
        ({"workers": 0}, "workers is 0; it must be at least 1"),
        ({"errors": "ignore"}, "errors is 'ignore'; it must be strict or replace"),
        ({"language": "english"}, "an ISO code"),
        ({"vocabulary": "none.txt"}, "none.txt: no such file"),
        ({"vocabulary_size": 10.5}, "vocabulary_size is 10.5; it must be a whole number"),
        ({"vocabulary_size": "9"}, "vocabulary_size is '9'; it must be a whole number"),
        ({"heldout": "0.1"}, "heldout is '0.1'; it must be a number"),
        ({"seed": "a"}, "seed is 'a'; it must be a whole number"),
        ({"seed": None}, "seed is None; it must be a whole number"),
        ({"seed": 2**70}, "seed is too large a number"),
        ({"workers": 1.5}, "workers is 1.5; it must be a whole number"),
        ({"lowercase": "no"}, "lowercase is 'no'; it must be true or false"),
        ({"language": 3}, "language is 3; it must be a string"),
        ({"paragraphs": "page"}, "paragraphs is 'page'; it must be"),
        ({"input_format": "conllu"}, "input_format is 'conllu'; it must be one of text, tokenized, fasta"),
    ],
)
def test_impossible_wishes_are_refused_before_the_work(file, tmp_path, options, complaint):
    def no_text(*_: object, **__: object) -> None:
        pytest.fail("text was read")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elmore.corpus.prepare.read_documents", no_text)
        with pytest.raises((InputError, NotFound), match=complaint):
            prepare([file("Text.")], tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_prepare_accepts_numbers_of_numpy(file, tmp_path):
    text = file("One two. Three.\n\nFour.\n\nFive.")
    options = {"vocabulary_size": np.int64(5), "heldout": np.float64(0.5), "seed": np.int32(3), "workers": np.int8(1)}
    corpus = prepare([text], tmp_path / "out", **options)
    assert (len(corpus.vocabulary), corpus.manifest.seed, corpus.manifest.heldout_share) == (5, 3, 0.5)


def test_a_corpus_without_words_or_files_is_refused(file, tmp_path):
    with pytest.raises(InputError, match=r"input\.txt: no words"):
        prepare([file("\n \n<doc id='1'>\n</doc>\n")], tmp_path / "out")
    with pytest.raises(NotFound, match=r"\*\.txt: matches no file"):
        prepare([f"{tmp_path}/none/*.txt"], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["input.txt"]


def test_a_folder_that_holds_something_is_left_alone(file, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").touch()
    with pytest.raises(InputError, match=r"out: holds thesis\.txt, which would be lost"):
        prepare([file("Text.")], tmp_path / "out")


def test_progress_hears_of_every_sentence_word_and_byte(file, tmp_path):
    heard, read = [], []

    class Listening(Progress):
        def advance(self, sentences: int, tokens: int) -> None:
            heard.append((sentences, tokens))

        def read(self, size: int) -> None:
            read.append(size)

    source = file("One two. Three.\n\nFour.")
    prepare([source], tmp_path / "out", progress=Listening())
    assert [sum(numbers) for numbers in zip(*heard, strict=True)] == [3, 7]
    assert sum(read) == Path(source).stat().st_size


@pytest.mark.skipif(sys.platform != "linux", reason="other systems allow no such names")
def test_a_file_name_that_is_not_utf8_is_kept(tmp_path):
    source = tmp_path / "\udcff.txt"
    source.write_text("Text.")
    assert prepare([source], tmp_path / "out", heldout=0).manifest.inputs == ({"name": str(source), "bytes": 5},)


def test_the_manifest_is_plain_json_without_a_trace_of_time_or_machine(file, tmp_path):
    source = file("Übung.\n\nText.")
    for number in (1, 2):
        prepare([source], tmp_path / str(number))
    assert content(tmp_path / "1") == content(tmp_path / "2")
    assert json.loads((tmp_path / "1" / "manifest.json").read_text(encoding="utf-8"))["format"] == "elmore-corpus"


def test_text_without_blanks_between_words_is_told_by_the_one_who_speaks(file, tmp_path):
    with pytest.warns(InputWarning, match="the text has no spaces between words"):
        prepare([file("我们去北京。\n\n我们去北京。\n")], tmp_path / "out", heldout=0)
