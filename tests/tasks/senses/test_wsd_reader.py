"""Sentences with words to be disambiguated come with their keys, and XML that is not of this kind is named."""

import lzma
from collections import Counter

import pytest

from elmore.errors import InputError, NotFound
from elmore.tasks.senses.wsd_reader import WsdInstance, WsdSentence, read_wsd

XML = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="x">
<text id="d000">
<sentence id="d000.s000">
<wf lemma="he" pos="PRON">He</wf>
<instance id="d000.s000.t000" lemma="point_out" pos="VERB">pointed out</instance>
<wf lemma="new_york" pos="NOUN">New York</wf>
<wf lemma="&amp;" pos=".">&amp;</wf>
<instance id="d000.s000.t001" lemma="art" pos="NOUN">a\u00a0rt</instance>
</sentence>
</text>
</corpus>
"""
KEYS = "d000.s000.t000 point_out%2:32:01::\nd000.s000.t001 art%1:09:00:: art%1:06:00::\n"


@pytest.fixture
def file(tmp_path):
    def write(xml: str = XML, keys: str = KEYS):
        path = tmp_path / "x.data.xml"
        path.write_text(xml, encoding="utf-8")
        path.with_name("x.gold.key.txt").write_text(keys, encoding="utf-8")
        return path

    return write


EXPECTED = [
    WsdSentence(
        ["He", "pointed", "out", "New", "York", "&", "a\u00a0rt"],
        [
            WsdInstance("d000.s000.t000", "point_out", "VERB", 1, 3, ("point_out%2:32:01::",)),
            WsdInstance("d000.s000.t001", "art", "NOUN", 6, 7, ("art%1:09:00::", "art%1:06:00::")),
        ],
    )
]


def test_a_target_of_several_words_reaches_over_several_tokens(file):
    assert read_wsd(file()) == EXPECTED
    assert read_wsd(file(XML.replace("pointed out", "\n pointed\nout\n"))) == EXPECTED


def test_packed_files_are_found_and_read(file, tmp_path):
    for path in (file(), tmp_path / "x.gold.key.txt"):
        path.with_name(f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    assert read_wsd(tmp_path / "x.data.xml.xz") == EXPECTED


def test_the_file_of_keys_can_be_named_and_is_missed(file, tmp_path):
    path = file()
    keys = (tmp_path / "x.gold.key.txt").rename(tmp_path / "other.txt")
    assert read_wsd(path, keys=keys) == EXPECTED
    with pytest.raises(NotFound, match=r"x\.gold\.key\.txt: no such file, plain or compressed"):
        read_wsd(path)


BOMB = """<?xml version="1.0"?>
<!DOCTYPE corpus [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;">]>
<corpus><text><sentence><wf>&c;</wf></sentence></text></corpus>
"""


@pytest.mark.parametrize(
    ("xml", "told"),
    [
        (BOMB, "line 2: has a document type declaration, whose entities can fill the memory; remove it"),
        (
            XML.replace("<corpus", '<!DOCTYPE corpus SYSTEM "file:///etc/passwd">\n<corpus'),
            "line 2: has a document type",
        ),
        (XML.replace("&amp;</wf>", "&</wf>"), r"line 8: invalid XML: not well-formed \(invalid token\)"),
        (XML.replace("&amp;</wf>", "&nbsp;</wf>"), "line 8: invalid XML: undefined entity"),
        (XML.replace("</corpus>", ""), "line 13: invalid XML: no element found"),
        ("", "line 1: invalid XML: no element found"),
        ("<corpus/>", "contains no sentences"),
        (
            "<html><body/></html>",
            "line 1: unexpected <html>; expected corpus, text, sentence, and in a sentence wf and",
        ),
        (
            XML.replace('<wf lemma="he"', "<sentence><wf").replace("He</wf>", "He</wf></sentence>"),
            "line 5: unexpected <sentence> inside of <sentence>",
        ),
        (XML.replace(">He<", "><"), "line 5: <wf> has no text"),
        (XML.replace("He</wf>", "He</wf> he"), "line 6: the text 'he' is outside of <wf> and <instance>"),
        (XML.replace("</sentence>", "x</sentence>"), "line 10: the text 'x' is outside of <wf> and <instance>"),
        (XML.replace(' lemma="art"', ""), "line 9: <instance> has no lemma"),
        (XML.replace("s000.t001", "s000.t000"), r"line 9: a second instance 'd000\.s000\.t000'"),
        (
            XML.replace("s000.t001", "s000.t002"),
            r"line 9: the instance 'd000.s000.t002' has no keys in .*x\.gold\.key\.txt",
        ),
    ],
)
def test_other_xml_is_named_by_its_line(file, xml, told):
    with pytest.raises(InputError, match=rf"x\.data\.xml(, |: ){told}"):
        read_wsd(file(xml))


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (KEYS + "d000.s000.t002 a%1:01:01::\n", "has keys of 1 instances that .* does not have: d000.s000.t002"),
        (KEYS + "d000.s000.t001 a%1:01:01::\n", r"line 3: the instance 'd000\.s000\.t001' occurs a second time"),
        (KEYS + "\nd000.s000.t002\n", "line 4: expected the id of an instance and its sense keys"),
        (KEYS + "d000.s000.t002 art\n", "line 3: expected the id of an instance and its sense keys"),
    ],
)
def test_keys_that_do_not_fit_are_named(file, keys, told):
    with pytest.raises(InputError, match=rf"x\.gold\.key\.txt(, |: ){told}"):
        read_wsd(file(keys=keys))


# Sentences and instances of each part of speech are the README's, as are the elements, which it calls tokens; tokens as
# they are here, cut at spaces, were counted by awk over the texts of the elements.
@pytest.mark.parametrize(
    ("name", "sentences", "elements", "tokens", "instances"),
    [
        ("semcor", 37_176, 778_587, 820_410, (87_002, 88_334, 31_753, 18_947)),
        ("semeval2007", 135, 3_201, 3_219, (159, 296, 0, 0)),
        ("senseval2", 242, 5_766, 5_829, (1_066, 517, 445, 254)),
        ("senseval3", 352, 5_541, 5_640, (900, 588, 350, 12)),
        ("semeval2013", 306, 8_391, 8_533, (1_644, 0, 0, 0)),
        ("semeval2015", 138, 2_604, 2_643, (531, 251, 160, 80)),
    ],
)
def test_the_framework_is_read_whole(shared, name, sentences, elements, tokens, instances):
    found = read_wsd(shared / "data" / "tasks" / "wsd" / f"{name}.data.xml.xz")
    assert (len(found), sum(len(sentence.tokens) for sentence in found)) == (sentences, tokens)
    assert tokens > elements  # some elements are several tokens
    asked = [instance for sentence in found for instance in sentence.instances]
    counts = Counter(instance.pos for instance in asked)
    assert tuple(counts[pos] for pos in ("NOUN", "VERB", "ADJ", "ADV")) == instances
    assert len(asked) == sum(instances)
    if name == "semcor":
        assert sum(len(instance.keys) > 1 for instance in asked) == 656  # as the README says
