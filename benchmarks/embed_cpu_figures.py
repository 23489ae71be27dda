"""What `embed_cpu.py` measured, as tables and a plot, beside what was aimed at; `figures.py` fills pages from it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from kept_results import read_lines, table

RESULTS = Path(__file__).resolve().parent / "results" / "embed_cpu.jsonl"
SIZES = ("small", "medium", "original")
PEERS = ("AllenNLP", "simple_elmo")
Line = dict[str, Any]

# What Elmore was to reach with two threads: so many times as fast as AllenNLP, and as simple_elmo.
AIMS: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("batches", "float32"): {"small": (13, 2.8), "medium": (7, 1.7), "original": (4.5, 1.25)},
    ("batches", "bfloat16"): {"small": (25, 5), "medium": (15, 3.7), "original": (10, 2.8)},
    ("batches", "int8"): {"small": (35, 7), "medium": (22, 5.5), "original": (15, 4)},
    ("one_sentence", "float32"): {"small": (10, 4.5), "medium": (9, 3.2), "original": (8, 2.2)},
    ("one_sentence", "int8"): {"small": (20, 9), "medium": (20, 7), "original": (20, 5.5)},
    ("stream", "float32"): {"small": (14, 3)},
}
MEMORY_AIMS = {"small": 0.5, "medium": 0.5, "original": 0.7}  # of AllenNLP's
BUSY_AIM = 0.4  # of the rate on a free machine, with one of two cores busy
ONE_THREAD = 2 / 3  # of the aim for two
SHOWN = {"batches": "batches", "one_sentence": "one sentence", "stream": "long stream"}


def kept() -> dict[tuple[str, int], Line]:
    """The last line of each size and number of threads."""
    found = {(line["size"], line["threads"]): line for line in read_lines(RESULTS)}
    return {key: found[key] for key in sorted(found, key=lambda key: (SIZES.index(key[0]), -key[1]))}


def speed(line: Line, what: str, who: str, *, processor: bool = False) -> float | None:
    """Larger is faster: tokens a second, or one over the mean of what sentences of each length take."""
    if who not in line[what]:
        return None
    one = line[what][who]
    if what != "one_sentence":
        return float(one["tokens_per_processor_second" if processor else "tokens_per_second"])
    return 1 / geometric_mean([group["processor" if processor else "median"] for group in one.values()])


def ratios(line: Line, what: str, who: str, *, processor: bool = False) -> list[float | None]:
    """How many times as fast as each of the other programs for ELMo."""
    ours = speed(line, what, who, processor=processor)
    theirs = [speed(line, what, peer, processor=processor) for peer in PEERS]
    return [ours / other if ours is not None and other is not None else None for other in theirs]


def aims(line: Line, what: str, compute: str) -> list[float]:
    share = 1.0 if line["threads"] > 1 else ONE_THREAD
    return [share * aim for aim in AIMS.get((what, compute), {}).get(line["size"], ())]


# Tables.


def ratio_table(lines: Sequence[Line]) -> str:
    rows = []
    for line in lines:
        for what, shown in SHOWN.items():
            for who in (who for who in line[what] if who.startswith("Elmore")):
                compute = who.removeprefix("Elmore, ")
                aimed = aims(line, what, compute)
                wall, processor = ratios(line, what, who), ratios(line, what, who, processor=True)
                rows.append(
                    [
                        f"{line['size']}, {shown}, {compute}",
                        str(line["threads"]),
                        pair(aimed),
                        pair(wall),
                        missed(wall, aimed),
                        pair(processor),
                        missed(processor, aimed),
                    ]
                )
    head = ["AllenNLP / simple_elmo", "threads", "aim", "by the clock", "missed", "by processor time", "missed"]
    return table(head, rows)


def missed(found: Sequence[float | None], aimed: Sequence[float]) -> str:
    """By how much, and against whom."""
    if not aimed:
        return ""
    each = zip(PEERS, found, aimed, strict=True)
    names = [f"{peer} by {1 - one / aim:.0%}" for peer, one, aim in each if one is not None and one < aim]
    return ", ".join(names) or ("none known" if None in found else "none")


def pair(numbers: Sequence[float | None]) -> str:
    return " / ".join("?" if number is None else figure(number) for number in numbers)


def rate_table(lines: Sequence[Line]) -> str:
    rows = []
    for line in lines:
        for what in ("batches", "stream"):
            for who, one in line[what].items():
                rounds = one["each_round"]
                rows.append(
                    [
                        f"{line['size']}, {SHOWN[what]}, {who}",
                        str(line["threads"]),
                        f"{one['tokens']:,}",
                        f"{one['tokens_per_second']:,.0f}",
                        f"{min(rounds):,.0f} to {max(rounds):,.0f}",
                        f"{one['tokens_per_processor_second']:,.0f}",
                        others([one]),
                    ]
                )
    head = ["", "threads", "words", "a second", "in single rounds", "a second of processor time", "others had up to"]
    return table(head, rows)


def sentence_table(lines: Sequence[Line]) -> str:
    groups = list(next(iter(lines[0]["one_sentence"].values())))
    rows = [
        [
            f"{line['size']}, {who}",
            str(line["threads"]),
            *(f"{of['median']:.1f} / {of['p95']:.1f}" for of in found.values()),
            others(list(found.values())),
        ]
        for line in lines
        for who, found in line["one_sentence"].items()
    ]
    return table(["ms, median / p95", "threads", *(f"{group} words" for group in groups), "others had up to"], rows)


def memory_table(lines: Sequence[Line]) -> str:
    rows = []
    for line in lines:
        peer = line["peak_mb"].get("AllenNLP")
        for who, peak in line["peak_mb"].items():
            ours = who.startswith("Elmore") and peer
            rows.append(
                [
                    f"{line['size']}, {who}",
                    str(line["threads"]),
                    f"{peak:,}",
                    f"{line['loading_mb'][who]:,}",
                    f"{peak / peer:.2f}" if ours else "",
                    str(MEMORY_AIMS[line["size"]]) if ours else "",
                ]
            )
    return table(["MB", "threads", "reading batches", "loading", "of AllenNLP's", "aim"], rows)


def busy_table(lines: Sequence[Line]) -> str:
    """What is left of the rate of batches while something else has one core, round by round."""
    rows = []
    for line in lines:
        for who, busy in line.get("busy_core", {}).items():
            free = line["batches"][who]
            shares = [one / other for one, other in zip(busy["each_round"], free["each_round"], strict=True)]
            rows.append(
                [
                    f"{line['size']}, {who}",
                    str(line["threads"]),
                    f"{free['tokens_per_second']:,.0f}",
                    f"{busy['tokens_per_second']:,.0f}",
                    f"{median(shares):.0%}",
                    f"{min(shares):.0%} to {max(shares):.0%}",
                    f"{BUSY_AIM:.0%}",
                    others([free, busy]),
                ]
            )
    head = ["words a second", "threads", "free", "one core busy", "left", "in single rounds", "aim", "others had up to"]
    return table(head, rows)


def others(answers: Sequence[dict[str, Any]]) -> str:
    """The most that other programs had of the machine in a round, and at low priority."""
    usual, niced = (max(share for one in answers for share in one[kind]) for kind in ("others", "niced"))
    return f"{usual:.0%} + {niced:.0%}"


def report(line: Line) -> str:
    tables = [make([line]) for make in (rate_table, busy_table, sentence_table, memory_table, ratio_table)]
    return "\n\n".join(["", *tables, ""])


def figure(number: float) -> str:
    """Two or three digits.

    >>> figure(1.247), figure(4.5), figure(13.0)
    ('1.25', '4.5', '13')
    """
    return f"{number:.2f}".rstrip("0").rstrip(".") if number < 3 else f"{number:.1f}".removesuffix(".0")


def shown_summary() -> str:
    """Words a second in batches on two threads, of each program and size."""
    return by_size(
        "words a second, two CPU cores",
        lambda line: {who: f"{one['tokens_per_second']:,.0f}" for who, one in line["batches"].items()},
    )


def shown_latency() -> str:
    """Milliseconds for a sentence of 18 to 24 words on two threads, of each program and size."""
    return by_size(
        "milliseconds, two CPU cores",
        lambda line: {who: f"{groups['18 to 24']['median']:.1f}" for who, groups in line["one_sentence"].items()},
    )


def shown_peak() -> str:
    """The peak memory in batches on two threads, of each program and size."""
    return by_size("MB, two CPU cores", lambda line: {who: f"{peak:,}" for who, peak in line["peak_mb"].items()})


def by_size(title: str, cells: Callable[[Line], dict[str, str]]) -> str:
    """A row for each program and a column for each size; `cells` returns the cells of a size by program."""
    columns = {size: cells(line) for (size, threads), line in kept().items() if threads == 2}
    programs = list(next(iter(columns.values())))
    return table([title, *columns], [[who, *(column[who] for column in columns.values())] for who in programs])


def shown_ratios() -> str:
    return ratio_table(list(kept().values()))


def shown_rates() -> str:
    return rate_table(list(kept().values()))


def shown_busy() -> str:
    return busy_table(list(kept().values()))


def shown_sentences() -> str:
    return sentence_table(list(kept().values()))


def shown_memory() -> str:
    return memory_table(list(kept().values()))


def plot(lines: Sequence[Line], path: Path) -> None:
    """Words a second of processor time of each program and size: on a busy machine the clock says less."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    newest = {(line["size"], line["threads"]): line for line in lines}
    measured = [threads for _, threads in newest]
    threads = max(measured, key=lambda count: (measured.count(count), count))  # with which most sizes were read
    shown = [newest[size, threads] for size in SIZES if (size, threads) in newest]
    figure_, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
    programs = list(dict.fromkeys(who for line in shown for who in line["batches"]))
    width = 0.8 / len(programs)
    for place, who in enumerate(programs):
        there = [(n, line["batches"][who]) for n, line in enumerate(shown) if who in line["batches"]]
        rates = [one["tokens_per_processor_second"] for _, one in there]
        axes.bar([n + place * width for n, _ in there], rates, width, label=who)
    axes.set_yscale("log")
    axes.set_xticks([n + 0.4 - width / 2 for n in range(len(shown))], [line["size"] for line in shown])
    axes.set_ylabel("words a second of processor time")
    axes.set_title(f"Batches, {threads} thread{'s' if threads > 1 else ''}: medians")
    axes.legend(fontsize="small", ncols=2)
    figure_.savefig(path, dpi=110)
