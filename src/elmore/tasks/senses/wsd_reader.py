"""Texts whose words have senses: the XML of Raganato, Camacho-Collados and Navigli (2017), and its file of keys.

A sentence has plain words (`<wf>`) and words to be disambiguated (`<instance id lemma pos>`); `NAME.gold.key.txt`
gives the sense keys of WordNet for each instance. Where the text of an element holds spaces, as in "pointed out", it
is several tokens here, and an instance reaches over all of its own.
"""

from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from elmore.display import join_names
from elmore.errors import InputError, NotFound
from elmore.files.text_files import COMPRESSION_SUFFIXES, display_name, read_lines


class WsdInstance(NamedTuple):
    """A word, or several, whose sense is asked for."""

    id: str
    lemma: str
    pos: str  # NOUN, VERB, ADJ or ADV
    start: int  # its first token in the sentence, counted from 0
    end: int  # the token after its last
    keys: tuple[str, ...]  # WordNet's keys of its sense; each of several is right


class WsdSentence(NamedTuple):
    """A sentence, and the words in it whose senses are asked for."""

    tokens: list[str]
    instances: list[WsdInstance]


def read_wsd(path: str | Path, *, keys: str | Path | None = None) -> list[WsdSentence]:
    """The sentences of an XML file, plain or packed, with the keys of their instances.

    Unless named, the keys are looked for beside the file: those of NAME.data.xml in NAME.gold.key.txt, packed or not.
    Instances and keys must be the same; a document type declaration is refused, whose entities can fill the memory.
    """
    keys_path = find_keys(path) if keys is None else keys
    gold = _read_keys(keys_path)
    reader = _XmlReader(display_name(path), gold, display_name(keys_path))
    reader.read(path)
    if not reader.sentences:
        raise InputError(f"{display_name(path)}: holds no sentences")
    if left := [one for one in gold if one not in reader.ids]:
        raise InputError(
            f"{display_name(keys_path)}: has keys of {len(left)} instances that {display_name(path)} does not have: "
            f"{join_names(left)}; do the two files belong together?"
        )
    return reader.sentences


def find_keys(path: str | Path) -> Path:
    """The file of keys beside an XML file."""
    file = Path(path)
    packing = file.suffix if file.suffix.lower() in COMPRESSION_SUFFIXES else ""
    stem = file.name.removesuffix(packing).removesuffix(".xml").removesuffix(".data")
    plain = file.with_name(f"{stem}.gold.key.txt")
    for found in (plain, *(plain.with_name(plain.name + suffix) for suffix in COMPRESSION_SUFFIXES)):
        if found.is_file():
            return found
    raise NotFound(f"{plain}: no such file, packed or not; it is to have the sense keys for {path}")


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
            raise InputError(f"{where}: the instance {instance!r} had its keys already")
        gold[instance] = tuple(keys)
    return gold


_PARENTS = {"corpus": "", "text": "corpus", "sentence": "text", "wf": "sentence", "instance": "sentence"}


class _XmlReader:
    """Puts sentences together while the file is parsed.

    Not ElementTree: it has no way to refuse a document type declaration before its entities are read.
    """

    def __init__(self, name: str, gold: dict[str, tuple[str, ...]], keys_name: str) -> None:
        self.name, self.gold, self.keys_name = name, gold, keys_name
        self.sentences: list[WsdSentence] = []
        self.ids: set[str] = set()
        self.open: list[tuple[str, dict[str, str]]] = []  # the elements around the place, with their attributes
        self.text: list[str] = []  # of the element at the place
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
            raise self.wrong(f"no well-formed XML: {expat.ErrorString(error.code)}", error.lineno) from None

    def wrong(self, what: str, line: int | None = None) -> InputError:
        return InputError(f"{self.name}, line {line or self.parser.CurrentLineNumber}: {what}")

    def doctype(self, *_: object) -> None:
        raise self.wrong("has a document type declaration, whose entities can fill the memory; remove it")

    def start(self, element: str, attributes: dict[str, str]) -> None:
        around = self.open[-1][0] if self.open else ""
        if _PARENTS.get(element) != around:
            raise self.wrong(
                f"<{element}> cannot stand {f'inside of <{around}>' if around else 'here'}; expected corpus, text, "
                "sentence, and in a sentence wf and instance"
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
            raise self.wrong(f"<{element}> has no text")
        first = len(sentence.tokens)
        sentence.tokens.extend(words)
        if element == "instance":
            sentence.instances.append(self.instance(attributes, first, len(sentence.tokens)))

    def check_text(self) -> None:
        """Between the words there is nothing but blanks."""
        if stray := "".join(self.text).strip():
            raise self.wrong(f"the text {stray[:40]!r} stands outside of <wf> and <instance>")
        self.text.clear()

    def instance(self, attributes: dict[str, str], start: int, end: int) -> WsdInstance:
        if missing := [name for name in ("id", "lemma", "pos") if not attributes.get(name)]:
            raise self.wrong(f"<instance> has no {missing[0]}; it needs id, lemma and pos")
        name = attributes["id"]
        if name in self.ids:
            raise self.wrong(f"there was an instance {name!r} before; ids are to be unique")
        if name not in self.gold:
            raise self.wrong(f"the instance {name!r} has no keys in {self.keys_name}")
        self.ids.add(name)
        return WsdInstance(name, attributes["lemma"], attributes["pos"], start, end, self.gold[name])
