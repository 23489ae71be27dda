"""Figures of `experiments/tokenizer` and `tokenizer.py`. `figures.py` writes them into pages."""

import statistics
from pathlib import Path
from typing import Any

from kept_results import in_words, read, table

RESULTS = Path(__file__).resolve().parents[1] / "experiments" / "tokenizer" / "results"
SPEED = Path(__file__).resolve().parent / "results" / "tokenizer.json"


def texts() -> str:
    compared, speeds = comparison(), read(SPEED)["texts"]
    versions = ("version_1", "version_2")
    rows = [
        [
            name,
            f"{one['changed']:,} of {one['stretches']:,}",
            str(one["scored"]),
            *(f"{one['bits'][version]:,}" for version in versions),
            f"{one['bits_change']:+.2%}",
            *(f"{one['unknown_words'][version]:,}" for version in versions),
            *(f"{speeds[name]['prepare'][version]['elmore']:,}" for version in versions),
        ]
        for name, one in compared.items()
    ]
    (old, new), strangers = sums("bits"), sums("unknown_words")
    all_of_them = [f"{new / old - 1:+.2%}", *(f"{number:,}" for number in strangers)]
    rows.append(["all", "", "", f"{old:,}", f"{new:,}", *all_of_them, "", ""])
    head = ["text", "sentences cut otherwise", "scored", "bits, version 1", "version 2", "change"]
    return table([*head, "unknown words, 1", "2", "words/s, 1", "2"], rows)


def comparison() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read(RESULTS / "compare.json")["texts"]
    return found


def sums(what: str) -> list[int]:
    """Over all texts, of version 1 and of version 2."""
    compared = comparison().values()
    return [sum(one[what][f"version_{version}"] for one in compared) for version in (1, 2)]


def bits() -> list[str]:
    changes = [one["bits_change"] for one in comparison().values()]
    changed, scored = (sum(one[what] for one in comparison().values()) for what in ("changed", "scored"))
    old, new = sums("bits")
    less, more = sum(change < 0 for change in changes), sum(change > 0 for change in changes)
    return [f"{changed:,}", f"{scored:,}", f"{100 * (1 - new / old):.2f}", in_words(less), in_words(more)]


def unknown() -> list[str]:
    strangers, words = sums("unknown_words"), sums("words")
    shares = [f"{100 * part / whole:.3f}" for part, whole in zip(strangers, words, strict=True)]
    return [*(f"{number:,}" for number in strangers), *shares]


def times() -> list[str]:
    times = [text["prepare"]["version_1_to_2"] for text in read(SPEED)["texts"].values()]
    return [f"{max(times):.2f}", f"{statistics.median(times):.2f}"]


def characters() -> list[str]:
    return [f"{read(SPEED)['characters']:,}"]


def speed() -> list[str]:
    """Medians over the texts, version 2: words per second, and the ratios to sacremoses."""
    found = read(SPEED)
    tokenize, prepare = (
        [text[name]["version_2"] for text in found["texts"].values()] for name in ("tokenize", "prepare")
    )
    first = found["first_sentence_seconds"]
    return [
        f"{round(statistics.median(text['elmore'] for text in tokenize), -4):,.0f}",
        f"{statistics.median(text['ratio'] for text in tokenize):.1f}",
        f"{statistics.median(text['ratio'] for text in prepare):.1f}",
        f"{1000 * first['elmore']:.0f}",
        f"{1000 * first['sacremoses']:.0f}",
    ]


def ud_f1() -> list[str]:
    found = read(RESULTS / "token_styles.json")["ud"]
    return [f"{found[part]['f1']:.2f}" for part in ("dev", "test")]


def converted_sentences() -> list[str]:
    return [f"{read(RESULTS / 'token_styles.json')['converted']['sentences']:,}"]


def converted_shares() -> list[str]:
    shares = read(RESULTS / "token_styles.json")["converted"]["equal"]
    return [f"{shares[style]:.2f}" for style in ("penn", "nltk", "plain", "ud")]
