"""The senses of each lemma: WordNet's `index.sense`, and the senses of the training data.

For lemmas that are not in the training data, the inventory has WordNet's first sense.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmore.errors import InputError
from elmore.files.text_files import display_name, read_lines
from elmore.tasks.senses.wsd_reader import WsdInstance

Labels = Mapping[str, Any]
LemmaPos = tuple[str, str]
SenseIndex = dict[LemmaPos, list[str]]

# Of `inventory_labels`: by part of speech and lemma.
LABEL_TYPES = {"senses": Mapping[str, Mapping[str, tuple[str, ...]]], "first_senses": Mapping[str, Mapping[str, str]]}
# The digit after the % of a key. 5 is an adjective satellite, which WordNet numbers with the adjectives.
_PARTS_OF_SPEECH = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}


def read_sense_index(path: str | Path) -> SenseIndex:
    """The keys of the senses of each lemma and part of speech (NOUN, VERB, ADJ, ADV), the most frequent sense first.

    Lemmas have the form of WordNet's keys: lowercase, with underscores for spaces.
    """
    name = display_name(path)
    numbered: dict[LemmaPos, dict[int, str]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split(" ")
        key = fields[0]
        lemma, percent, rest = key.rpartition("%")
        if len(fields) != 4 or not (lemma and percent and rest[:1] in _PARTS_OF_SPEECH and rest[1:2] == ":"):
            raise InputError(
                f"{name}, line {number}: expected a sense key, synset, number of the sense and count, such as "
                "art%1:09:00:: 05638987 3 20"
            )
        sense = int(fields[2]) if fields[2].isascii() and fields[2].isdecimal() else 0
        senses = numbered.setdefault((lemma, _PARTS_OF_SPEECH[rest[0]]), {})
        if sense < 1 or sense in senses:
            raise InputError(
                f"{name}, line {number}: the number of the sense is {fields[2]!r}; expected a number from 1 that no "
                f"other sense of {lemma!r} has"
            )
        senses[sense] = key
    if not numbered:
        raise InputError(f"{name}: contains no senses")
    return {lemma: [senses[number] for number in sorted(senses)] for lemma, senses in numbered.items()}


@dataclass(frozen=True)
class SenseInventory:
    """Numbered senses; the senses of a lemma and part of speech are consecutive, in WordNet's order."""

    keys: tuple[str, ...]
    ranges: Mapping[LemmaPos, range]  # of a lemma of the training data, the numbers of its senses
    first: Mapping[LemmaPos, str]  # of other lemmas, WordNet's first sense

    @classmethod
    def of(cls, labels: Labels) -> "SenseInventory":
        """From the JSON values of `inventory_labels`."""
        keys: list[str] = []
        ranges: dict[LemmaPos, range] = {}
        for pos, lemmas in labels["senses"].items():
            for lemma, senses in lemmas.items():
                ranges[lemma, pos] = range(len(keys), len(keys) + len(senses))
                keys += senses
        first = {(lemma, pos): key for pos, lemmas in labels["first_senses"].items() for lemma, key in lemmas.items()}
        return cls(tuple(keys), ranges, first)

    def numbers(self, target: WsdInstance) -> range:
        """The senses that a target's lemma has in the training data; empty if the lemma is not there."""
        return self.ranges.get(lemma_pos(target), range(0))

    def gold_numbers(self, target: WsdInstance) -> list[int]:
        """The gold senses of a target that its lemma has in the training data."""
        return [number for number in self.numbers(target) if self.keys[number] in target.keys]

    def first_sense(self, target: WsdInstance) -> str | None:
        """The first sense of the target's lemma; None if neither the training data nor WordNet has the lemma."""
        numbers = self.numbers(target)
        return self.keys[numbers[0]] if numbers else self.first.get(lemma_pos(target))

    def can_predict(self, target: WsdInstance) -> bool:
        """Whether any gold sense of the target can be predicted."""
        return bool(self.gold_numbers(target)) or self.first_sense(target) in target.keys


def inventory_labels(targets: Iterable[WsdInstance], index: SenseIndex) -> dict[str, Any]:
    """The inventory of a training set as JSON values, with the first senses of all other lemmas of the index.

    >>> target = WsdInstance("1", "art", "NOUN", 0, 1, ("art%2",))
    >>> inventory_labels([target], {("art", "NOUN"): ["art%1", "art%2"], ("bow", "NOUN"): ["bow%1", "bow%2"]})
    {'senses': {'NOUN': {'art': ['art%2']}}, 'first_senses': {'NOUN': {'bow': 'bow%1'}}}
    """
    keys_of: dict[LemmaPos, set[str]] = {}
    for target in targets:
        keys_of.setdefault(lemma_pos(target), set()).update(target.keys)
    senses: dict[str, dict[str, list[str]]] = {}
    for (lemma, pos), keys in sorted(keys_of.items()):
        in_order = [key for key in index.get((lemma, pos), ()) if key in keys]
        # Keys that are not in the index, such as those of another version of WordNet, follow.
        senses.setdefault(pos, {})[lemma] = [*in_order, *sorted(keys - set(in_order))]
    first: dict[str, dict[str, str]] = {}
    for (lemma, pos), index_keys in index.items():
        if (lemma, pos) not in keys_of:
            first.setdefault(pos, {})[lemma] = index_keys[0]
    return {"senses": senses, "first_senses": first}


def lemma_pos(target: WsdInstance) -> LemmaPos:
    """The key of a target's senses: its lemma in WordNet's form, and its part of speech."""
    return target.lemma.lower().replace(" ", "_"), target.pos
