"""Sentences come out of files of every kind, one by one, and none is lost."""

import gzip
from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError, NotFound
from elmore.files.input_files import format_of
from elmore.text import tokenizer
from elmore.text.conll import column_sentences
from elmore.text.paragraphs import Paragraphs
from elmore.text.sentence_reader import ResumePoint, read_sentences
from elmore.text.style import TokenizerConfig
from elmore.text.tokenizer import Tokenizer

MOSES = TokenizerConfig()


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def written(content: str, name: str = "input.txt") -> Path:
        path = tmp_path / name
        path.write_text(content, encoding="utf-8", newline="")
        return path

    return written


class Plain(NamedTuple):
    """A sentence without its digest."""

    words: list[str]
    label: str
    line: int


def sentences(path: Path, *, style: TokenizerConfig = MOSES, **options: object) -> list[Plain]:
    return [Plain(*sentence[:3]) for _, sentence in read_sentences(path, style=style, **options)]


def test_running_text_is_split_and_tokenised(file):
    path = file("I took a bow. Why?\n\nDon't ask.\n")
    assert sentences(path) == [
        (["I", "took", "a", "bow", "."], "", 1),
        (["Why", "?"], "", 1),
        (["Don", "'t", "ask", "."], "", 3),
    ]


def test_without_splitting_lines_and_sentences_agree(file):
    assert sentences(file("A. B.\n\nC\n"), split=False) == [(["A.", "B."], "", 1), ([], "", 2), (["C"], "", 3)]


def test_the_style_decides_over_words_and_case(file):
    assert sentences(file("AB 'c"), style=TokenizerConfig(lowercase=True, escape=True))[0].words == [
        "ab",
        "&apos;",
        "c",
    ]
    assert sentences(file("AB c"), style=TokenizerConfig(tokenizer="characters"))[0].words == ["A", "B", "c"]


def test_tokenised_words_are_taken_as_they_are(file):
    path = file("<S> don't 10\u00a0000 .  \n \n</S>\u2028x")
    assert sentences(path, format="tokenized", style=TokenizerConfig(lowercase=True)) == [
        (["<S>", "don't", "10\u00a0000", "."], "", 1),
        ([], "", 2),
        (["</S>\u2028x"], "", 3),
    ]


def tree(*forms: str, first: int = 1) -> str:
    return "".join(f"{number}\t{form}" + "\t_" * 8 + "\n" for number, form in enumerate(forms, first))


def test_treebanks_give_their_syntactic_words(file):
    content = "# newdoc\n# sent_id = s-1 \n# text = vámonos al mar\n1-2\tvámonos" + "\t_" * 8 + "\n"
    content += tree("vamos", "nos") + "2.1\tempty" + "\t_" * 8 + "\n" + tree("al mar", "#", first=3)
    content += "\n\n\r\n#sent_id=two\r\n" + tree("Fin").replace("\n", "\r\n")
    assert sentences(file(content, "es.conllu")) == [(["vamos", "nos", "al mar", "#"], "s-1", 1), (["Fin"], "two", 13)]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (tree("a") + "EU NNP B-NP B-ORG\n", r"x\.conllu, line 2: has 1 columns; CoNLL-U requires 10"),
        (tree("a", "b") + tree("c"), r"x\.conllu, line 3: the word has number '1'; it must be 3"),
        ("x" + tree("a"), r"x\.conllu, line 1: the word has number 'x1'; it must be 1"),
        (tree("a", ""), r"x\.conllu, line 2: the word \(second column\) is missing"),
    ],
)
def test_a_malformed_treebank_is_named_with_its_line(file, content, complaint):
    with pytest.raises(InputError, match=complaint):
        sentences(file(content, "x.conllu"))


def test_proteins_are_read_residue_by_residue(file):
    content = "\n>sp|P1|X first one\nMk\n v L\n\n>empty\n>\nA*\n>last\nGG\n*"
    assert sentences(file(content, "p.fasta")) == [
        (["M", "K", "V", "L"], "sp|P1|X", 2),
        ([], "empty", 6),
        (["A"], "", 7),
        (["G", "G"], "last", 9),
    ]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("MKV\n>a\n", r"p\.faa, line 1: a sequence without a header"),
        (">a\nMK\nM-V\n", r"p\.faa, line 3: '-' is not an amino acid"),
        (">a\n1 MK\n", r"p\.faa, line 2: '1' is not an amino acid"),
        (">a\nMß\n", r"p\.faa, line 2: 'ß' is not an amino acid"),
        (">a\nM*K\n", r"p\.faa, line 2: '\*' is not an amino acid"),
        (">a\nM*\nK\n", r"p\.faa, line 3: the sequence continues after \*"),
    ],
)
def test_a_malformed_protein_is_named_with_its_line(file, content, complaint):
    with pytest.raises(InputError, match=complaint):
        sentences(file(content, "p.faa"))


@pytest.mark.parametrize("name", ["a.txt", "a.conllu", "a.fasta"])
def test_an_empty_file_has_no_sentences(file, name):
    assert sentences(file("", name)) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.conllu", "conllu"),
        ("a.CoNLL.xz", "conll"),
        ("a.b.fa.gz", "fasta"),
        ("a.faa", "fasta"),
        ("a.fasta.zst", "fasta"),
        ("a.txt.gz", "text"),
        ("fasta", "text"),
        ("a.gz", "text"),
        ("-", "text"),
    ],
)
def test_the_name_of_a_file_tells_its_format(name, expected):
    assert format_of(name) == expected


def test_a_packed_file_is_read_by_the_name_inside(tmp_path):
    path = tmp_path / "p.fa.gz"
    path.write_bytes(gzip.compress(b">x\nMK\n"))
    assert sentences(path) == [(["M", "K"], "x", 1)]


def test_bad_bytes_are_an_error_or_replaced(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"fine.\nb\xffd\n")
    with pytest.raises(InputError, match=r"bad\.txt, line 2: not UTF-8"):
        sentences(path)
    assert sentences(path, errors="replace", format="tokenized")[1].words == ["b\ufffdd"]


def test_wrong_arguments_are_said_before_anything_is_read(tmp_path):
    for shard in ((0, 3), (4, 3), (1, 0)):
        with pytest.raises(InputError, match=f"no part {shard[0]}/{shard[1]}"):
            read_sentences(tmp_path / "x", style=MOSES, shard=shard)
    with pytest.raises(InputError, match="the format is 'xml'; it must be text, tokenized, conllu, conll or fasta"):
        read_sentences(tmp_path / "x", style=MOSES, format="xml")
    with pytest.raises(NotFound, match="x: no such file"):
        next(read_sentences(tmp_path / "x", style=MOSES))


@given(lines=st.lists(st.sampled_from(["", "A. B.", "c", "D! E? F."])), parts=st.integers(1, 5), split=st.booleans())
def test_the_parts_together_are_the_whole(tmp_path_factory, lines, parts, split):
    path = tmp_path_factory.mktemp("parts") / "a.txt"
    path.write_text("\n".join(lines))
    whole = list(read_sentences(path, style=MOSES, split=split))
    cut = [list(read_sentences(path, style=MOSES, split=split, shard=(part, parts))) for part in range(1, parts + 1)]
    assert sorted(chain.from_iterable(cut)) == whole
    assert [number for number, _ in whole] == list(range(len(whole)))
    assert all(number % parts == part for part, found in enumerate(cut) for number, _ in found)


def test_sentences_of_other_parts_are_not_tokenised(file, monkeypatch):
    tokenised = []
    real = tokenizer.Tokenizer.tokenize
    monkeypatch.setattr(tokenizer.Tokenizer, "tokenize", lambda self, text: tokenised.append(text) or real(self, text))
    found = list(read_sentences(file("One.\nTwo.\nThree.\nFour."), style=MOSES, shard=(2, 3)))
    assert [(number, sentence[:3]) for number, sentence in found] == [(1, (["Two", "."], "", 2))]
    assert tokenised == ["Two."]


def test_reading_begins_before_the_file_ends(tmp_path):
    path = tmp_path / "cut.txt.gz"
    path.write_bytes(gzip.compress(b"A sentence here.\n" * 200_000)[:-100])
    assert len(list(islice(read_sentences(path, style=MOSES), 10))) == 10
    with pytest.raises(InputError, match="cut short"):
        list(read_sentences(path, style=MOSES, format="tokenized"))


def test_the_english_web_treebank_is_read_whole(shared):
    found = sentences(shared / "data" / "tasks" / "pos" / "en_ewt-ud-test.conllu.xz")
    # The lines that grep finds there with a sent_id, and with a whole number at their start.
    assert len(found) == 2077
    assert sum(len(sentence.words) for sentence in found) == 25094
    assert all(sentence.label for sentence in found)


def test_a_treebank_keeps_all_its_columns(file):
    rows = [("1", "Cats", "cat", "NOUN", "NNS", "_", "2", "nsubj", "_", "_"), ("2", "purr", *"abcdefgh")]
    ((_, found),) = read_sentences(file("\n".join("\t".join(row) for row in rows), "a.conllu"), style=MOSES)
    assert found.columns == tuple(rows)
    assert found.words == ["Cats", "purr"]


def test_other_column_files_are_read_and_keep_their_columns(file):
    content = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\n# SYM I-NP O\n\n# a comment\nBrussels NNP B-NP B-LOC\n"
    found = [sentence for _, sentence in read_sentences(file(content, "a.conll"), style=MOSES)]
    assert [sentence.words for sentence in found] == [["EU", "#"], ["Brussels"]]
    assert found[0].columns == (("EU", "NNP", "B-NP", "B-ORG"), ("#", "SYM", "I-NP", "O"))
    assert [sentence.line for sentence in found] == [3, 6]


def test_where_the_first_column_counts_the_second_has_the_word(file):
    numbered = "1\tEr\t_\n2\tgeht\t_\n\n1\tJa\t_\n"
    assert [sentence.words for sentence in sentences(file(numbered, "a.conll"))] == [["Er", "geht"], ["Ja"]]
    # A sentence may begin with a number all the same.
    assert sentences(file("1 CD\nMay NNP\n", "b.conll"))[0].words == ["1", "May"]


def test_a_sentence_that_is_a_number_does_not_turn_the_columns_round(file):
    # One such sentence alone would look as if its first column numbered its words.
    found = sentences(file("1 CD\n\nMay NNP\n\n1 CD\n2 CD\n", "a.conll"))
    assert [sentence.words for sentence in found] == [["1"], ["May"], ["1", "2"]]


def test_words_that_are_numbered_no_longer_are_an_error(file):
    content = "1\tEr\n2\tgeht\n\n" * 100 + "Ja\t_\n"
    with pytest.raises(InputError, match=r"a\.conll, line 301: column 1 does not number the words of this sentence"):
        sentences(file(content, "a.conll"))


def test_a_word_in_columns_may_hold_a_no_break_space(file):
    (found,) = sentences(file("8\u00a01/2 CD\n\u00a0 SP\n\u00a0\n", "a.conll"))
    assert found.words == ["8\u00a01/2", "\u00a0", "\u00a0"]


def test_every_word_of_a_column_file_knows_its_line():
    lines = ["# sent_id = x", "1\ta\t_", "2-3\tb\t_", "2\tb\t_", "3\tc\t_"]
    (found,) = column_sentences(enumerate(lines, start=1), name="x")
    assert (found.line, found.word_lines, found.word_column) == (1, (2, 4, 5), 1)


def test_where_the_third_column_counts_the_fourth_has_the_word(file):
    rows = ["bc/x 0 0 Go VB * -", "bc/x 0 1 on RP * -", "", "bc/x 0 0 . . * -", "", "#end document"]
    path = file("\n".join(["#begin document (bc/x); part 000", *rows]), "a.conll")
    assert [sentence.words for sentence in sentences(path)] == [["Go", "on"], ["."]]


def test_a_line_without_its_word_is_refused():
    lines = enumerate(["1\tGo\tVB", "2\t\tRP"], start=1)
    with pytest.raises(InputError, match=r"x, line 2: the word \(column 2\) is missing"):
        next(column_sentences(lines, name="x"))


def test_several_files_are_read_as_one_and_every_sentence_knows_its_own(file):
    paths = [file("One. Two.", "a.txt"), file(tree("Three"), "b.conllu"), file(">x\nMK", "c.fasta")]
    found = list(read_sentences(paths, style=MOSES))
    assert [number for number, _ in found] == [0, 1, 2, 3]
    assert [sentence.source for _, sentence in found] == [str(paths[0]), str(paths[0]), str(paths[1]), str(paths[2])]
    assert [sentence.line for _, sentence in found] == [1, 1, 1, 1]
    for read, (_, last) in enumerate(found, start=1):
        assert list(read_sentences(paths, style=MOSES, after=ResumePoint(read, last.digest))) == found[read:]
    parts = [list(read_sentences(paths, style=MOSES, shard=(part, 3))) for part in (1, 2, 3)]
    assert sorted(chain.from_iterable(parts)) == found


def test_hard_wrapped_paragraphs_are_put_together_and_sentences_know_their_line(file):
    path = file("It was a long\nday. They went\nhome.\n\nThe\nend.\n")
    found = sentences(path, paragraphs="blank-line")
    assert [" ".join(sentence.words) for sentence in found] == ["It was a long day .", "They went home .", "The end ."]
    assert [sentence.line for sentence in found] == [1, 2, 5]
    assert len(sentences(path, paragraphs="line")) == 6
    with pytest.raises(InputError, match="without splitting each line is a sentence"):
        sentences(path, paragraphs="blank-line", split=False)


class TestGoingOn:
    """Reading after what was read before."""

    TEXT = "One here. Two there.\nThree.\n\nFour.\nFive.\n"

    @pytest.mark.parametrize("options", [{}, {"split": False}, {"format": "tokenized"}, {"shard": (2, 3)}])
    def test_it_goes_on_after_any_sentence_with_what_is_left(self, file, options):
        path = file(self.TEXT)
        whole = list(read_sentences(path, style=MOSES, **options))
        assert len({sentence.digest for _, sentence in whole}) == len(whole)
        for read, (_, last) in enumerate(whole, start=1):
            after = ResumePoint(read, last.digest)
            assert list(read_sentences(path, style=MOSES, after=after, **options)) == whole[read:]

    def test_what_was_read_before_is_not_tokenised_again(self, file, monkeypatch):
        path = file(self.TEXT)
        *_, (_, third), _, _ = read_sentences(path, style=MOSES)
        tokenised = []
        tokenize = Tokenizer.tokenize
        monkeypatch.setattr(Tokenizer, "tokenize", lambda self, text: tokenised.append(text) or tokenize(self, text))
        list(read_sentences(path, style=MOSES, after=ResumePoint(3, third.digest)))
        assert tokenised == ["Four.", "Five."]

    @pytest.mark.parametrize("changed", ["One hers. Two there.\nThree.\n\nFour.\nFive.\n", "One here.\n", ""])
    def test_an_input_that_begins_otherwise_is_an_error(self, file, changed):
        path = file(self.TEXT)
        *_, (_, third), _, _ = read_sentences(path, style=MOSES)
        path.write_text(changed)
        with pytest.raises(InputError, match=r"input\.txt: has changed since its first 3 sentences were read"):
            list(read_sentences(path, style=MOSES, after=ResumePoint(3, third.digest)))

    def test_what_comes_later_may_change(self, file):
        path = file(self.TEXT)
        *_, (_, third), _, _ = read_sentences(path, style=MOSES)
        path.write_text(self.TEXT.replace("Five", "Six"))
        found = list(read_sentences(path, style=MOSES, after=ResumePoint(3, third.digest)))
        assert [sentence.words for _, sentence in found] == [["Four", "."], ["Six", "."]]

    def test_words_and_labels_of_a_treebank_are_told_apart(self, file):
        def digest(content: str) -> str:
            return next(read_sentences(file(content, "a.conllu"), style=MOSES))[1].digest

        word = "\t".join("_" * 8)
        one = digest(f"# sent_id = s1\n1\ta b\t{word}\n")
        assert one != digest(f"# sent_id = s1\n1\ta\t{word}\n2\tb\t{word}\n")
        assert one != digest(f"# sent_id = s2\n1\ta b\t{word}\n")


@pytest.mark.parametrize("paragraphs", [None, "line", "blank-line"])
def test_bytes_are_told_of_when_their_sentences_come_however_far_ahead_lines_are_looked_at(
    tmp_path: Path, paragraphs: Paragraphs | None
) -> None:
    lines = ["One here. And two.", "", "Three.", "", "Four é."]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    ends = [sum(len(line.encode()) + 1 for line in lines[: i + 1]) for i in range(len(lines))]
    told: list[int] = []
    read = read_sentences(path, style=TokenizerConfig(), paragraphs=paragraphs, on_read=told.append)
    assert [sum(told) for _ in read] == [ends[0], ends[0], ends[2], ends[4]]
