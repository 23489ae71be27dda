"""English cut as in the Penn Treebank, in each of the forms that data has it in, and every word in its place."""

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.text.normalize import normalize_with_offsets, to_visible_nfc
from elmore.text.penn import tokenize_penn

STYLES = ["penn", "nltk", "plain", "ud"]

PIECES = [
    "do",
    "n't",
    "don’t",
    "cannot",
    "gonna",
    "'tis",
    "'s",
    "’ve",
    "`s",
    "'",
    '"',
    "``",
    "''",
    "“",
    "‘",
    "’’",
    "-LRB-",
]
PIECES += [
    "(",
    "]",
    "{",
    "\\/",
    "/",
    "*",
    "U.S.",
    "Mr.",
    "No.",
    "I.",
    "etc.",
    ".",
    "...",
    "…",
    "?!",
    "7",
    "1,000",
    "5pm",
]
PIECES += [
    "-",
    "--",
    "—",
    "–",
    "re-",
    "w/o",
    "&",
    "&amp;",
    "$",
    "US$",
    "%",
    "+",
    "<-",
    "_",
    "a@b.com",
    "http://x.y/z_(w)",
]
PIECES += [
    "mailto:",
    "@bob",
    "#tag",
    ":-)",
    "<3",
    "e\u0301",
    "\u0301",
    "\u00ad",
    "\u200b",
    "\u200d",
    "\ufe0f",
    "\u00a0",
]
PIECES += ["中文", "한글", "हिन्दी", "👨\u200d👩", "🇩", " ", "\t", "\n", "\u2028", "\0", "İ", "a", "\ud800"]
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
styles = st.sampled_from(STYLES)


@given(text=texts, style=styles)
def test_offsets_rise_and_cover_all_that_is_seen(text, style):
    tokens = tokenize_penn(text, style=style)
    assert len(tokens.words) == len(tokens.offsets)
    before = 0
    for start, end in [*tokens.offsets, (len(text), len(text) + 1)]:
        assert before <= start < end
        assert not normalize_with_offsets(text[before:start]).text.strip()
        before = end


@given(text=texts, style=styles)
def test_a_word_is_what_is_seen_under_its_offset_but_for_the_escapes(text, style):
    for word, (start, end) in zip(*tokenize_penn(text, style=style), strict=True):
        seen = to_visible_nfc(text[start:end])
        assert word.strip() == word != ""
        if style == "penn":
            assert unescaped(word) == unescaped(seen)
        elif style == "nltk" and seen == '"':
            assert word in ("``", "''")
        else:
            assert word == seen


BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
MARKS = {
    "“": '"',
    "”": '"',
    "``": '"',
    "''": '"',
    "‘‘": '"',
    "’’": '"',
    "‘": "'",
    "`": "'",
    "’": "'",
    "—": "--",
    "–": "--",
}


def unescaped(word: str) -> str:
    """The one form of all that the treebank's escapes make alike."""
    word = MARKS.get(word) or BRACKETS.get(word) or word
    for written, meant in (("’", "'"), ("‘", "'"), ("`", "'"), ("…", "..."), ("\\/", "/"), ("\\*", "*")):
        word = word.replace(written, meant)
    return word.replace("‐", "-").replace("‑", "-").replace("–", "-")


def cut(text: str, style: str) -> str:
    return " ".join(tokenize_penn(text, style=style).words)


# What all styles do alike.
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't, I won't, I CAN'T.", "I do n't , I wo n't , I CA N'T ."),
        (
            "It's what they'd've said; we'll see, I'm sure you're",
            "It 's what they 'd 've said ; we 'll see , I 'm sure you 're",
        ),
        ("You cannot, I'm gonna, gotta, wanna", "You can not , I 'm gon na , got ta , wan na"),
        ("Gimme! Lemme! 'Tis, 'twas, d'ye, more'n", "Gim me ! Lem me ! 'T is , 't was , d' ye , more 'n"),
        ("the dogs' owner, O'Neil's o'clock", "the dogs ' owner , O'Neil 's o'clock"),
        ("rock 'n' roll of the '60s got 'em", "rock 'n' roll of the '60s got 'em"),
        ("It cost $1,000.50, or 5%, at 10:30", "It cost $ 1,000.50 , or 5 % , at 10:30"),
        ("Mr. J. Fox of the U.S. team, No. 5, etc. ok", "Mr. J. Fox of the U.S. team , No. 5 , etc. ok"),
        ("Oh no. That was I.", "Oh no . That was I ."),
        ("the U.S.'s PG&E; R & D", "the U.S. 's PG&E ; R & D"),
        ("Wait... what?! Yes -- no!!!", "Wait ... what ?! Yes -- no !!!"),
        ("See www.x.org, a@b.com, @bob #tag :-) <3", "See www.x.org , a@b.com , @bob #tag :-) <3"),
        ("cafe\u0301 co\u00adop", "café coop"),
        ("do n't it 's", "do n't it 's"),
        ("", ""),
    ],
)
def test_contractions_numbers_abbreviations_and_addresses(style, text, expected):
    assert cut(text, style) == expected


# Each from the data of its style: SST, MultiNLI, WikiNEuRal, UD English-EWT.
@pytest.mark.parametrize(
    ("text", "penn", "nltk", "plain", "ud"),
    [
        ('He (a "B") left', "He -LRB- a `` B '' -RRB- left", "He ( a `` B '' ) left", *['He ( a " B " ) left'] * 2),
        ("and/or [*]", r"and\/or -LSB- \* -RSB-", "and/or [ * ]", "and / or [ * ]", "and / or [ * ]"),
        ("well-known re-runs", *["well-known re-runs"] * 3, "well - known re-runs"),
        ("short- and long-term", *["short- and long-term"] * 3, "short - and long - term"),
        ("in the U.S.", "in the U.S.", *["in the U.S ."] * 3),
        ("Acme Inc.)", "Acme Inc. -RRB-", *["Acme Inc . )"] * 3),
        ("don’t “go” — …", "do n't `` go '' -- ...", *["do n’t “ go ” — …"] * 3),
        ("a 'b' c", "a ` b ' c", *["a ' b ' c"] * 3),
        (
            "at 5pm 713-853-3989 10-12",
            *["at 5pm 713-853-3989 10-12"] * 3,
            "at 5 pm 713-853-3989 10 - 12",
        ),
        ("N–S 1–9", "N-S 1 -- 9", "N–S 1 – 9", "N–S 1 – 9", "N – S 1 – 9"),
        ("w/o 9/11", r"w\/o 9\/11", "w/o 9/11", "w / o 9/11", "w/o 9/11"),
        ("im sure it dont", *["im sure it dont"] * 3, "i m sure it do nt"),
    ],
)
def test_what_the_styles_differ_in(text, penn, nltk, plain, ud):
    assert [cut(text, style) for style in STYLES] == [penn, nltk, plain, ud]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"A" ("B")--"C"', "`` A '' -LRB- `` B '' -RRB- -- `` C ''"),
        ('a " b " c " d "', "a `` b '' c `` d ''"),
        ("``a'' 'b'", "`` a '' ` b '"),
    ],
)
def test_a_quote_opens_or_closes_by_what_it_clings_to(text, expected):
    assert cut(text, "penn") == expected


def test_offsets_are_those_of_the_text_as_it_was():
    text = 'e\u0301 ("ca\u00adn’t")'
    assert tokenize_penn(text).words == ["é", "-LRB-", "``", "ca", "n't", "''", "-RRB-"]
    assert tokenize_penn(text).offsets == [(0, 2), (3, 4), (4, 5), (5, 8), (8, 11), (11, 12), (12, 13)]


@pytest.mark.parametrize("piece", ["a", "-", "1-", ".a", "n't", "'", "(", "1,", "a/", "*a", "U.", "0-0-"])
def test_long_runs_of_anything_are_cut(piece):
    text = piece * 20_000
    for style in STYLES:
        assert tokenize_penn(text, style=style).offsets[-1][1] == len(text)


class GoldSentence(NamedTuple):
    text: str
    spans: list[tuple[int, int]]


def read_treebank(path: Path) -> Iterator[GoldSentence]:
    """The text of each sentence of a CoNLL-U file, and where its syntactic words stand in it."""
    text, spans = "", []
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            fields = line.rstrip("\n").split("\t")
            if line.startswith("# text = "):
                text, spans = line.rstrip("\n").removeprefix("# text = "), []
            elif fields[0].isdigit():
                start = text.index(fields[1], spans[-1][1] if spans else 0)
                spans.append((start, start + len(fields[1])))
            elif fields == [""]:
                yield GoldSentence(text, spans)


def test_the_words_of_a_treebank_are_found_in_its_text(shared):
    found = expected = both = 0
    for text, spans in read_treebank(shared / "data" / "tasks" / "pos" / "en_ewt-ud-dev.conllu.xz"):
        assert "".join(text.split()) == "".join(text[start:end] for start, end in spans).replace("\u00a0", "")
        ours = set(tokenize_penn(text, style="ud").offsets)
        found, expected, both = found + len(ours), expected + len(spans), both + len(ours & set(spans))
    assert expected == 25_147  # the words of the dev part, as the README beside it says
    # 0.9924 where this was written; the rules were made on the training part.
    assert 2 * both / (found + expected) > 0.992
