"""How fast a biLM is trained, on a GPU and on a CPU beside bilm-tf; `figures.py` puts it into pages."""

from pathlib import Path

from kept_results import newest, read_lines, share_of_peak, table, thousands

BENCHMARKS = Path(__file__).resolve().parent / "results"


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
    return [f"{2 * line['batch_size'] * line['window']:,}", f"{line['distinct_words']:,}"]
