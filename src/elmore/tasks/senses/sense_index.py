"""WordNet's `index.sense`: which senses a lemma has, in WordNet's order, the most frequent first."""

from pathlib import Path

from elmore.errors import InputError
from elmore.files.text_files import display_name, read_lines

# The digit behind the % of a key; 5 is an adjective satellite, whose senses are counted with the adjectives'.
_PARTS_OF_SPEECH = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}

SenseIndex = dict[tuple[str, str], list[str]]


def read_sense_index(path: str | Path) -> SenseIndex:
    """For each lemma and part of speech (NOUN, VERB, ADJ, ADV) the keys of its senses, the first sense first.

    Lemmas are as WordNet's keys have them: in small letters, with underscores for blanks.
    """
    name = display_name(path)
    numbered: dict[tuple[str, str], dict[int, str]] = {}
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
                f"{name}, line {number}: the sense is numbered {fields[2]!r}; expected a number from 1 that no other "
                f"sense of {lemma!r} has"
            )
        senses[sense] = key
    if not numbered:
        raise InputError(f"{name}: holds no senses")
    return {lemma: [senses[number] for number in sorted(senses)] for lemma, senses in numbered.items()}
