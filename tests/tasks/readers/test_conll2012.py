"""Columns of CoNLL-2012: propositions and nested mentions are found, and what is malformed is named by its line."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError
from elmore.tasks.readers.conll2012 import (
    Mention,
    Proposition,
    argument_cells,
    mention_cells,
    mentions,
    parse_mentions,
    propositions,
    read_conll2012,
)
from elmore.tasks.readers.tag_schemes import Span


def row(word: str, lemma: str, coreference: str, *arguments: str, roleset: str = "01") -> str:
    known = (lemma, roleset if lemma != "-" else "-", "-", "-", "*")
    return "\t".join(["doc", "0", "0", word, "NN", "*", *known, *arguments, coreference])


SENTENCE = [
    row("She", "-", "(1)", "(ARG0*)", "(ARG0*)"),
    row("wants", "want", "-", "(V*)", "*"),
    row("to", "-", "-", "(ARG1*", "*"),
    row("see", "see", "-", "*", "(V*)"),
    row("her", "-", "(2|(1)", "*", "(ARG1*"),
    row("dog", "-", "2)", "*)", "*)"),
]
SECOND = [row("It", "-", "(2)"), row("sleeps", "-", "-")]


def write(path: Path, *sentences: list[str], begin: str = "#begin document (a/b); part 003") -> Path:
    path.write_text("\n".join([begin, *(line for one in sentences for line in [*one, ""]), "#end document", ""]))
    return path


def test_a_document_has_its_name_sentences_propositions_and_mentions(tmp_path):
    [document] = read_conll2012(write(tmp_path / "a.conll", SENTENCE, SECOND))
    assert (document.name, document.part) == ("a/b", "003")
    first, second = document.sentences
    assert first.tokens == ["She", "wants", "to", "see", "her", "dog"]
    assert second.location(1) == f"{tmp_path / 'a.conll'}, line 10"
    assert propositions(first) == [
        Proposition(1, "want", [Span("ARG0", 0, 1), Span("V", 1, 2), Span("ARG1", 2, 6)]),
        Proposition(3, "see", [Span("ARG0", 0, 1), Span("V", 3, 4), Span("ARG1", 4, 6)]),
    ]
    assert propositions(second) == []
    assert mentions(first) == [Mention(1, 0, 1), Mention(2, 4, 6), Mention(1, 4, 5)]
    assert mentions(second) == [Mention(2, 0, 1)]


def test_blanks_between_columns_do_as_well_as_tabs_and_several_files_are_one(tmp_path):
    tabs, blanks = write(tmp_path / "tabs.conll", SENTENCE), tmp_path / "blanks.conll"
    blanks.write_text(tabs.read_text().replace("\t", "   "))
    one, other = read_conll2012([tabs, blanks])
    assert one.sentences[0].rows == other.sentences[0].rows


def test_verbs_with_a_lemma_and_no_roleset_have_no_column(tmp_path):
    # As in OntoNotes, where some predicates were given no frame.
    rows = [row("I", "-", "-", "(ARG0*)"), row("can", "can", "-", "*", roleset="-"), row("go", "go", "-", "(V*)")]
    [document] = read_conll2012(write(tmp_path / "a.conll", rows))
    [found] = propositions(document.sentences[0])
    assert (found.predicate, found.lemma) == (2, "go")


@pytest.mark.parametrize("cells", [["(1|(3|(2)", "-", "3)|1)"], ["(1(3(2)", "-", "3)1)"]])
def test_both_forms_of_brackets_are_read(cells):
    assert parse_mentions(cells, ["x"] * 3) == [Mention(1, 0, 3), Mention(3, 0, 3), Mention(2, 0, 1)]


def test_crossing_mentions_and_mentions_of_one_cluster_inside_of_each_other_are_kept():
    assert parse_mentions(["(1", "(2", "1)", "2)"], ["x"] * 4) == [Mention(1, 0, 3), Mention(2, 1, 4)]
    assert parse_mentions(["(1", "(1", "1)", "1)"], ["x"] * 4) == [Mention(1, 0, 4), Mention(1, 1, 3)]


spans = st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(1, 3)).map(
    lambda one: Mention(one[0], one[1], one[1] + one[2])
)


@given(st.lists(spans, max_size=6, unique_by=lambda mention: mention.cluster))
def test_mentions_that_are_written_are_read_again(found):
    cells = mention_cells(found, 9)
    assert sorted(parse_mentions(cells, ["x"] * 9)) == sorted(found)


def test_arguments_that_are_written_are_those_of_the_file():
    column = ["*", "(ARG0*", "*)", "(V*)"]
    assert argument_cells([Span("ARG0", 1, 3), Span("V", 3, 4)], 4) == column


def changed(number: int, column: int, cell: str) -> list[str]:
    """The sentence with one cell changed; line 1 of the file is #begin document."""
    rows = [line.split("\t") for line in SENTENCE]
    rows[number][column] = cell
    return ["\t".join(cells) for cells in rows]


def read_all(path: Path) -> None:
    for document in read_conll2012(path):
        for sentence in document.sentences:
            propositions(sentence)
            mentions(sentence)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            [*SENTENCE[:2], SENTENCE[2].replace("\tNN", "", 1)],
            "line 4: found 13 columns",
        ),
        (["doc\t0\t0\tShe\t-"], "line 2: CoNLL-2012 has at least 12 columns"),
        (changed(2, 3, ""), r"line 4: the word \(column 4\) is missing"),
        (changed(0, 11, "(ARG0*"), r"line 3, column 12: V begins inside of ARG0"),
        (changed(2, 11, "*)"), "line 4, column 12: an argument ends here, and none has begun"),
        (changed(5, 11, "*"), "line 4, column 12: ARG1 has no end in its sentence"),
        (
            changed(2, 11, "ARG1"),
            r"line 4, column 12: 'ARG1' is not an argument; expected \(LABEL\*, \*, \*\) or \(LABEL\*\)",
        ),
        (changed(1, 11, "*"), r"line 3: the arguments of 'wants' \(column 12\) have no V"),
        (changed(3, 6, "-"), "line 2: has 2 columns of arguments and 1 predicate with a roleset"),
        (changed(0, 13, "(1"), r"line 2: cluster 1: a mention has no end in its sentence"),
        (changed(0, 13, "1)"), "line 2: a mention of cluster 1 ends, and none has begun"),
        (changed(0, 13, "(x)"), r"line 2: '\(x\)' are not mentions"),
        (changed(0, 13, "(1||2)"), r"line 2: '\(1\|\|2\)' are not mentions"),
    ],
)
def test_a_malformed_line_is_named(rows, told, tmp_path):
    path = write(tmp_path / "a.conll", rows)
    with pytest.raises(InputError, match=told) as caught:
        read_all(path)
    assert str(caught.value).startswith(f"{path}, ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "contains no documents; expected #begin document and CoNLL-2012 columns"),
        ("word\tB-PER\n", r"line 1: expected #begin document, found 'word\\tB-PER'"),
        ("#begin document (a); part 000\n", "line 1: the document has no end; the file may be truncated"),
        (
            "#begin document (a); part 000\n#begin document (b); part 000\n",
            r"line 2: a document begins before the document of .*a\.conll, line 1 has ended",
        ),
        ("#end document\n", "line 1: #end document without #begin document"),
    ],
)
def test_a_malformed_file_is_named(text, told, tmp_path):
    (tmp_path / "a.conll").write_text(text)
    with pytest.raises(InputError, match=told):
        read_conll2012(tmp_path / "a.conll")


def test_the_counts_of_real_files_are_those_of_their_table(shared):
    tasks = shared / "data" / "tasks"
    sentences = [one for document in read_conll2012(tasks / "srl/ewt-dev.conll.xz") for one in document.sentences]
    found = [one for sentence in sentences for one in propositions(sentence)]
    arguments = sum(span.label != "V" for one in found for span in one.arguments)
    assert (len(sentences), len(found), arguments) == (1_966, 4_952, 9_568)
    documents = read_conll2012(tasks / "coref/litbank-dev.conll.xz")
    clusters = Counter((d.name, m.cluster) for d in documents for s in d.sentences for m in mentions(s))
    assert (len(documents), clusters.total(), len(clusters)) == (10, 3_053, 776)
