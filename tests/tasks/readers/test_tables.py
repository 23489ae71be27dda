"""Labelled texts come out of tables, JSON lines and fastText's files, and what is no example is named by its line."""

import gzip
import json
import lzma

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.tables import (
    LabeledText,
    PairColumns,
    SentencePair,
    parse_pair,
    read_labeled_text,
    read_sentence_pairs,
)


@pytest.fixture
def file(tmp_path):
    def write(name: str, content: str):
        path = tmp_path / name
        path.write_bytes(lzma.compress(content.encode()) if name.endswith(".xz") else content.encode())
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
    bare = file("b.csv", "1,pos,Good\n")
    assert read_labeled_text(bare, text_column=2, label_column=1) == [LabeledText("Good", "pos", 1)]

    path = file("a.jsonl", '{"review": "Good", "stars": 5, "good": true}')
    assert read_labeled_text(path, text_column="review", label_column="stars")[0].label == "5"
    assert read_labeled_text(path, text_column="review", label_column="good")[0].label == "true"


def test_packed_files_and_other_names_are_read(tmp_path):
    path = tmp_path / "train.tsv.gz"
    path.write_bytes(gzip.compress(b"Good\tpos\n"))
    assert read_labeled_text(path) == [LabeledText("Good", "pos", 1)]


@pytest.mark.parametrize(
    ("name", "content", "options", "told"),
    [
        ("a.xml", "x", {}, r"a\.xml: unknown format"),
        ("a.tsv", "", {}, r"a\.tsv: contains no rows with text and label"),
        ("a.tsv", "text\tlabel\n", {}, r"a\.tsv: contains no rows with text and label"),
        ("a.tsv", "Good\tpos\nBad\n", {}, r"a\.tsv, line 2: expected 2 columns, as in the first line"),
        ("a.tsv", "Good\tpos\nBad\tfilm\tneg\n", {}, "line 2: expected 2 columns, as in the first line"),
        (
            "a.tsv",
            "a\tb\tc\n",
            {},
            "line 1: cannot determine which of 3 columns are text, label: the first line has no column",
        ),
        (
            "a.tsv",
            "review\tlabel\nx\ty\n",
            {},
            "line 1: no column or field for the text: expected one of text, sentence",
        ),
        (
            "a.tsv",
            "text\tsentence\tlabel\n",
            {},
            "line 1: more than one column may be the text: expected one of text, sentence",
        ),
        (
            "a.tsv",
            "Good\tpos\n",
            {"text_column": "review"},
            "line 1: no column or field for the text: expected one of review; there are good, pos",
        ),
        (
            "a.tsv",
            "Good\tpos\n",
            {"text_column": 2},
            "line 1: there is no column 2; columns are numbered from 0, and there are 2",
        ),
        ("a.tsv", "Good\tpos\n", {"text_column": 1}, "line 1: column 1 is selected for both text and label"),
        ("a.tsv", "Good\tpos\n \tpos\n", {}, "line 2: the text is empty"),
        ("a.tsv", "Good\tpos\nBad\t\n", {}, "line 2: the label is empty"),
        ("a.csv", 'Good,pos\n"Bad"x,neg\n', {}, "line 2: invalid CSV: ',' expected after"),
        ("a.csv", 'Good,pos\n"Bad,neg\n\n', {}, "line 2: invalid CSV: unexpected end of data"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text"\n',
            {},
            "line 2: invalid JSON: Expecting ':' delimiter at column 8",
        ),
        ("a.jsonl", "[1]\n", {}, r"line 1: expected a JSON object, such as \{…\}, not '\[1\]'"),
        ("a.jsonl", '{"text": 3, "label": 1}', {}, "line 1: the text must be a string, not 3"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1.5}',
            {},
            r"line 1: the label must be a string, an integer or a boolean, not 1\.5",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": null}',
            {},
            "line 1: the label must be a string, an integer or a boolean, not None",
        ),
        (
            "a.jsonl",
            '{"review": "a", "label": 1}',
            {},
            "line 1: no column or field for the text: expected one of text, sentence; there are review, label",
        ),
        (
            "a.jsonl",
            '{"text": "a", "sentence": "a", "label": 1}',
            {},
            "line 1: more than one column may be the text: expected one of text, sentence",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}',
            {"label_column": 1},
            r"fields of JSON lines are selected by name, not by number \(1\)",
        ),
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


SNLI = {"sentence1": "A man sleeps.", "sentence2": "He is awake.", "gold_label": "contradiction", "pairID": "1"}
PAIR = SentencePair("A man sleeps.", "He is awake.", "contradiction", 1)


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("snli.jsonl", json.dumps(SNLI), 1),
        ("snli.jsonl.xz", f"\n{json.dumps(SNLI)}\n", 2),
        ("a.jsonl", '{"premise": "A man sleeps.", "hypothesis": "He is awake.", "label": "contradiction"}', 1),
        (
            "snli.txt",
            "gold_label\tsentence1_parse\tsentence1\tsentence2\ncontradiction\t()\tA man sleeps.\tHe is awake.",
            2,
        ),
        ("a.tsv", "A man sleeps.\tHe is awake.\tcontradiction \n", 1),
        ("a.csv", 'hypothesis,"premise",label\n"He is awake.",A man sleeps.,contradiction\n', 2),
    ],
)
def test_a_pair_is_read_from_every_form_of_file(name, content, line, file):
    assert read_sentence_pairs(file(name, content)) == [PAIR._replace(line=line)]


def test_pairs_without_consensus_are_there_for_whoever_counts_them(file):
    lines = [json.dumps(SNLI | {"gold_label": label}) for label in ("-", -1, 2)]
    assert [pair.label for pair in read_sentence_pairs(file("a.jsonl", "\n".join(lines)))] == ["-", "-1", "2"]


def test_columns_go_by_name_or_number(file):
    path = file("a.tsv", "id\ttext\tguess\tclass\n1\tA man sleeps.\tHe is awake.\tcontradiction\n")
    assert read_sentence_pairs(path, PairColumns("text", "guess", "class")) == [PAIR._replace(line=2)]
    path = file("b.tsv", "1\tA man sleeps.\tHe is awake.\tcontradiction\n")
    assert read_sentence_pairs(path, PairColumns(1, 2, -1)) == [PAIR]
    path = file("c.jsonl", '{"a": "A man sleeps.", "b": "He is awake.", "c": "contradiction"}')
    assert read_sentence_pairs(path, PairColumns("a", "b", "c")) == [PAIR]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.jsonl", f'{json.dumps(SNLI)}\n{{"a": b', "line 2: invalid JSON: Expecting value at column 7"),
        (
            "a.jsonl",
            f"{json.dumps(SNLI)}\n[{'9' * 5000}]",
            "line 2: unreadable JSON: the nesting is too deep, or a number is too long",
        ),
        ("a.jsonl", "[1]", r"line 1: expected a JSON object, such as \{…\}, not '\[1\]'"),
        (
            "a.jsonl",
            '{"sentence1": "a", "gold_label": "x"}',
            "line 1: no column or field for the hypothesis: expected one of sentence2, hypothesis; there",
        ),
        ("a.jsonl", json.dumps(SNLI | {"sentence2": None}), "line 1: the hypothesis must be a string, not None"),
        ("a.jsonl", json.dumps(SNLI | {"sentence1": " "}), "line 1: the premise is empty"),
        ("a.jsonl", json.dumps(SNLI | {"gold_label": ""}), "line 1: the label is empty"),
        ("a.jsonl", json.dumps(SNLI | {"gold_label": 0.5}), "line 1: the label must be a string, an integer or a boo"),
        ("a.jsonl", "\n\n", "contains no rows with premise and hypothesis and label"),
        ("a.tsv", "", "contains no rows with premise and hypothesis and label"),
        ("a.tsv", "a\tb", "line 1: cannot determine which of 2 columns are premise, hypothesis, label: the"),
        ("a.tsv", "a\tb\tc\nd\te", "line 2: expected 3 columns, as in the first line"),
        (
            "a.tsv",
            "premise\tguess\tlabel\na\tb\tc",
            "line 1: no column or field for the hypothesis: expected one of sentence2, hypothesis",
        ),
        ("a.csv", 'a,b,c\n"d,e', "line 2: invalid CSV: unexpected end of data"),
        ("a.xml", "a", "unknown format"),
    ],
)
def test_a_malformed_line_is_named_by_file_and_number(name, content, told, file):
    with pytest.raises(InputError, match=rf"{name}(, |: ){told}"):
        read_sentence_pairs(file(name, content))


def test_a_column_that_is_not_there_is_named(file):
    with pytest.raises(InputError, match="line 1: there is no column 7; columns are numbered from 0, and there are 3"):
        read_sentence_pairs(file("a.tsv", "a\tb\tc"), PairColumns(7, 1, 2))


def test_a_pair_to_be_judged_comes_with_a_tab_or_as_json():
    expected = ("A man sleeps.", "He is awake.")
    assert parse_pair("A man sleeps.\tHe is awake.") == expected
    assert parse_pair(json.dumps(SNLI)) == expected
    assert parse_pair(' {"premise": "A man sleeps.", "hypothesis": "He is awake."}') == expected


@pytest.mark.parametrize(
    ("name", "pairs", "labels"),
    [
        # As the table of the data's README has them: entailment, neutral, contradiction.
        ("snli-dev", 9842, (3329, 3235, 3278)),
        ("mnli-val-cut", 4998, (1783, 1551, 1664)),
    ],
)
def test_the_published_sets_have_the_published_sizes(name, pairs, labels, shared):
    found = read_sentence_pairs(shared / "data" / "tasks" / "entailment" / f"{name}.jsonl.xz")
    assert len(found) == pairs
    for label, number in zip(("entailment", "neutral", "contradiction"), labels, strict=True):
        assert sum(pair.label == label for pair in found) == number
