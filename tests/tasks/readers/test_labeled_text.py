"""Labelled texts come out of tables, JSON lines and fastText's files, and what is no example is named by its line."""

import gzip

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.labeled_text import LabeledText, read_labeled_text


@pytest.fixture
def file(tmp_path):
    def write(name: str, content: str):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8", newline="")
        return path

    return write


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", 'Good film\tpos\nA "bad one\tneg\n'),
        ("a.tsv", 'sentence\tlabel\nGood film\tpos\nA "bad one\tneg\n'),
        ("a.tsv", 'id\tLabel\tText\r\n1\tpos\tGood film\r\n2\tneg\tA "bad one\r\n'),
        ("a.csv", 'Good film,pos\n"A ""bad one",neg\n'),
        ("a.csv", 'label,text\npos,Good film\nneg,"A ""bad one"\n'),
        ("a.jsonl", '{"text": "Good film", "label": "pos"}\n\n{"sentence": "A \\"bad one", "label": "neg", "x": 1}\n'),
        ("a.txt", '__label__pos Good film\n__label__neg A "bad one\n'),
    ],
)
def test_text_and_label_are_found_in_every_format(file, name, content):
    assert [text[:2] for text in read_labeled_text(file(name, content))] == [
        ("Good film", "pos"),
        ('A "bad one', "neg"),
    ]


def test_a_quoted_text_may_go_over_several_lines_and_every_text_knows_its_first(file):
    path = file("a.csv", 'text,label\n"one\ntwo, three",a\nfour,b\n\n"five\n\nsix",a\nseven,b\n')
    assert read_labeled_text(path) == [
        LabeledText("one\ntwo, three", "a", 2),
        LabeledText("four", "b", 4),
        LabeledText("five\n\nsix", "a", 6),
        LabeledText("seven", "b", 9),
    ]


def test_lines_end_where_files_end_them_and_nowhere_else(file):
    assert read_labeled_text(file("a.tsv", "one\u2028two\u0085\ta\n")) == [LabeledText("one\u2028two\u0085", "a", 1)]
    assert read_labeled_text(file("a.csv", "one\u2028two,a\n")) == [LabeledText("one\u2028two", "a", 1)]


def test_columns_go_by_name_and_by_number(file):
    path = file("a.csv", "id,class,review\n1,pos,Good\n")
    assert read_labeled_text(path, text_column="review", label_column="Class") == [LabeledText("Good", "pos", 2)]
    assert read_labeled_text(path, text_column=-1, label_column="class") == [LabeledText("Good", "pos", 2)]
    assert read_labeled_text(path, text_column=2, label_column=1, header=True) == [LabeledText("Good", "pos", 2)]
    bare = file("b.csv", "1,pos,Good\n")
    assert read_labeled_text(bare, text_column=2, label_column=1) == [LabeledText("Good", "pos", 1)]
    path = file("a.tsv", "text\tlabel\n")
    assert read_labeled_text(path, header=False) == [LabeledText("text", "label", 1)]
    path = file("a.jsonl", '{"review": "Good", "stars": 5, "good": true}')
    assert read_labeled_text(path, text_column="review", label_column="stars")[0].label == "5"
    assert read_labeled_text(path, text_column="review", label_column="good")[0].label == "true"


def test_packed_files_and_other_names_are_read(tmp_path):
    path = tmp_path / "train.tsv.gz"
    path.write_bytes(gzip.compress(b"Good\tpos\n"))
    assert read_labeled_text(path) == [LabeledText("Good", "pos", 1)]
    assert read_labeled_text(path.rename(tmp_path / "train.data"), format="tsv") == [LabeledText("Good", "pos", 1)]


@pytest.mark.parametrize(
    ("name", "content", "options", "told"),
    [
        ("a.xml", "x", {}, r"a\.xml: which format has it\?"),
        ("a.tsv", "", {}, r"a\.tsv: holds no labelled texts"),
        ("a.tsv", "text\tlabel\n", {}, r"a\.tsv: holds no labelled texts"),
        ("a.tsv", "Good\tpos\nBad\n", {}, r"a\.tsv, line 2: 2 columns are due, as in the first line, and here are 1"),
        ("a.tsv", "Good\tpos\nBad\tfilm\tneg\n", {}, "line 2: 2 columns are due, .* here are 3"),
        ("a.tsv", "a\tb\tc\n", {}, r"line 1: which of 3 columns is the text\?"),
        (
            "a.tsv",
            "review\tlabel\nx\ty\n",
            {},
            r"line 1: which of the columns review, label is the text\? Say its name",
        ),
        ("a.tsv", "text\tsentence\tlabel\n", {}, "line 1: more than one column may be the text: text, sentence, label"),
        ("a.tsv", "Good\tpos\n", {"text_column": "review"}, "line 1: there is no column 'review'; .* has Good, pos"),
        ("a.tsv", "Good\tpos\n", {"text_column": 2}, "line 1: there is no column 2, counted from 0; here are 2"),
        ("a.tsv", "Good\tpos\n", {"text_column": 1}, "line 1: column 1 is to be both text and label"),
        ("a.tsv", "a\tb\n", {"text_column": "a", "header": False}, "line 1: without a first line of names, .* by 'a'"),
        ("a.tsv", "Good\tpos\n \tpos\n", {}, "line 2: the text is empty"),
        ("a.tsv", "Good\tpos\nBad\t\n", {}, "line 2: the label is empty"),
        ("a.csv", 'Good,pos\n"Bad"x,neg\n', {}, "line 2: no CSV: "),
        ("a.csv", 'Good,pos\n"Bad,neg\n\n', {}, "line 2: no CSV: unexpected end of data"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text"\n',
            {},
            "line 2: no JSON: Expecting ':' delimiter at column 8$",
        ),
        ("a.jsonl", "[1]\n", {}, "line 1: expected an object"),
        ("a.jsonl", '{"text": 3, "label": 1}', {}, "line 1: the text is to be a string, and is 3"),
        ("a.jsonl", '{"text": "a", "label": 1.5}', {}, "line 1: the label is to be a string, .* and is 1.5"),
        ("a.jsonl", '{"text": "a", "label": null}', {}, "line 1: the label is to be a string, .* and is None"),
        ("a.jsonl", '{"review": "a", "label": 1}', {}, "line 1: has no field 'text or sentence'; it has review, label"),
        ("a.jsonl", '{"text": "a", "sentence": "a", "label": 1}', {}, "line 1: has both text and sentence"),
        ("a.jsonl", '{"text": "a", "label": 1}', {"label_column": 1}, "go by name, and not by number"),
        ("a.txt", "__label__a b\nno label\n", {}, "line 2: expected __label__ and a label"),
        ("a.txt", "__label__ b\n", {}, "line 1: expected __label__ and a label"),
        ("a.txt", "__label__a __label__b c\n", {}, "line 1: has several labels"),
        ("a.txt", "__label__a\n", {}, "line 1: the text is empty"),
    ],
)
def test_what_is_no_example_is_named(file, name, content, options, told):
    with pytest.raises(InputError, match=told):
        read_labeled_text(file(name, content), **options)


def test_real_json_lines_are_read(shared):
    path = shared / "data" / "tasks" / "sts" / "sick-trial.jsonl.xz"
    found = read_labeled_text(path, text_column="sentence1", label_column="gold_label")
    # 500 pairs, says the README there.
    assert len(found) == 500
    assert {text.label for text in found} == {"neutral", "entailment", "contradiction"}
