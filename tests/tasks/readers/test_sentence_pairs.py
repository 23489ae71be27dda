"""Pairs of sentences come from the files of SNLI and MultiNLI, and from tables of one's own."""

import json
import lzma

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.sentence_pairs import PairColumns, SentencePair, parse_pair, read_sentence_pairs

SNLI = {"sentence1": "A man sleeps.", "sentence2": "He is awake.", "gold_label": "contradiction", "pairID": "1"}
PAIR = SentencePair("A man sleeps.", "He is awake.", "contradiction", 1)


@pytest.fixture
def file(tmp_path):
    def write(name: str, content: str):
        path = tmp_path / name
        path.write_bytes(lzma.compress(content.encode()) if name.endswith(".xz") else content.encode())
        return path

    return write


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
        ("a.jsonl", f'{json.dumps(SNLI)}\n{{"a": b', "line 2: no JSON: Expecting value at column 7$"),
        ("a.jsonl", f"{json.dumps(SNLI)}\n[{'9' * 5000}]", "line 2: no JSON that can be read: .* too long$"),
        ("a.jsonl", "[1]", "line 1: expected an object with sentence1 and sentence2, or premise and hypothesis"),
        (
            "a.jsonl",
            '{"sentence1": "a", "gold_label": "x"}',
            "line 1: has no field sentence2 or hypothesis; it has sent",
        ),
        ("a.jsonl", json.dumps(SNLI | {"sentence2": None}), "line 1: the hypothesis is to be a text, and is None"),
        ("a.jsonl", json.dumps(SNLI | {"sentence1": " "}), "line 1: the premise is empty"),
        ("a.jsonl", json.dumps(SNLI | {"gold_label": ""}), "line 1: the label is empty"),
        ("a.jsonl", json.dumps(SNLI | {"gold_label": True}), "line 1: the label is to be a string or a whole number"),
        ("a.jsonl", "\n\n", "holds no pairs of sentences"),
        ("a.tsv", "", "holds no pairs of sentences"),
        ("a.tsv", "a\tb", "line 1: which of 2 columns are premise, hypothesis and label"),
        ("a.tsv", "a\tb\tc\nd\te", "line 2: 3 columns are due, as in the first line, and here are 2"),
        (
            "a.tsv",
            "premise\tguess\tlabel\na\tb\tc",
            "line 1: no column is called sentence2 or hypothesis, the hypothesis",
        ),
        ("a.csv", 'a,b,c\n"d,e', "line 2: no CSV: "),
        ("a.xml", "a", "which format has it"),
    ],
)
def test_a_malformed_line_is_named_by_file_and_number(name, content, told, file):
    with pytest.raises(InputError, match=rf"{name}(, |: ){told}"):
        read_sentence_pairs(file(name, content))


def test_a_column_that_is_not_there_is_named(file):
    with pytest.raises(InputError, match="line 1: there is no column 7, counted from 0; here are 3"):
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
