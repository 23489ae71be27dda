"""What `experiments/overlap` measured, for its page; `figures.py` puts it there."""

from pathlib import Path
from typing import Any

from kept_results import in_words, read, table

RESULTS = Path(__file__).resolve().parents[1] / "experiments" / "overlap" / "results"
PARTS = ("of these Yuan_dynasty", "the other 11")  # of a set that has a row of its own


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(RESULTS / "overlap.json")["sets"]
    return found


def row(name: str) -> dict[str, Any]:
    return next(one for one in rows() if one["name"] == name)


def sets() -> str:
    cells = []
    for one in rows():
        long, grams, short = one["long_enough"], one["distinct_grams"], one["distinct_short_texts"]
        sources = sorted(grams["by_source"].items(), key=lambda counted: -counted[1])
        cells.append(
            [
                one["task"],
                one["name"],
                f"{one['examples']:,} {one['unit']}",
                f"{long['examples']:,}",
                with_share(long["with_a_gram_found"], long["examples"]),
                with_share(long["with_half_found"], long["examples"]),
                f"{grams['all']:,}",
                with_share(grams["found"], grams["all"]),
                ", ".join(source for source, found in sources if found),
                f"{short['looked_for']:,}",
                f"{short['found_whole']:,}",
                f"{short['too_short']:,}",
            ]
        )
    head = ["task", "test set", "examples", "long enough", "with a 13-gram found", "with half of them found"]
    head += ["distinct 13-grams", "found", "in", "8 to 12 words", "found whole", "shorter"]
    return table(head, cells, texts=2)


def short() -> str:
    """How much of each test set was in the text, in three columns."""
    cells = []
    for one in rows():
        long = one["long_enough"]
        found = with_share(long["with_a_gram_found"], long["examples"])
        cells.append(
            [f"{one['task']}, {one['name']}", f"{long['examples']:,} of {one['examples']:,} {one['unit']}", found]
        )
    return table(["test set", "long enough to tell", "with a 13-gram found"], cells)


def with_share(part: int, whole: int) -> str:
    return f"{part:,} ({part / whole:.1%})" if part else "0"


def clean_sets() -> list[str]:
    whole = [one for one in rows() if one["name"] not in PARTS]
    clean = [one for one in whole if not one["distinct_grams"]["found"]]
    return [in_words(len(clean)), in_words(len(whole))]


def shares() -> list[str]:
    found = [row(name)["long_enough"] for name in ("WikiNEuRal", "MCL-WiC", "SCWS")]
    return [f"{100 * one['with_a_gram_found'] / one['examples']:.1f}" for one in found]


def known_article() -> list[str]:
    known, others = (row(name)["long_enough"] for name in PARTS)
    return [str(number) for one in (known, others) for number in (one["with_a_gram_found"], one["examples"])]


def words() -> list[str]:
    return [f"{sum(read(RESULTS / 'overlap.json')['words'].values()) / 1e6:.0f}"]
