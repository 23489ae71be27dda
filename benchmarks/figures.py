"""Write what was measured into the pages: tables, and figures in sentences, from the files that keep them.

    python benchmarks/figures.py

A table stands in its page between `<!-- table: NAME -->` and `<!-- end -->`; a figure stands in its sentence, where
`SENTENCES` has a gap. Nothing else is touched. `benchmarks/README.md` tells which script measures what, and
`tests/test_figures.py` that no page says anything else than the files.
"""

import json
import math
import re
import statistics
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from elmore.config import ModelConfig, tensor_shapes

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks" / "results"
EXPERIMENT = ROOT / "experiments" / "elmore-en"
SHIPPED = ROOT / "src" / "elmore" / "models" / "elmore-en"


def main() -> None:
    for page in pages():
        path = ROOT / page
        path.write_text(with_figures(page, path.read_text(encoding="utf-8")), encoding="utf-8")


def pages() -> list[str]:
    """Every page that shows something measured."""
    return sorted({page for page, _ in (*TABLES, *SENTENCES)})


def with_figures(page: str, text: str) -> str:
    """The text of a page with its tables and figures as the kept files have them."""
    for (where, name), make in TABLES.items():
        if where == page:
            made = make()
            block = f"<!-- table: {name} -->\n" + (f"\n{made}\n\n" if made else "") + "<!-- end -->"
            text = _replaced(page, text, rf"<!-- table: {name} -->\n.*?<!-- end -->", lambda _, block=block: block)
    for (where, sentence), figures in SENTENCES.items():
        if where == page:
            parts = [re.escape(part).replace(r"\ ", r"\s+") for part in sentence.split("{}")]
            values = figures()
            pattern = r"[\w.,-]*\w".join(f"({part})" for part in parts)
            text = _replaced(page, text, pattern, lambda found, values=values: _filled(found.groups(), values))
    return text


def _replaced(page: str, text: str, pattern: str, by: Callable[[re.Match[str]], str]) -> str:
    text, found = re.subn(pattern, by, text, flags=re.DOTALL)
    if found != 1:
        raise SystemExit(f"{page}: {found} places look like {pattern}; one must")
    return text


def _filled(parts: Sequence[str | Any], values: Sequence[str]) -> str:
    return "".join(part + value for part, value in zip(parts, (*values, ""), strict=True))


# Tables.


def parity() -> str:
    rows = read(BENCHMARKS / "parity.json")["rows"]
    cells = [[row["program"], row["what"], f"{row['numbers']:,}", f"{row['largest_difference']:.0e}"] for row in rows]
    return table(["original program", "compared", "numbers", "largest difference"], cells, texts=2)


def equality() -> str:
    found = read(BENCHMARKS / "equality.json")["largest_difference"]
    ways = list(found["elmore-en"])
    return table(["", *ways], [[size, *(bound(row[way]) for way in ways)] for size, row in found.items()])


def pretrain() -> str:
    return table(
        ["size", "rows", "classes", "tokens a second", "of the peak of matrix products"],
        [
            [
                size,
                f"{line['batch_size']:,}",
                f"{line['classes']:,}",
                thousands(line["tokens_per_second"]),
                share_of_peak(line["tera_operations_per_second"], line["peak_tera_operations_per_second"]),
            ]
            for size, line in newest(BENCHMARKS / "pretrain.jsonl").items()
        ],
    )


def pretrain_profile() -> str:
    lines = {
        size: line for size, line in newest(BENCHMARKS / "pretrain.jsonl").items() if "milliseconds_by_kind" in line
    }
    kinds = list(dict.fromkeys(kind for line in reversed(lines.values()) for kind in line["milliseconds_by_kind"]))
    rows = []
    for size, line in lines.items():
        step, spent = line["milliseconds_per_step"], line["milliseconds_by_kind"]
        times = [step, *(spent.get(kind, 0.0) for kind in kinds), max(step - sum(spent.values()), 0.0)]
        rows.append([size, *(f"{time:.1f}" for time in times)])
    shown = table(["size", "step", *kinds, "nothing runs"], rows)
    return (
        f"Where the time of a step goes, in milliseconds, by the kernels that a profiler saw:\n\n{shown}"
        if rows
        else ""
    )


def pretrain_cpu() -> str:
    line = read_lines(BENCHMARKS / "pretrain_cpu.jsonl")[-1]
    names = {
        "bilm-tf": "bilm-tf, float32",
        "elmore, float32": "Elmore, float32",
        "elmore, bfloat16": "Elmore, bfloat16 (`--training.precision bfloat16`)",
    }
    faster = {who: f"{ratio:.1f} times as fast" for who, ratio in line["ratio"].items()}
    rows = [[name, f"{line['tokens_per_second'][who]:,}", faster.get(who, "")] for who, name in names.items()]
    return table(["", "tokens a second", ""], rows)


def epochs() -> str:
    rows = [
        [str(n), *(f"{one:.1f}" for one in directions(entry["heldout_each"])), f"{entry['heldout']:.1f}"]
        for n, entry in enumerate((entry for entry in training_log() if "heldout" in entry), start=1)
    ]
    return table(["epoch", "forward", "backward", "mean"], rows)


def texts() -> str:
    alone = read(EXPERIMENT / "results" / "perplexity_by_sentence.json")
    rows = [
        [
            name,
            f"{one['tokens']:,}",
            f"{one['unknown']:.1%}",
            str(one["passage"]),
            *(f"{one[which]:.1f}" for which in ("forward", "backward", "mean")),
            f"{alone[name]['mean']:.1f}" if name in alone else "",
        ]
        for name, one in sorted(read(EXPERIMENT / "results" / "perplexity.json").items())
    ]
    head = ["text", "tokens", "`<UNK>`", "passages of", "forward", "backward", "mean", "each sentence by itself"]
    return table(head, rows)


def int8() -> str:
    measured = read(EXPERIMENT / "results" / "int8.json")
    rows = [[name, f"{one['float32']:.2f}", f"{one['int8']:.2f}"] for name, one in sorted(measured.items())]
    shown = table(["text", "float32", "int8"], rows)
    return f"What int8 costs, one scale for each row of a matrix:\n\n{shown}" if measured else ""


def start_state() -> str:
    measured = read(EXPERIMENT / "results" / "start_state.json")
    rows = [
        [name, *(f"{one[name]:.2f}" if one[name] > 1 else f"{one[name]:.1%}" for one in measured.values())]
        for name in measured["zeros"]
        if name != "start"
    ]
    return table(["", *measured], rows)


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    ("README.md", "parity"): parity,
    ("docs/layers.md", "equality"): equality,
    ("docs/pretraining.md", "pretrain"): pretrain,
    ("docs/pretraining.md", "pretrain-profile"): pretrain_profile,
    ("docs/pretraining.md", "pretrain-cpu"): pretrain_cpu,
    ("experiments/elmore-en/README.md", "epochs"): epochs,
    ("experiments/elmore-en/README.md", "texts"): texts,
    ("experiments/elmore-en/README.md", "int8"): int8,
    ("experiments/elmore-en/README.md", "start-state"): start_state,
}


# Figures in sentences.


def largest_difference() -> list[str]:
    found = read(BENCHMARKS / "equality.json")["largest_difference"]
    return [bound(max(difference for row in found.values() for difference in row.values()))]


def speeds() -> list[str]:
    lines = newest(BENCHMARKS / "pretrain.jsonl")
    return [
        thousands(lines["original"]["tokens_per_second"]),
        f"{lines['original']['classes']:,}",
        thousands(lines["medium"]["tokens_per_second"]),
        thousands(lines["small"]["tokens_per_second"]),
    ]


def rounds() -> list[str]:
    return [str(len(line["rounds"])) for line in newest(BENCHMARKS / "pretrain.jsonl").values()][:1]


def cpu_training() -> list[str]:
    line = read_lines(BENCHMARKS / "pretrain_cpu.jsonl")[-1]
    return [
        str(line["batch_size"]),
        f"{line['negatives']:,}",
        f"{line['classes']:,}",
        str(line["threads"]),
        str(line["rounds"]),
    ]


def distinct_words() -> list[str]:
    line = read_lines(BENCHMARKS / "pretrain_cpu.jsonl")[-1]
    return [f"{2 * line['batch_size'] * line['steps']:,}", f"{line['distinct_words']:,}"]


def parameters() -> str:
    config = ModelConfig.from_dict(read(SHIPPED / "config.json")["model"])
    return f"{sum(math.prod(shape) for shape in tensor_shapes(config).values()) / 1e6:.1f}"


def megabytes(digits: int) -> str:
    return f"{sum(path.stat().st_size for path in SHIPPED.iterdir()) / 1e6:.{digits}f}"


def million_words(digits: int = 0) -> str:
    about = tomllib.loads((EXPERIMENT / "about.toml").read_text(encoding="utf-8"))
    return f"{sum(text['words'] for text in about['texts']) / 1e6:.{digits}f}"


def minutes() -> str:
    return f"{read(SHIPPED / 'card.json')['extra']['training']['seconds'] / 60:.0f}"


def softmax_words() -> str:
    return f"{read(SHIPPED / 'card.json')['extra']['training']['corpus']['vocabulary']:,}"


def perplexity(text: str, *, by_sentence: bool = False) -> str:
    measured = read(EXPERIMENT / "results" / f"perplexity{'_by_sentence' if by_sentence else ''}.json")
    return f"{measured[text]['mean']:.1f}"


def training_sizes() -> list[str]:
    training = read(SHIPPED / "card.json")["extra"]["training"]
    return [f"{training['recipe']['training']['epochs']:.0f}", million_words(), minutes()]


def gradient_norms() -> list[str]:
    clip = read(SHIPPED / "card.json")["extra"]["training"]["recipe"]["training"]["clip"]
    norms = [entry["gradient_norm"] for entry in training_log() if "gradient_norm" in entry]
    return [f"{statistics.median(norms):.1f}", f"{100 * statistics.mean(norm > clip for norm in norms):.0f}", str(clip)]


def warm_sentences() -> list[str]:
    return re.findall(r"\d+", read(EXPERIMENT / "results" / "start_state.json")["warm"]["start"])[:1]


SENTENCES: dict[tuple[str, str], Callable[[], list[str]]] = {
    ("README.md", "the same call twice gives the same bits, another batch up to {} more or less"): largest_difference,
    ("examples/demo.py", "Of all sizes and batches that were measured, up to {} (docs/layers.md)"): largest_difference,
    ("README.md", "`elmore-en` has {} million parameters"): lambda: [parameters()],
    ("README.md", "on {} million words of openly licensed English"): lambda: [million_words()],
    ("README.md", "in {} minutes on one H200"): lambda: [minutes()],
    ("README.md", "With a softmax over {} words"): lambda: [softmax_words()],
    ("README.md", "it takes {} MB"): lambda: [megabytes(0)],
    ("README.md", "perplexity is {} on Wikipedia articles"): lambda: [perplexity("own-wikipedia")],
    ("README.md", "{} on the shuffled sentences of the One Billion Word benchmark ({} each by itself)"): lambda: [
        perplexity("1b-heldout-dev"),
        perplexity("1b-heldout-dev", by_sentence=True),
    ],
    (
        "README.md",
        "{} tokens a second at the original size with its softmax over {} words, {} at medium size and {} at small",
    ): speeds,
    ("CHANGELOG.md", "an English model of {} MB"): lambda: [megabytes(0)],
    ("docs/pretraining.md", "Medians of {} rounds"): rounds,
    (
        "docs/pretraining.md",
        "Adagrad, {} rows, {} of {} classes, {} threads; medians of {} rounds",
    ): cpu_training,
    ("docs/pretraining.md", "Of the {} places of both directions {} hold distinct words"): distinct_words,
    ("src/elmore/models/LICENCE.md", "on {} million words"): lambda: [million_words()],
    ("experiments/elmore-en/about.toml", "English, {} million parameters, trained from scratch on {} million words"): (
        lambda: [parameters(), million_words()]
    ),
    ("experiments/elmore-en/README.md", "The medium size ({} million parameters)"): lambda: [parameters()],
    ("experiments/elmore-en/README.md", "a softmax over {} words, stored as int8: {} MB"): lambda: [
        softmax_words(),
        megabytes(1),
    ],
    ("experiments/elmore-en/README.md", "{} epochs over {} million words took {} minutes"): training_sizes,
    ("experiments/elmore-en/README.md", "The text is {} million words in {} files"): lambda: [
        million_words(1),
        str(len(read(SHIPPED / "card.json")["extra"]["training"]["corpus"]["inputs"])),
    ],
    ("experiments/elmore-en/README.md", "the mean of the states after {} sentences"): warm_sentences,
    ("experiments/elmore-en/README.md", "The median norm is {}, and {} % of them lie above {}"): gradient_norms,
}


# What both are made of.


def read(path: Path) -> Any:
    """What a file of results holds; nothing if it was never measured."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def newest(path: Path) -> dict[str, dict[str, Any]]:
    """The last line of each published size, the smallest size first."""
    lines = {line["size"]: line for line in read_lines(path)}
    return {size: lines[size] for size in ("small", "medium", "original") if size in lines}


def training_log() -> list[dict[str, Any]]:
    return read_lines(EXPERIMENT / "results" / "log.jsonl")


def directions(values: Any) -> Iterable[float]:
    """Forward and backward, whether a log has them by name or in order."""
    return values.values() if isinstance(values, dict) else values


def thousands(number: int) -> str:
    return f"{round(number, -3):,}"


def share_of_peak(reached: float, peak: float) -> str:
    return f"{100 * reached / peak:.0f} % of {peak} TFLOP/s"


def bound(difference: float) -> str:
    """A largest difference with one digit, rounded up.

    >>> bound(0.0), bound(5.5e-6), bound(4e-6)
    ('bit-equal', '6e-06', '4e-06')
    """
    if difference == 0:
        return "bit-equal"
    unit = 10.0 ** math.floor(math.log10(difference))
    return f"{math.ceil(difference / unit - 1e-9) * unit:.0e}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1) -> str:
    """A table of Markdown; the first columns are text, the rest numbers."""
    marks = ["---" if n < texts else "--:" for n in range(len(head))]
    lines = [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in (head, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(marks)}|", *lines[1:]])


if __name__ == "__main__":
    main()
