"""Text whose words are to be disambiguated, as a user gives it.

A line says which words are meant, and their lemma and part of speech, which a task of its own would have to find:

    He sat on the [bank|bank|NOUN] of the river.
    {"tokens": ["He", "sat", "down"], "targets": [{"start": 1, "end": 2, "lemma": "sit", "pos": "VERB"}]}
"""

import re
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from elmore.errors import InputError
from elmore.tasks.inputs.tokenizer import StyledTokenizer, TokenizedSentence
from elmore.tasks.readers.json_lines import parse_json_line
from elmore.tasks.senses.target_words import covering_tokens
from elmore.tasks.senses.wsd_f1 import PARTS_OF_SPEECH
from elmore.tasks.senses.wsd_reader import WsdInstance

EXPECTED = (
    "expected text with targets as in: He sat on the [bank|bank|NOUN] of the river. Or JSON as in: "
    '{"tokens": ["He", "sat"], "targets": [{"start": 1, "end": 2, "lemma": "sit", "pos": "VERB"}]}'
)
_TARGET = re.compile(r"\[([^\[\]|]+)\|([^\[\]|]+)\|([^\[\]|]+)\]")


class SenseRequest(NamedTuple):
    """The sentences of a text, and the words in them whose senses are asked for."""

    sentences: list[TokenizedSentence]
    targets: list[list[WsdInstance]]  # of each sentence


def plain_text(line: str) -> str:
    """The text of either form, without marks.

    >>> plain_text("He sat on the [bank|bank|NOUN] of the river.")
    'He sat on the bank of the river.'
    """
    return " ".join(_parse_json(line).tokens) if _is_json(line) else _unmarked(line).text


def parse_request(line: str, tokenizer: StyledTokenizer) -> SenseRequest:
    """The sentences of either form, each with its targets; given tokens are one sentence."""
    if _is_json(line):
        tokens, own = _parse_json(line)
        ends = list(accumulate(len(token) + 1 for token in tokens))
        offsets = [(end - 1 - len(token), end - 1) for token, end in zip(tokens, ends, strict=True)]
        return SenseRequest([TokenizedSentence(tokens, offsets)], [own])
    text, marks = _unmarked(line)
    sentences = tokenizer.sentences(text)
    targets: list[list[WsdInstance]] = [[] for _ in sentences]
    for number, (start, end, lemma, pos) in enumerate(marks):
        covered = [(row, covering_tokens(cut.offsets, start, end)) for row, cut in enumerate(sentences)]
        inside = [(row, span) for row, span in covered if span is not None]
        if len(inside) != 1:
            raise InputError(f"the target {text[start:end]!r} does not stand inside of one sentence of {text[:60]!r}")
        [(row, span)] = inside
        targets[row].append(WsdInstance(str(number), lemma, pos, *span, keys=()))
    return SenseRequest(sentences, targets)


def _is_json(line: str) -> bool:
    return line.lstrip().startswith("{")


class _Mark(NamedTuple):
    start: int
    end: int
    lemma: str
    pos: str


class _Unmarked(NamedTuple):
    text: str
    marks: list[_Mark]


def _unmarked(line: str) -> _Unmarked:
    text, end = "", 0
    marks = []
    for found in _TARGET.finditer(line):
        text += line[end : found.start()]
        word, lemma, pos = found.groups()
        marks.append(_Mark(len(text), len(text) + len(word), lemma, _checked_pos(pos)))
        text += word
        end = found.end()
    if not marks:
        raise InputError(f"there is no target in {line[:60]!r}; {EXPECTED}")
    return _Unmarked(text + line[end:], marks)


class _GivenTokens(NamedTuple):
    tokens: list[str]
    targets: list[WsdInstance]


def _parse_json(line: str) -> _GivenTokens:
    try:
        record = parse_json_line(line)
    except InputError as error:
        raise InputError(f"{error}; {EXPECTED}") from None
    tokens = _field(record, "tokens", list)
    if not tokens or not all(isinstance(token, str) and token for token in tokens):
        raise InputError(f"tokens are to be words, and one at least; {EXPECTED}")
    records = _field(record, "targets", list)
    if not records:
        raise InputError(f"there is no target in {line[:60]!r}; {EXPECTED}")
    return _GivenTokens(tokens, [_parse_target(one, number, len(tokens)) for number, one in enumerate(records)])


def _parse_target(record: Any, number: int, tokens: int) -> WsdInstance:
    start, end = _field(record, "start", int), _field(record, "end", int)
    if not 0 <= start < end <= tokens:
        raise InputError(
            f"the target from token {start} up to {end} is outside of its sentence, which has {tokens} tokens, the "
            "first of them 0"
        )
    pos = _checked_pos(_field(record, "pos", str))
    return WsdInstance(str(number), _field(record, "lemma", str), pos, start, end, keys=())


_Value = TypeVar("_Value", list[Any], int, str)


def _field(record: Any, name: str, kind: type[_Value]) -> _Value:
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(f"{name} is missing, or no {kind.__name__}; {EXPECTED}")
    return value


def _checked_pos(pos: str) -> str:
    if pos not in PARTS_OF_SPEECH:
        raise InputError(f"the part of speech is {pos!r}; it must be {', '.join(PARTS_OF_SPEECH)}")
    return pos
