"""What `experiments/tokenizer` measured, for its page; `figures.py` puts it there."""

import statistics
from pathlib import Path
from typing import Any

from kept_results import in_words, read, table

RESULTS = Path(__file__).resolve().parents[1] / "experiments" / "tokenizer" / "results"


def texts() -> str:
    compared, speeds = comparison(), read(RESULTS / "speed.json")["words_per_second"]
    versions = ("version_1", "version_2")
    rows = [
        [
            name,
            f"{one['changed']:,} of {one['stretches']:,}",
            str(one["scored"]),
            *(f"{one['bits'][version]:,}" for version in versions),
            f"{one['bits_change']:+.2%}",
            *(f"{one['unknown_words'][version]:,}" for version in versions),
            *(f"{speeds[name][version]:,}" for version in versions),
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
    scored = sum(one["scored"] for one in comparison().values())
    old, new = sums("bits")
    less, more = sum(change < 0 for change in changes), sum(change > 0 for change in changes)
    return [str(scored), f"{100 * (1 - new / old):.2f}", in_words(less), in_words(more)]


def unknown() -> list[str]:
    strangers, words = sums("unknown_words"), sums("words")
    shares = [f"{100 * part / whole:.3f}" for part, whole in zip(strangers, words, strict=True)]
    return [*(f"{number:,}" for number in strangers), *shares]


def times() -> list[str]:
    speeds = read(RESULTS / "speed.json")["words_per_second"].values()
    times = [speed["version_1"] / speed["version_2"] for speed in speeds]
    return [f"{max(times):.2f}", f"{statistics.median(times):.2f}"]


def characters() -> list[str]:
    return [f"{read(RESULTS / 'speed.json')['characters']:,}"]


def ud_f1() -> list[str]:
    found = read(RESULTS / "token_styles.json")["ud"]
    return [f"{found[part]['f1']:.2f}" for part in ("dev", "test")]


def converted_sentences() -> list[str]:
    return [f"{read(RESULTS / 'token_styles.json')['converted']['sentences']:,}"]


def converted_shares() -> list[str]:
    shares = read(RESULTS / "token_styles.json")["converted"]["equal"]
    return [f"{shares[style]:.2f}" for style in ("penn", "nltk", "plain", "ud")]
