"""Lines come out of files with the borders of documents between them."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.corpus import documents
from elmore.corpus.documents import common_format, group_lines, read_documents
from elmore.errors import InputError, InputWarning

Read = Callable[..., list[list[str]]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """The documents of a file with this content, as lists of lines; empty ones left out."""

    def reading(
        content: str, *, kind: str = "text", dropped: Counter[str] | None = None, **options: str
    ) -> list[list[str]]:
        path = tmp_path / "input"
        path.write_text(content, encoding="utf-8", newline="")
        found: list[list[str]] = []
        for line in read_documents(
            str(path), format=kind, dropped=Counter() if dropped is None else dropped, **options
        ):
            if line:
                found[-1].append(line)
            else:
                found.append([])
        return [document for document in found if document]

    return reading


@pytest.mark.parametrize("kind", ["text", "tokenized"])
def test_blank_lines_stand_between_documents(read, kind):
    content = "\n\none\ntwo\n \t\nthree\n\n\nfour"
    assert read(content, kind=kind) == [["one", "two"], ["three"], ["four"]]


def test_wikipedia_markup_is_a_border_and_blank_lines_inside_it_are_none(read):
    content = '<doc id="1" title="A > B">\nA > B\n\nText.\n\n</doc>\n\n<doc id="2">\nC\n</doc>\noutside\n\nfurther\n'
    dropped: Counter[str] = Counter()
    assert read(content, dropped=dropped) == [["A > B", "Text."], ["C"], ["outside"], ["further"]]
    assert dropped == {"markup_lines": 4}


def test_a_document_that_is_not_closed_ends_where_the_next_begins(read):
    assert read("<doc id='1'>\na\n\nb\n<doc id='2'>\nc\n") == [["a", "b"], ["c"]]


def test_text_about_markup_is_text(read):
    content = "The line <doc id='1'> opens it.\n\n<docs>\n<doc> and more\n"
    assert read(content) == [["The line <doc id='1'> opens it."], ["<docs>", "<doc> and more"]]


def test_a_tokenised_file_without_borders_is_cut(read):
    lines = [f"line {number}" for number in range(250)]
    assert read("\n".join(lines), kind="tokenized") == [lines[:100], lines[100:200], lines[200:]]
    assert read("\n".join([*lines, "", "end"]), kind="tokenized") == [lines, ["end"]]


def test_a_blank_line_at_either_end_of_a_file_is_no_border(read):
    lines = [f"line {number}" for number in range(150)]
    assert read("\n".join(["", *lines, "", ""]), kind="tokenized") == [lines[:100], lines[100:]]
    assert read("\n".join(["<doc>", *lines, "</doc>"]), kind="tokenized") == [lines]


def test_running_text_is_one_document_unless_it_is_long(read, monkeypatch):
    lines = [f"line {number}" for number in range(250)]
    assert read("\n".join(lines)) == [lines]
    monkeypatch.setattr(documents, "LOOKAHEAD_LINES", 240)
    assert read("\n".join(lines)) == [lines[:100], lines[100:200], lines[200:]]
    # A border that comes late ends the cutting.
    assert read("\n".join([*lines, "", *lines])) == [lines[:100], lines[100:200], lines[200:], lines]


def test_every_protein_is_a_document_of_one_line(read):
    dropped: Counter[str] = Counter()
    content = ">a\nMKV\nla*\n>nothing\n>b\nMX\n"
    assert read(content, kind="fasta", dropped=dropped) == [["MKVLA"], ["MX"]]
    assert dropped == {"empty_sentences": 1}


def test_no_more_is_read_than_the_look_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "LOOKAHEAD_LINES", 2)
    path = tmp_path / "input"
    path.write_bytes(b"one\n\ntwo\n\xff\n")
    lines = read_documents(str(path), format="text", paragraphs="line", dropped=Counter())
    assert [next(lines) for _ in range(4)] == ["", "one", "", "two"]
    with pytest.raises(InputError, match="line 4: not UTF-8"):
        next(lines)


@given(st.lists(st.text("ab\r\u2028 ", max_size=8)), st.integers(1, 30))
def test_blocks_joined_again_are_the_lines(lines, characters):
    blocks = list(group_lines(lines, characters=characters))
    assert [line for block in blocks for line in block.split("\n")] == lines
    assert all(len(block) + 1 >= characters for block in blocks[:-1])


def test_wrapped_lines_are_joined_and_several_blank_ones_part_documents(read):
    content = "It was a\nlong day.\n\nThey went\nhome.\n\n\n\nCHAPTER 2\n\nThe end.\n"
    expected = [["It was a long day.", "They went home."], ["CHAPTER 2", "The end."]]
    assert read(content, paragraphs="blank-line") == expected
    marked = content.replace("\n\n\n\n", "\n</doc>\n<doc>\n")
    assert read(f"<doc>\n{marked}</doc>\n", paragraphs="blank-line") == expected
    assert len(read(content, paragraphs="line")) == 4


def test_wrapping_is_found_out_and_said(read):
    line = "and so it went on and on for many a long day, and nobody knew"
    with pytest.warns(InputWarning, match="look hard-wrapped"):
        assert read("\n".join([line] * 8 + ["", line + "."])) == [[" ".join([line] * 8), line + "."]]


def test_tokenised_lines_are_never_joined(read):
    line = "and so it went on and on for many a long day , and nobody knew"
    assert read("\n".join([line] * 8), kind="tokenized") == [[line] * 8]


def test_names_tell_fasta_from_text():
    assert common_format(["p.fasta"]) == "fasta"
    assert common_format(["b.txt", "-"]) == "text"
    assert common_format(["-"], "tokenized") == "tokenized"
    for files, told, complaint in (
        (["b.txt", "p.fasta"], None, r"b\.txt is text and p\.fasta is FASTA"),
        (["t.conllu"], None, r"t\.conllu: is a treebank"),
        (["t.conll"], None, r"t\.conll: is a treebank"),
        (["b.txt"], "csv", "the format is 'csv'; it must be text, tokenized or fasta"),
    ):
        with pytest.raises(InputError, match=complaint):
            common_format(files, told)
