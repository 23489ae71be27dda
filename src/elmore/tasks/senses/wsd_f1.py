"""F1 of word senses, as the scorer of Raganato, Camacho-Collados and Navigli (2017) counts.

An answer is right when it is any of an instance's gold keys. An instance without an answer lowers recall alone.
"""

from collections.abc import Mapping, Sequence

from elmore.display import join_names
from elmore.errors import InputError
from elmore.tasks.metrics.score import Counts, Score
from elmore.tasks.senses.wsd_reader import WsdInstance

PARTS_OF_SPEECH = ("NOUN", "VERB", "ADJ", "ADV")
_ALL = ""  # where a set or a part of speech is named: all of them


def wsd_scores(gold: Mapping[str, Sequence[WsdInstance]], predicted: Mapping[str, Mapping[str, str]]) -> Score:
    """The F1 over the instances of one or more data sets, by set and by part of speech.

    Both arguments go by the name of the set, for ids are unique only within one; `predicted` gives the sense key of
    each answered instance by its id. Parts: precision, recall, f1, gold, found (answered) and correct of all, and with
    SET., POS. or SET.POS. before them those of a set, of a part of speech, and of both.
    """
    if strangers := [name for name in predicted if name not in gold]:
        raise InputError(
            f"there are answers for {join_names(strangers)}, and gold keys only for {join_names(list(gold))}"
        )
    answers = {name: predicted.get(name, {}) for name in gold}
    for name, instances in gold.items():
        ids = {instance.id for instance in instances}
        if unasked := [one for one in answers[name] if one not in ids]:
            raise InputError(f"{name}: there are answers for instances that it does not have: {join_names(unasked)}")
    # For each cell of the table, one instance after another: whether it was answered, and whether rightly.
    cells: dict[tuple[str, str], Counts] = {}
    for name, instances in gold.items():
        for instance in instances:
            answer = answers[name].get(instance.id)
            one = Counts(1, int(answer is not None), int(answer in instance.keys))
            for cell in {(name, instance.pos), (name, _ALL), (_ALL, instance.pos), (_ALL, _ALL)}:
                cells[cell] = _sum(cells.get(cell, Counts(0, 0, 0)), one)
    total = cells.get((_ALL, _ALL), Counts(0, 0, 0))
    parts: dict[str, float] = {}
    for (name, pos), counts in cells.items():
        parts |= counts.named(".".join(part for part in (name, pos) if part))
    return Score("F1", total.f1, parts, _table(cells, list(gold)))


def _sum(one: Counts, other: Counts) -> Counts:
    return Counts(one.gold + other.gold, one.found + other.found, one.correct + other.correct)


def _table(cells: Mapping[tuple[str, str], Counts], sets: list[str]) -> str:
    poses = [pos for pos in PARTS_OF_SPEECH if (_ALL, pos) in cells]
    poses += sorted({pos for _, pos in cells} - {*PARTS_OF_SPEECH, _ALL})
    columns = [_ALL, *poses]
    rows = [*sets, _ALL] if len(sets) > 1 else sets
    width = max(map(len, ["all", *rows]))
    lines = [f"{'F1':<{width}}" + "".join(f"{column or 'all':>7}" for column in columns) + "  instances  answered"]
    for row in rows:
        counts = cells.get((row, _ALL), Counts(0, 0, 0))
        shares = (f"{cells[row, column].f1:7.1f}" if (row, column) in cells else f"{'-':>7}" for column in columns)
        lines.append(f"{row or 'all':<{width}}{''.join(shares)}  {counts.gold:9,}  {counts.found:8,}")
    return "\n".join(lines)
