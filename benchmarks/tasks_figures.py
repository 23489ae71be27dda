"""What `tasks.py` measured, for the page of tasks; `figures.py` puts it there."""

from pathlib import Path
from typing import Any

from kept_results import read_lines, table

RESULTS = Path(__file__).resolve().parent / "results"
# What an example is, where it is no sentence.
RATED = {"entailment": "pairs", "squad": "questions", "srl": "predicates", "coref": "documents"}
TAGGERS = {
    "elmore, words": "Elmore, word vectors alone",
    "flair, words": "flair, the same",
    "elmore, characters": "Elmore, with its character CNN",
    "flair, characters": "flair, with its character LSTM",
    "elmore, elmo, cold": "Elmore, with characters and ELMo, all words new",
    "elmore, elmo, warm": "Elmore, with characters and ELMo, all words seen before",
    "elmore, elmo, int8, cold": "Elmore, with ELMo in int8, all words new",
    "elmore, elmo, int8, warm": "Elmore, with ELMo in int8, all words seen before",
}


def training() -> str:
    """The last measurement of each task on each device."""
    found: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {}
    for line in read_lines(RESULTS / "tasks_training.jsonl"):
        found.setdefault(line["device"], {}).update({name: (one, line) for name, one in line["tasks"].items()})
    rows = [
        [
            f"`{name}`, {'CPU, ' + threads(line['threads']) if device == 'cpu' else device}",
            f"{one['seconds_per_epoch']['without']:.0f} s",
            f"{one['seconds_per_epoch']['with']:.0f} s",
            f"{one['ratio']:.2f}",
            f"{min(one['ratio_each_round']):.2f} to {max(one['ratio_each_round']):.2f}",
            f"{one['processor_ratio']:.2f}",
            f"{line['rounds']} × {line['steps_per_round']}",
        ]
        for device, tasks in found.items()
        for name, (one, line) in tasks.items()
    ]
    head = [
        "an epoch of",
        "without ELMo",
        "with ELMo",
        "ratio",
        "lowest to highest round",
        "ratio of processor time",
        "rounds × batches",
    ]
    return table(head, rows)


def threads(count: int) -> str:
    return f"{count} thread{'s' if count != 1 else ''}"


def rounded(rate: float) -> str:
    """Three digits of what is less than a thousand.

    >>> rounded(0.8), rounded(68.56), rounded(1466.93)
    ('0.8', '68.6', '1,467')
    """
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.3g}"


def rates() -> str:
    """The last measurement of each task."""
    found: dict[str, dict[str, Any]] = {}
    for line in read_lines(RESULTS / "tasks_rates.jsonl"):
        found.update(line["tasks"])
    rows = [
        [
            f"`{name}`",
            RATED.get(name, "sentences"),
            f"{one['examples']}",
            f"{one['tokens']:,}",
            *(rounded(one["examples_per_second"][model]) for model in ("with", "without")),
        ]
        for name, one in found.items()
    ]
    return table(["task", "what is predicted", "how many", "tokens", "a second with ELMo", "a second without"], rows)


def prediction() -> str:
    return prediction_table(last_prediction())


def prediction_table(line: dict[str, Any]) -> str:
    """Sentences a second, by the clock and of the processor's time, of each tagger and number of threads."""
    found, rounds, of_processor = (
        line[part] for part in ("sentences_per_second", "each_round", "sentences_per_processor_second")
    )
    rows = []
    for who, shown in TAGGERS.items():
        if any(who not in one for one in found.values()):
            continue  # a machine that cannot compute so
        row = [shown]
        for n, one in found.items():
            spread = f"{min(rounds[n][who]):.0f} to {max(rounds[n][who]):.0f}"
            row += [f"{one[who]:.0f} ({spread})", f"{of_processor[n][who]:.0f}"]
        rows.append(row)
    head = ["sentences a second"]
    for n in found:
        head += [threads(int(n)), "per processor second"]
    return table(head, rows)


def gru_speed() -> list[str]:
    """How many times as fast as cuDNN's the fused GRUs are, forth and back, and on what that was measured."""
    line = read_lines(RESULTS / "gru_recurrence.jsonl")[-1]
    length, taken = next(iter(line["milliseconds"].items()))
    ratio = taken["torch"]["forth_and_back"] / taken["fused"]["forth_and_back"]
    return [f"{ratio:.0f}", str(line["sentences"]), length]


def last_prediction() -> dict[str, Any]:
    return read_lines(RESULTS / "tasks_prediction.jsonl")[-1]


def prediction_sizes() -> list[str]:
    line = last_prediction()
    return [f"{line[part]:,}" for part in ("sentences", "tokens", "rounds")]
