"""Tagged sentences come out of column files of every layout, and a row that cannot be read is named."""

import gzip

import pytest

from elmore.errors import InputError, NotFound
from elmore.tasks.readers.tag_schemes import spans_of
from elmore.tasks.tagging.reader import TaggedSentence, detect_tag_scheme, read_tagged


@pytest.fixture
def file(tmp_path):
    def write(content: str, name: str = "a.conll"):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write


CONLL_2003 = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP I-ORG\nrejects VBZ B-VP O\n\nBonn NNP B-NP I-LOC\n"


def test_the_last_column_is_the_tag_unless_told_otherwise(file):
    path = file(CONLL_2003)
    first, second = read_tagged(path)
    assert first == TaggedSentence(["EU", "rejects"], ["I-ORG", "O"], 3, str(path), (3, 4))
    assert second == TaggedSentence(["Bonn"], ["I-LOC"], 6, str(path), (6,))
    assert [sentence.tags for sentence in read_tagged(path, tag_column=1)] == [["NNP", "VBZ"], ["NNP"]]
    assert [sentence.tags for sentence in read_tagged(path, tag_column=-2)] == [["B-NP", "B-VP"], ["B-NP"]]
    assert detect_tag_scheme([first, second]) == "iob1"


def test_words_and_tags_stand_where_one_says(file):
    path = file("O\tx\tCats\n", "tags-first.txt")
    assert read_tagged(path, tag_column=0, word_column=2)[0][:2] == (["Cats"], ["O"])


def test_words_may_hold_any_character_but_the_separator(file):
    (found,) = read_tagged(file("8\u00a01/2\tB-A\n#tag\tO\n\u2028\tO\n"))
    assert found.tokens == ["8\u00a01/2", "#tag", "\u2028"]
    (found,) = read_tagged(file("8\u00a01/2 B-A\n#tag O\n"))
    assert found.tokens == ["8\u00a01/2", "#tag"]


CONLLU = """# sent_id = s1
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\tSpaceAfter=No
2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
2.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_
"""


def test_columns_of_conllu_go_by_name_or_number(file):
    path = file(CONLLU, "a.conllu")
    assert read_tagged(path, tag_column="upos")[0] == (["do", "n't"], ["AUX", "PART"], 1, str(path), (3, 4))
    assert read_tagged(path, tag_column="XPOS")[0].tags == ["VBP", "RB"]
    assert read_tagged(path, tag_column=4)[0].tags == ["VBP", "RB"]
    assert read_tagged(path, tag_column="feats")[0].tags == ["_", "_"]  # which is how CoNLL-U says none


def test_several_files_are_read_one_after_another_packed_or_not(file, tmp_path):
    packed = tmp_path / "b.conllu.gz"
    packed.write_bytes(gzip.compress(CONLLU.encode()))
    found = read_tagged([file(CONLLU, "a.conllu"), packed], tag_column="upos")
    assert [sentence.source for sentence in found] == [str(tmp_path / "a.conllu"), str(packed)]


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        ("EU NNP O\n\nBonn O\n", {}, r"a\.conll, line 3: found 2 columns \(Bonn, O\)"),
        ("EU NNP O\nBonn O\n", {"tag_column": 2}, r"a\.conll, line 2: the tag must be in column 3"),
        ("EU NNP\n", {"tag_column": -3}, r"line 1: the tag must be in column -3"),
        ("EU\n", {}, r"line 1: column 1 of 1 is selected for the tag and contains the word"),
        ("1\tO\n", {}, "line 1: column 2 of 2 is selected for the tag and contains the word"),
        ("EU\tO\nBonn\t\n", {}, r"line 2: column 2, the tag of 'Bonn', is empty"),
        ("", {}, r"a\.conll: contains no sentences"),
        ("-DOCSTART- O\n\n\n", {}, r"a\.conll: contains no sentences"),
        (
            "EU O\n",
            {"tag_column": "upos"},
            r"only CoNLL-U \(\.conllu\) has named columns; pass the column's number, not 'upos'",
        ),
    ],
)
def test_rows_that_cannot_be_read_are_named(file, content, options, told):
    with pytest.raises(InputError, match=told):
        read_tagged(file(content), **options)


@pytest.mark.parametrize(
    ("content", "tag_column", "told"),
    [
        (CONLLU.replace("PART", "_"), "upos", r"a\.conllu, line 4: the word has no UPOS tag, only _"),
        (CONLLU.replace("PART", ""), 3, 'line 4: column 4, the tag of "n\'t", is empty'),
        (CONLLU, "pos", "there is no column 'pos' in CoNLL-U; it has id, form, lemma, upos"),
        (CONLLU, 10, "there is no column 10 in CoNLL-U; it has 0 to 9"),
        (CONLLU, "form", "line 3: column 2 of 10 is selected for the tag and contains the word"),
        (CONLLU.replace("2\tn't\t", "2 n't\t"), "upos", "line 4: has 9 columns; CoNLL-U requires 10"),
        ("# nothing\n", "upos", "contains no sentences"),
    ],
)
def test_conllu_that_cannot_be_read_is_named(file, content, tag_column, told):
    with pytest.raises(InputError, match=told):
        read_tagged(file(content, "a.conllu"), tag_column=tag_column)


def test_a_file_that_is_missing_is_told_before_its_columns_are(tmp_path):
    with pytest.raises(NotFound, match="nowhere: no such file"):
        read_tagged(tmp_path / "nowhere", tag_column="upos")


def test_mixed_schemes_are_named_by_file_and_line(file):
    found = read_tagged([file("EU\tB-ORG\n", "a.conll"), file("\n\nthe\tO\nBonn\tI-LOC\n", "b.conll")])
    with pytest.raises(
        InputError, match=r"not IOB1: 'B-ORG' at the start of a sentence \(.*a\.conll, line 1\)"
    ) as error:
        detect_tag_scheme(found)
    assert "b.conll, line 4)" in str(error.value).partition("not BIO: 'I-LOC' after 'O' ")[2]


# Sentences, words and entities, from the README of the task data.
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("wikineural-train", (11_590, 267_839, 19_621)),
        ("wikineural-dev", (5_798, 134_077, 9_763)),
        ("wikineural-test", (5_799, 133_078, 9_912)),
        ("wikigold-test", (1_696, 39_007, 3_558)),
        ("wnut17-train", (3_394, 62_730, 1_975)),
        ("wnut17-dev", (1_009, 15_733, 836)),
        ("wnut17-test", (1_287, 23_394, 1_079)),
    ],
)
def test_the_named_entities_are_all_found(shared, name, counts):
    found = read_tagged(shared / "data" / "tasks" / "ner" / f"{name}.conll.xz")
    assert detect_tag_scheme(found) == "bio"
    spans = sum(len(spans_of(sentence.tags, "bio")) for sentence in found)
    assert (len(found), sum(len(sentence.tokens) for sentence in found), spans) == counts


# Sentences, words and kinds of XPOS, from the same README, which counts 49 kinds in all and 48 in test.
@pytest.mark.parametrize(
    ("split", "counts"),
    [("train", (12_544, 204_577, 49)), ("dev", (2_001, 25_147, None)), ("test", (2_077, 25_094, 48))],
)
def test_the_parts_of_speech_are_all_found(shared, split, counts):
    path = shared / "data" / "tasks" / "pos" / f"en_ewt-ud-{split}.conllu.xz"
    found = read_tagged(path, tag_column="upos")
    assert (len(found), sum(len(sentence.tokens) for sentence in found)) == counts[:2]
    assert len({tag for sentence in found for tag in sentence.tags}) == 17
    if counts[2]:
        assert len({tag for sentence in read_tagged(path, tag_column="xpos") for tag in sentence.tags}) == counts[2]
