"""Which senses a lemma can have: those it had in the training data, and WordNet's first for lemmas that it lacks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from elmore.tasks.senses.sense_index import SenseIndex
from elmore.tasks.senses.wsd_reader import WsdInstance

Labels = Mapping[str, Any]
LemmaPos = tuple[str, str]

# Of `inventory_labels`: by part of speech and lemma.
LABEL_TYPES = {"senses": Mapping[str, Mapping[str, tuple[str, ...]]], "first_senses": Mapping[str, Mapping[str, str]]}


@dataclass(frozen=True)
class SenseInventory:
    """Senses, numbered; those of one lemma and part of speech follow each other, in WordNet's order."""

    keys: tuple[str, ...]
    ranges: Mapping[LemmaPos, range]  # of a lemma in training, the numbers of its senses
    first: Mapping[LemmaPos, str]  # of one that is not, WordNet's first sense

    @classmethod
    def of(cls, labels: Labels) -> "SenseInventory":
        """From the JSON values that `inventory_labels` made."""
        keys: list[str] = []
        ranges: dict[LemmaPos, range] = {}
        for pos, lemmas in labels["senses"].items():
            for lemma, senses in lemmas.items():
                ranges[lemma, pos] = range(len(keys), len(keys) + len(senses))
                keys += senses
        first = {(lemma, pos): key for pos, lemmas in labels["first_senses"].items() for lemma, key in lemmas.items()}
        return cls(tuple(keys), ranges, first)

    def numbers(self, target: WsdInstance) -> range:
        """The senses that a target's lemma had in training; empty where it was not there."""
        return self.ranges.get(lemma_pos(target), range(0))

    def gold_numbers(self, target: WsdInstance) -> list[int]:
        """Those of its gold senses that its lemma had in training."""
        return [number for number in self.numbers(target) if self.keys[number] in target.keys]

    def back_off(self, target: WsdInstance) -> str | None:
        """The first sense of its lemma, whether in training or not; None where WordNet does not have it."""
        known = self.numbers(target)
        return self.keys[known[0]] if known else self.first.get(lemma_pos(target))


def inventory_labels(targets: Iterable[WsdInstance], index: SenseIndex) -> dict[str, Any]:
    """The inventory of a training set as JSON values, the first senses of all other lemmas of the index with it.

    >>> target = WsdInstance("1", "art", "NOUN", 0, 1, ("art%2",))
    >>> inventory_labels([target], {("art", "NOUN"): ["art%1", "art%2"], ("bow", "NOUN"): ["bow%1", "bow%2"]})
    {'senses': {'NOUN': {'art': ['art%2']}}, 'first_senses': {'NOUN': {'bow': 'bow%1'}}}
    """
    found: dict[LemmaPos, set[str]] = {}
    for target in targets:
        found.setdefault(lemma_pos(target), set()).update(target.keys)
    senses: dict[str, dict[str, list[str]]] = {}
    for (lemma, pos), keys in sorted(found.items()):
        in_order = [key for key in index.get((lemma, pos), ()) if key in keys]
        # A key that the index lacks, as of another version of WordNet, comes last.
        senses.setdefault(pos, {})[lemma] = [*in_order, *sorted(keys - set(in_order))]
    first: dict[str, dict[str, str]] = {}
    for (lemma, pos), own in index.items():
        if (lemma, pos) not in found:
            first.setdefault(pos, {})[lemma] = own[0]
    return {"senses": senses, "first_senses": first}


def lemma_pos(target: WsdInstance) -> LemmaPos:
    """What a target's senses are looked up by: its lemma as WordNet writes it, and its part of speech."""
    return target.lemma.lower().replace(" ", "_"), target.pos
