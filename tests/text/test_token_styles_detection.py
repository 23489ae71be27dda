"""The style of given tokens is found out, for data to be recorded with it and for users to be told."""

import lzma
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from elmore.text.input_checks import warnings_about
from elmore.text.style import TOKEN_STYLES, TokenizerConfig
from elmore.text.token_styles import detect_token_style, find_penn_marker, tokenize_in_style

TEXT = 'I don\'t (yet) see "it", or a well-known man and/or dog.'


@pytest.mark.parametrize("style", TOKEN_STYLES)
def test_what_was_cut_in_a_style_is_seen_to_be(style):
    assert detect_token_style([tokenize_in_style(TEXT, style).words]) == style


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        ([], "moses"),
        ([["no", "sign", "of", "any"]], "moses"),
        ([["do", "n't"], ["don", "'t"]], "moses"),
        ([["do", "n't"]], "plain"),
        # Of brackets and quotes the more frequent form counts.
        ([["do", "n't", "-LRB-", "-RRB-", "("]], "penn"),
        ([["do", "n't", "``", "''"]], "penn"),
        ([["do", "n't", "``", "''", "(", ")"]], "nltk"),
        ([["do", "n't", "``", '"', '"']], "plain"),
        ([["do", "n't", "1\\/2"]], "penn"),
        # A dash is no hyphen, and a prefix no word of its own.
        ([["do", "n't", "-", "it", "is"]], "plain"),
        ([["do", "n't", "a", "well", "-", "known", "re-run"]], "ud"),
        ([["do", "n't", "a", "well", "-", "known", "by-word"]], "plain"),
    ],
)
def test_the_marks_of_each_style_are_weighed(sentences, expected):
    assert detect_token_style(sentences) == expected


@pytest.mark.parametrize(
    "sentence", [["I", "do", "n't"], ["(", "-LRB-", "-RRB-"], ["``", "so", "''"], ["I", "ca", "n’t"]]
)
def test_penn_style_is_noticed_for_a_model_of_moses_style(sentence):
    sign = find_penn_marker([sentence])
    (warning,) = warnings_about([sentence], TokenizerConfig())
    assert f"look Penn-style ({sign!r})" in warning
    assert f"--token-style {detect_token_style([sentence])}" in warning
    assert warnings_about([sentence], TokenizerConfig(tokenizer="whitespace")) == []


@pytest.mark.parametrize(
    "sentences",
    [
        [["I", "don", "'t"]],
        [["it", "'s", "(", ")", '"']],
        [["I", "don", "'t"], ["I", "do", "n't"]],
        [["the", "``", "mark", '"', '"']],
    ],
)
def test_moses_style_raises_no_alarm(sentences):
    assert find_penn_marker(sentences) is None
    assert warnings_about(sentences, TokenizerConfig()) == []


def lines_of(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield line.rstrip("\n")


def columns(path: Path) -> Iterator[list[str]]:
    """The words of CoNLL-U files and of those with a word and a tag a line."""
    place = 1 if ".conllu" in path.name else 0
    words: list[str] = []
    for line in lines_of(path):
        fields = line.split("\t")
        if line == "":
            yield words
            words = []
        elif place == 0 or fields[0].isdigit():
            words.append(fields[place])


def trees(path: Path) -> Iterator[list[str]]:
    for line in lines_of(path):
        yield [piece.rstrip(")") for piece in line.split(" ") if piece.endswith(")")]


def senses(path: Path) -> Iterator[list[str]]:
    with lzma.open(path) as source:
        for _, element in ET.iterparse(source):
            if element.tag == "sentence":
                yield [word.text or "" for word in element]


# Each looked at by eye. Of WNUT-17, which keeps most contractions whole, `plain` is only the nearest; its test part has
# been cut at every apostrophe (n ' t), and shows nothing.
@pytest.mark.parametrize(
    ("file", "read", "expected"),
    [
        ("sentiment/sst-train.txt.xz", trees, "penn"),
        ("wsd/semcor.data.xml.xz", senses, "nltk"),
        ("ner/wikineural-train.conll.xz", columns, "plain"),
        ("ner/wikigold-test.conll.xz", columns, "plain"),
        ("ner/wnut17-train.conll.xz", columns, "plain"),
        ("ner/wnut17-test.conll.xz", columns, "moses"),
        ("pos/en_ewt-ud-train.conllu.xz", columns, "ud"),
    ],
)
def test_the_style_of_real_data(shared: Path, file: str, read: Callable, expected: str) -> None:
    assert detect_token_style(list(islice(read(shared / "data" / "tasks" / file), 1000))) == expected
