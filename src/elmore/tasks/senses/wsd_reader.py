"""Text with words to disambiguate: files, and requests of users.

Files have the XML of Raganato, Camacho-Collados and Navigli (2017). A sentence has plain words (`<wf>`) and targets
(`<instance id lemma pos>`); `NAME.gold.key.txt` has WordNet's sense keys of each instance. An element whose text
contains spaces, as in "pointed out", becomes several tokens, and a target spans all of its tokens.

A request marks the targets of a text, with lemma and part of speech, which would require a separate task:

    He sat on the [bank|bank|NOUN] of the river.
    {"tokens": ["He", "sat", "down"], "targets": [{"start": 1, "end": 2, "lemma": "sit", "pos": "VERB"}]}
"""

import re
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat

from elmore.display import join_names
from elmore.errors import InputError, NotFound
from elmore.files.text_files import COMPRESSION_SUFFIXES, display_name, read_lines
from elmore.tasks.inputs.tokenizer import StyledTokenizer, TokenizedSentence
from elmore.tasks.readers.tables import json_field, json_object
from elmore.tasks.senses.target_words import covering_tokens

PARTS_OF_SPEECH = ("NOUN", "VERB", "ADJ", "ADV")
EXPECTED_TARGETS = (
    "expected text with targets as in: He sat on the [bank|bank|NOUN] of the river. Or JSON as in: "
    '{"tokens": ["He", "sat"], "targets": [{"start": 1, "end": 2, "lemma": "sit", "pos": "VERB"}]}'
)


class WsdInstance(NamedTuple):
    """A target: a word, or several, to disambiguate."""

    id: str
    lemma: str
    pos: str  # NOUN, VERB, ADJ or ADV
    start: int  # its first token in the sentence, counted from 0
    end: int  # the token after its last
    keys: tuple[str, ...]  # WordNet's keys of its sense; if there are several, each is correct


class WsdSentence(NamedTuple):
    """A sentence and its targets."""

    tokens: list[str]
    instances: list[WsdInstance]


def read_wsd(path: str | Path, *, keys: str | Path | None = None) -> list[WsdSentence]:
    """The sentences of an XML file, plain or compressed, with the keys of their instances.

    By default the keys are in the same folder: those of NAME.data.xml in NAME.gold.key.txt, plain or compressed. The
    file and its keys must have the same instances. Document type declarations are rejected, because their entities can
    fill the memory.
    """
    keys_path = find_keys(path) if keys is None else keys
    gold = _read_keys(keys_path)
    reader = _XmlReader(display_name(path), gold, display_name(keys_path))
    reader.read(path)
    if not reader.sentences:
        raise InputError(f"{display_name(path)}: contains no sentences")
    if unused := [instance for instance in gold if instance not in reader.ids]:
        raise InputError(
            f"{display_name(keys_path)}: has keys of {len(unused)} instances that {display_name(path)} does not have: "
            f"{join_names(unused)}; do the two files belong together?"
        )
    return reader.sentences


def find_keys(path: str | Path) -> Path:
    """The file of keys for an XML file."""
    plain = Path(path).with_name(f"{data_set_name(path)}.gold.key.txt")
    for candidate in (plain, *(plain.with_name(plain.name + suffix) for suffix in COMPRESSION_SUFFIXES)):
        if candidate.is_file():
            return candidate
    raise NotFound(f"{plain}: no such file, plain or compressed; it must contain the sense keys for {path}")


def data_set_name(path: str | Path) -> str:
    """The name of an XML file without its suffixes.

    >>> data_set_name("data/senseval2.data.xml.xz")
    'senseval2'
    """
    file = Path(path)
    packing = file.suffix if file.suffix.lower() in COMPRESSION_SUFFIXES else ""
    return file.name.removesuffix(packing).removesuffix(".xml").removesuffix(".data")


def _read_keys(path: str | Path) -> dict[str, tuple[str, ...]]:
    gold: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip(" "):
            continue
        instance, *keys = line.strip(" ").split(" ")
        where = f"{display_name(path)}, line {number}"
        if not keys or not all("%" in key for key in keys):
            raise InputError(f"{where}: expected the id of an instance and its sense keys, such as art%1:09:00::")
        if instance in gold:
            raise InputError(f"{where}: the instance {instance!r} occurs a second time")
        gold[instance] = tuple(keys)
    return gold


_PARENTS = {"corpus": "", "text": "corpus", "sentence": "text", "wf": "sentence", "instance": "sentence"}


class _XmlReader:
    """Collects sentences while the file is parsed.

    Not ElementTree, which cannot reject a document type declaration before it reads its entities.
    """

    def __init__(self, name: str, gold: dict[str, tuple[str, ...]], keys_name: str) -> None:
        self.name, self.gold, self.keys_name = name, gold, keys_name
        self.sentences: list[WsdSentence] = []
        self.ids: set[str] = set()
        self.open: list[tuple[str, dict[str, str]]] = []  # the open elements, with their attributes
        self.text: list[str] = []  # of the innermost open element
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = self.doctype
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text.append

    def read(self, path: str | Path) -> None:
        try:
            for line in read_lines(path):
                self.parser.Parse(f"{line}\n")
            self.parser.Parse("", True)  # the end of the file
        except expat.ExpatError as error:
            raise self.error(f"invalid XML: {expat.ErrorString(error.code)}", error.lineno) from None

    def error(self, reason: str, line: int | None = None) -> InputError:
        return InputError(f"{self.name}, line {line or self.parser.CurrentLineNumber}: {reason}")

    def doctype(self, *_: object) -> None:
        raise self.error("has a document type declaration, whose entities can fill the memory; remove it")

    def start(self, element: str, attributes: dict[str, str]) -> None:
        parent = self.open[-1][0] if self.open else ""
        if _PARENTS.get(element) != parent:
            raise self.error(
                f"unexpected <{element}>{f' inside of <{parent}>' if parent else ''}; expected corpus, text, sentence, "
                "and in a sentence wf and instance"
            )
        self.check_text()
        self.open.append((element, attributes))
        if element == "sentence":
            self.sentences.append(WsdSentence([], []))

    def end(self, element: str) -> None:
        _, attributes = self.open.pop()
        if element not in ("wf", "instance"):
            self.check_text()
            return
        sentence = self.sentences[-1]
        words = [word for word in "".join(self.text).replace("\n", " ").split(" ") if word]
        self.text.clear()
        if not words:
            raise self.error(f"<{element}> has no text")
        first = len(sentence.tokens)
        sentence.tokens.extend(words)
        if element == "instance":
            sentence.instances.append(self.instance(attributes, first, len(sentence.tokens)))

    def check_text(self) -> None:
        """Reject text between the words, except whitespace."""
        if text := "".join(self.text).strip():
            raise self.error(f"the text {text[:40]!r} is outside of <wf> and <instance>")
        self.text.clear()

    def instance(self, attributes: dict[str, str], start: int, end: int) -> WsdInstance:
        if missing := [name for name in ("id", "lemma", "pos") if not attributes.get(name)]:
            raise self.error(f"<instance> has no {missing[0]}; it needs id, lemma and pos")
        name = attributes["id"]
        if name in self.ids:
            raise self.error(f"a second instance {name!r}; ids must be unique")
        if name not in self.gold:
            raise self.error(f"the instance {name!r} has no keys in {self.keys_name}")
        self.ids.add(name)
        return WsdInstance(name, attributes["lemma"], attributes["pos"], start, end, self.gold[name])


class SenseRequest(NamedTuple):
    """The sentences of a user's text, and the targets of each."""

    sentences: list[TokenizedSentence]
    targets: list[list[WsdInstance]]


def parse_request(line: str, tokenizer: StyledTokenizer) -> SenseRequest:
    """A user's text with its targets. The tokens of a JSON object are one sentence."""
    try:
        return _json_request(line) if _is_json(line) else _marked_request(line, tokenizer)
    except InputError as error:
        raise InputError(f"{error}; {EXPECTED_TARGETS}") from None


def plain_text(line: str) -> str:
    """The text of a request without marks.

    >>> plain_text("He sat on the [bank|bank|NOUN] of the river.")
    'He sat on the bank of the river.'
    """
    return " ".join(_json_request(line).sentences[0].tokens) if _is_json(line) else _unmark(line)[0]


def _is_json(line: str) -> bool:
    return line.lstrip().startswith("{")


def _json_request(line: str) -> SenseRequest:
    record = json_object(line)
    tokens = json_field(record, "tokens", list)
    if not tokens or not all(isinstance(token, str) and token for token in tokens):
        raise InputError("tokens must be a list of at least one word")
    records = json_field(record, "targets", list)
    if not records:
        raise InputError(f"there is no target in {line[:60]!r}")
    ends = list(accumulate(len(token) + 1 for token in tokens))
    offsets = [(end - 1 - len(token), end - 1) for token, end in zip(tokens, ends, strict=True)]
    targets = [_json_target(target, number, len(tokens)) for number, target in enumerate(records)]
    return SenseRequest([TokenizedSentence(tokens, offsets)], [targets])


def _json_target(record: Any, number: int, tokens: int) -> WsdInstance:
    start, end = json_field(record, "start", int), json_field(record, "end", int)
    if not 0 <= start < end <= tokens:
        raise InputError(
            f"the target from token {start} up to {end} is outside of its sentence; tokens are 0 to {tokens - 1}"
        )
    lemma, pos = json_field(record, "lemma", str), json_field(record, "pos", str)
    return WsdInstance(str(number), lemma, _checked_pos(pos), start, end, keys=())


_TARGET = re.compile(r"\[([^\[\]|]+)\|([^\[\]|]+)\|([^\[\]|]+)\]")


class _Mark(NamedTuple):
    start: int  # characters of the text without marks
    end: int
    lemma: str
    pos: str


def _unmark(line: str) -> tuple[str, list[_Mark]]:
    text, end = "", 0
    marks = []
    for match in _TARGET.finditer(line):
        word, lemma, pos = match.groups()
        text += line[end : match.start()]
        marks.append(_Mark(len(text), len(text) + len(word), lemma, _checked_pos(pos)))
        text, end = text + word, match.end()
    if not marks:
        raise InputError(f"there is no target in {line[:60]!r}")
    return text + line[end:], marks


def _marked_request(line: str, tokenizer: StyledTokenizer) -> SenseRequest:
    text, marks = _unmark(line)
    sentences = tokenizer.sentences(text)
    targets: list[list[WsdInstance]] = [[] for _ in sentences]
    for number, (start, end, lemma, pos) in enumerate(marks):
        spans = [(row, covering_tokens(sentence.offsets, start, end)) for row, sentence in enumerate(sentences)]
        inside = [(row, span) for row, span in spans if span is not None]
        if len(inside) != 1:
            raise InputError(f"the target {text[start:end]!r} is not inside of one sentence of {text[:60]!r}")
        [(row, span)] = inside
        targets[row].append(WsdInstance(str(number), lemma, pos, *span, keys=()))
    return SenseRequest(sentences, targets)


def _checked_pos(pos: str) -> str:
    if pos not in PARTS_OF_SPEECH:
        raise InputError(f"the part of speech is {pos!r}; it must be {', '.join(PARTS_OF_SPEECH)}")
    return pos
