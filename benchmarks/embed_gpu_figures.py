"""What `embed_gpu.py` measured, as tables and a plot; `figures.py` fills a page from it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kept_results import read_lines, table, thousands

HERE = Path(__file__).resolve().parent
RESULTS, PLOT = HERE / "results" / "embed_gpu.jsonl", HERE / "results" / "embed_gpu.png"
AIMS = {("words", "original", "bfloat16"): 1_500_000, ("words", "original", "tf32"): 700_000}
AIMS |= dict.fromkeys([("words", "small", "bfloat16"), ("numbers", "small", "bfloat16")], 4_000_000)

Line = dict[str, Any]


def kept() -> list[Line]:
    """The last line of everything that was measured."""
    return latest(read_lines(RESULTS))


def latest(lines: Sequence[Line]) -> list[Line]:
    return list({(line["part"], *map(str, _which(line))): line for line in lines}.values())


def _which(line: Line) -> list[Any]:
    return [line.get(name) for name in ("size", "compute", "batch_invariant", "every_length", "batch_tokens")]


def report(lines: Sequence[Line]) -> str:
    found = [rates(lines), beside(lines), file(lines), alone(lines)]
    return "\n\n".join(part for part in found if part)


def _name(line: Line) -> str:
    name = f"{line['size']}, {line['compute']}"
    if line.get("batch_tokens"):
        name += f", packs of {line['batch_tokens']:,}"
    if line["part"] == "numbers":
        return f"{name}, from numbered words"
    if line.get("batch_invariant"):
        return f"{name}, batch-invariant"
    if line.get("all_known"):
        return f"{name}, every word seen before"
    return f"{name}, sentences of every length" if line.get("every_length") else name


def _peaks(lines: Sequence[Line]) -> dict[str, float]:
    peaks: list[dict[str, float]] = [
        line["peak_tera_operations_per_second"] for line in lines if line["part"] == "measure_peaks"
    ]
    return peaks[-1] if peaks else {}


def _timed(lines: Sequence[Line]) -> Iterator[Line]:
    """What rates were measured of: from new words, and from words that were seen before."""
    for line in lines:
        if line["part"] in ("words", "numbers"):
            yield line
        if known := line.get("words_known"):
            yield {**line, **known, "all_known": True}


def rates(lines: Sequence[Line]) -> str:
    peaks = _peaks(lines)
    rows = []
    for line in _timed(lines):
        singles = [line["tokens"] / seconds for seconds in line["seconds"]]
        usual = not any(map(line.get, ("batch_invariant", "every_length", "batch_tokens", "all_known")))
        aim = AIMS.get((line["part"], line["size"], line["compute"])) if usual else None
        peak = peaks.get(line["compute"])
        reached = line["lstm_tera_operations_per_second"]
        rows.append(
            [
                _name(line),
                f"{line['tokens']:,}",
                thousands(line["tokens_per_second"]),
                f"{thousands(round(min(singles)))} to {thousands(round(max(singles)))}",
                f"{aim:,}" if aim else "",
                f"{100 * reached / peak:.0f} % of {peak:.0f}" if peak else "",
                f"{100 * max(line['host_share']):.0f} %",
                f"{line['gpu_gib']:.0f}",
            ]
        )
    head = ["", "tokens", "tokens a second", "in single rounds", "aim"]
    return table([*head, "of the peak, TFLOP/s", "host busy", "GiB"], rows) if rows else ""


def beside(lines: Sequence[Line]) -> str:
    """How many times as fast as AllenNLP, from words and from its characters ready on the GPU."""
    rows = []
    for peer in (line for line in lines if line["part"] == "allennlp"):
        whole, module = peer["tokens_per_second"], peer["module_tokens_per_second"]
        name = f"AllenNLP {peer['allennlp']}, {peer['size']}, float32, batches of {peer['batch_size']}"
        rows.append([f"{name}, from words", f"{whole:,}", ""])
        rows.append([f"{name}, from characters on the GPU", f"{module:,}", ""])
        for line in lines:
            if line["part"] == "words" and line["size"] == peer["size"] and not line["every_length"]:
                rate = line["tokens_per_second"]
                rows.append([f"Elmore, {_name(line)}", thousands(rate), f"{rate / whole:.0f} / {rate / module:.0f}"])
    return table(["", "tokens a second", "times as fast"], rows) if rows else ""


def file(lines: Sequence[Line]) -> str:
    rows = []
    for line in (line for line in lines if line["part"] == "file"):
        name = f"{line['size']}, {line['compute']}: text to {line['bytes'] / 1e9:.1f} GB of HDF5, {line['dtype']}"
        rows.append([name, thousands(line["tokens_per_second"])])
        rows += [[f"{part}, by itself", thousands(rate)] for part, rate in line["parts_tokens_per_second"].items()]
    return table(["", "tokens a second"], rows) if rows else ""


def alone(lines: Sequence[Line]) -> str:
    rows = [
        [f"{line['size']}, {compute}, {line['words']} words", *(f"{one:.1f}" for one in found.values())]
        for line in lines
        if line["part"] == "alone"
        for compute, found in line["milliseconds"].items()
    ]
    return table(["one sentence, ms", "words seen before", "new words"], rows) if rows else ""


def shown_summary() -> str:
    """Tokens a second and GPU memory of each setting."""
    rows = [[_name(line), thousands(line["tokens_per_second"]), f"{line['gpu_gib']:.0f}"] for line in _timed(kept())]
    return table(["one H200", "tokens a second", "GPU memory, GiB"], rows)


def shown_rates() -> str:
    picture = "\n\n![tokens a second on a GPU](results/embed_gpu.png)" if PLOT.exists() else ""
    return rates(kept()) + picture


def shown_beside() -> str:
    return beside(kept())


def shown_file() -> str:
    return file(kept())


def shown_alone() -> str:
    return alone(kept())


def plot(path: Path) -> None:
    """Tokens a second of everything that read words, and the aims."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    lines = kept()
    bars = [(_name(line), line["tokens_per_second"], line) for line in _timed(lines)]
    bars += [
        (f"AllenNLP, {line['size']}, batches of {line['batch_size']}", line["tokens_per_second"], line)
        for line in lines
        if line["part"] == "allennlp"
    ]
    bars.reverse()
    figure, axes = pyplot.subplots(figsize=(9, 0.45 * len(bars) + 1), layout="constrained")
    colours = ["tab:red" if line["part"] == "allennlp" else "tab:blue" for *_, line in bars]
    shown = axes.barh([name for name, *_ in bars], [rate / 1e6 for _, rate, _ in bars], color=colours)
    axes.bar_label(shown, fmt="%.2f", padding=3)
    axes.set_xlabel("million tokens a second, one GPU")
    axes.margins(x=0.1)
    figure.savefig(path, dpi=110)
