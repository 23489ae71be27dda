"""The tables of `docs/results.md`: what was measured on each task, and beside it what the paper reports.

A task whose results are not kept has no row and no column, and a table without rows is left out.
"""

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import ablation_figures
import paper_figures as paper
import word_senses_figures
from kept_results import in_words, read, read_lines, table
from task_comparison_figures import RESULTS

WITHOUT, WITH = "without ELMo", "with ELMo"
FINE_TUNING = RESULTS.parents[1] / "fine-tuning" / "results" / "perplexity.json"
RECIPES = Path(__file__).resolve().parents[1] / "src" / "elmore" / "recipes" / "tasks"

Row = dict[str, Any]


class ComparedSet(NamedTuple):
    """A test set, the comparison that scores it, and the row of the paper's Table 1 to compare with."""

    comparison: str
    test: str
    bar: str | None = None


TEST_SETS = (
    ComparedSet("squad", "SQuAD, articles 37 to 48", "SQuAD"),
    ComparedSet("squad", "SQuAD, articles 37 to 47", "SQuAD"),
    ComparedSet("snli", "SNLI", "SNLI"),
    ComparedSet("mnli", "MultiNLI"),
    ComparedSet("srl", "PropBank on EWT", "SRL"),
    ComparedSet("litbank", "LitBank, fold 0", "coreference"),
    ComparedSet("ontogum", "OntoGUM", "coreference"),
    ComparedSet("wikineural", "WikiNEuRal", "NER"),
    ComparedSet("wikineural", "Wikigold", "NER"),
    ComparedSet("wnut17", "WNUT-17", "NER"),
    ComparedSet("sst", "SST-5", "SST-5"),
    ComparedSet("ewt-upos", "EWT"),
    ComparedSet("ewt-xpos", "EWT"),
)
SUMMARY = {  # of the first test set of a comparison
    "squad": "question answering",
    "snli": "entailment",
    "srl": "semantic roles",
    "litbank": "coreference",
    "wikineural": "named entities",
    "sst": "sentiment",
    "ewt-upos": "parts of speech",
}
PROBES = ("ewt-upos-probes", "ewt-xpos-probes")
TAGS = {"ewt-upos": "EWT, universal tags", "ewt-xpos": "EWT, Penn-style tags"}  # of one test set
TASKS = {"SQuAD": "squad", "SNLI": "snli", "SRL": "srl"}  # of the paper's tables 2 and 3
COREFERENCE = {"litbank": "LitBank, fold 0", "ontogum": "OntoGUM"}


def rows_of(name: str) -> list[Row]:
    """The rows of a comparison's table; none before it was run."""
    found: list[Row] = read(RESULTS / name / "table.json").get("rows", [])
    return found


def row_of(name: str, variant: str, fraction: float = 1.0) -> Row | None:
    return next((row for row in rows_of(name) if (row["variant"], row["fraction"]) == (variant, fraction)), None)


def trainings(name: str, variant: str) -> list[Row]:
    """The lines of a variant on all of the data."""
    lines = read_lines(RESULTS / name / "results.jsonl")
    return [line for line in lines if (line["variant"], line["fraction"]) == (variant, 1.0)]


def score(found: Mapping[str, Any]) -> str:
    spread = found["spread"]
    return f"{found['mean']:.2f}" if spread is None else f"{found['mean']:.2f} ± {spread:.2f}"


def interval(ends: Sequence[float] | None, *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    return "" if ends is None else f"{ends[0]:{sign}.2f} to {ends[1]:{sign}.2f}"


def shown(head: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1) -> str:
    return table(head, rows, texts=texts) if rows else ""


def error_reduction(name: str, test: str, variant: str = WITH, fraction: float = 1.0) -> str:
    row = row_of(name, variant, fraction)
    assert row is not None, f"{name} has no row {variant}"
    return f"{100 * row['gains'][test]['error_reduction']:.1f}"


def paper_reduction(bar: str) -> str:
    return f"{paper.TABLE_1[bar].error_reduction:.1f}"


def first_half() -> list[str]:
    """Of names, sentiment and parts of speech, in the order of the page that sums them up."""
    return [
        error_reduction("wikineural", "Wikigold"),
        error_reduction("ewt-upos", "EWT"),
        error_reduction("ewt-xpos", "EWT"),
        error_reduction("wikineural", "WikiNEuRal"),
        error_reduction("wnut17", "WNUT-17"),
        error_reduction("wnut17", "WNUT-17", "with ELMo, GloVe fixed"),
        paper_reduction("NER"),
        error_reduction("sst", "SST-5"),
        paper_reduction("SST-5"),
        error_reduction("wikineural", "WikiNEuRal", fraction=0.01),
    ]


def second_half() -> list[str]:
    """Of entailment, roles, coreference and answers, in the order of the same page."""
    return [
        error_reduction("snli", "SNLI"),
        error_reduction("mnli", "MultiNLI"),
        error_reduction("srl", "PropBank on EWT"),
        error_reduction("litbank", "LitBank, fold 0"),
        error_reduction("ontogum", "OntoGUM"),
        error_reduction("squad", "SQuAD, articles 37 to 48"),
        paper_reduction("SQuAD"),
        error_reduction("srl-fractions", "PropBank on EWT", fraction=0.1),
    ]


def missed_on_squad() -> list[str]:
    """By how much, and what the settings that were tried by the dev set came to, each side by its best."""
    rows = rows_of("settings-squad")
    best = {
        with_elmo: max(row["dev"]["mean"] for row in rows if row["variant"].startswith("with ELMo") is with_elmo)
        for with_elmo in (False, True)
    }
    return [
        error_reduction("squad", "SQuAD, articles 37 to 48"),
        paper_reduction("SQuAD"),
        str(len(rows)),
        f"{best[True]:.2f}",
        f"{best[False]:.2f}",
        f"{100 * (best[True] - best[False]) / (100 - best[False]):.1f}",
    ]


def ended_by_the_last_epoch() -> list[str]:
    """Trainings whose dev score was not flat yet, of all of the page, and those of them that had a tenth of SST-5."""
    kept = [RESULTS / name for name in (*dict.fromkeys(one.comparison for one in TEST_SETS), *PROBES)]
    kept += [folder for folder in sorted(ablation_figures.RESULTS.iterdir()) if folder.is_dir()]
    lines = [(folder, line) for folder in kept for line in read_lines(folder / "results.jsonl")]
    ended = [(folder, line) for folder, line in lines if line["epochs"] - line["best_epoch"] < patience(line)]
    tenth = [line for folder, line in ended if folder == RESULTS / "sst" and line["fraction"] == 0.1]
    return [in_words(len(ended)), str(len(lines)), in_words(len(tenth))]


def patience(line: Row) -> int:
    """How many epochs a training waited for a better score: its command's, else its recipe's."""
    words = shlex.split(line["command"])
    if "--training.patience" in words:
        return int(words[words.index("--training.patience") + 1])
    recipe = tomllib.loads((RECIPES / f"{words[2]}.toml").read_text(encoding="utf-8"))
    return int(recipe["training"]["patience"])


def summary() -> str:
    """One test set for each task."""
    cells = []
    for name, task in SUMMARY.items():
        compared = next(one for one in TEST_SETS if one.comparison == name)
        without, with_elmo = row_of(name, WITHOUT), row_of(name, WITH)
        if without is None or with_elmo is None:
            continue
        cells.append(
            [
                task,
                compared.test,
                f"{without['tests'][compared.test]['mean']:.1f}",
                f"{with_elmo['tests'][compared.test]['mean']:.1f}",
                f"{error_reduction(name, compared.test)} %",
                f"{paper_reduction(compared.bar)} %" if compared.bar else "",
            ]
        )
    return shown(["task", "test set", WITHOUT, WITH, "error reduction", "in the paper"], cells, texts=2)


def error_reductions() -> str:
    cells = []
    for one in TEST_SETS:
        without, with_elmo = row_of(one.comparison, WITHOUT), row_of(one.comparison, WITH)
        if without is None or with_elmo is None:
            continue
        gain = with_elmo["gains"][one.test]
        reported = paper.TABLE_1.get(one.bar or "")
        reduction = 100 * gain["error_reduction"]
        cells.append(
            [
                TAGS.get(one.comparison, one.test),
                str(len(with_elmo["seeds"])),
                score(without["tests"][one.test]),
                score(with_elmo["tests"][one.test]),
                f"{gain['gain']:+.2f}",
                interval(gain.get("interval"), signed=True),
                f"{reduction:.1f} %",
                f"{reported.without} → {reported.with_elmo}, {reported.error_reduction} %" if reported else "",
                ""
                if reported is None
                else "yes"
                if reduction >= reported.error_reduction
                else f"short by {reported.error_reduction - reduction:.1f}",
            ]
        )
    head = ["test set", "seeds", WITHOUT, WITH, "gain", "interval", "error reduction", "in the paper", "as large here"]
    return shown(head, cells)


def dev_scores(suffix: str, variants: Sequence[str], reported: Mapping[str, Mapping[str, float]] | None = None) -> str:
    """Of variants for each task, ours and, where it has any, the paper's."""
    tasks = {task: name for task, name in TASKS.items() if rows_of(f"{name}-{suffix}")}
    if not tasks:
        return ""
    cells = []
    for variant in variants:
        line = [variant]
        for task, name in tasks.items():
            row = row_of(f"{name}-{suffix}", variant)
            line += [score(row["dev"]) if row else "", *([str(reported[task].get(variant, ""))] if reported else [])]
        cells.append(line)
    return table(
        ["dev score", *(cell for task in tasks for cell in (task, *(["the paper"] if reported else [])))], cells
    )


def layers() -> str:
    return dev_scores("layers", list(paper.TABLE_2["SQuAD"]), paper.TABLE_2)


def places() -> str:
    return dev_scores("places", list(paper.TABLE_3["SQuAD"]), paper.TABLE_3)


def subword() -> str:
    return dev_scores("subword", list(paper.SUBWORD["SQuAD"]), paper.SUBWORD)


def subword_points() -> list[str]:
    """What the context-free layer in place of GloVe's vectors brings on dev, of what ELMo beside them does."""
    found = []
    for name in ("squad-subword", "snli-subword"):
        dev = {row["variant"]: row["dev"]["mean"] for row in rows_of(name)}
        found += [f"{dev[one] - dev[WITHOUT]:.1f}" for one in ("context-free layer without GloVe", WITH)]
    return found


def gamma() -> str:
    return dev_scores("gamma", (WITHOUT, WITH, "gamma fixed at 1", "layers=last, gamma fixed at 1"))


def fractions() -> str:
    parts = []
    for name in ("snli-fractions", "srl-fractions", "wikineural", "sst"):
        rows = rows_of(name)
        shares = sorted({row["fraction"] for row in rows})
        if len(shares) < 2:
            continue
        tests = list(rows[0]["tests"])
        cells = [
            [f"{100 * share:g} %", *(score(row["tests"][test]) if row else "" for test in tests for row in pair)]
            for share in shares
            for pair in [[row_of(name, variant, share) for variant in (WITHOUT, WITH)]]
        ]
        head = ["training examples", *(f"{test}, {variant}" for test in tests for variant in (WITHOUT, WITH))]
        parts.append(table(head, cells) + picture(name, "fractions"))
    return "\n\n".join(parts)


def picture(name: str, plot: str) -> str:
    """A plot of a comparison, where it is kept."""
    path = RESULTS / name / f"{plot}.png"
    return f"\n\n![{plot} of {name}](../{path.relative_to(RESULTS.parents[2]).as_posix()})" if path.is_file() else ""


def perplexities() -> str:
    cells = [
        [
            name,
            f"{row['before']:.1f}",
            f"{row['after']:.1f}",
            *([f"{value}" for value in paper.FINE_TUNING[name]] if name in paper.FINE_TUNING else ["", ""]),
            paper.FINE_TUNING_SETS.get(name, "the same") if name in paper.FINE_TUNING else "",
        ]
        for name, row in read(FINE_TUNING).items()
    ]
    return shown(["dev text", "before", "after", "the paper, before", "the paper, after", "the paper's text"], cells)


def fine_tuned() -> str:
    cells = []
    comparisons = {f"{name}-fine-tuning": task for task, name in TASKS.items()} | {"wnut17": "WNUT-17", "sst": "SST-5"}
    for name, label in comparisons.items():
        frozen, tuned = row_of(name, WITH), row_of(name, "biLM fine-tuned on the task's text")
        if frozen and tuned:
            tests = (score(row["tests"][next(iter(row["tests"]))]) for row in (frozen, tuned))
            cells.append([label, score(frozen["dev"]), score(tuned["dev"]), *tests])
    return shown(["data", "dev, frozen", "dev, fine-tuned", "test, frozen", "test, fine-tuned"], cells)


def epochs() -> str:
    cells = []
    for one in TEST_SETS:
        without, with_elmo = row_of(one.comparison, WITHOUT), row_of(one.comparison, WITH)
        if without is None or with_elmo is None or one.comparison in [cell[0] for cell in cells]:
            continue
        passed = [number for number in with_elmo["epochs_to_pass"] if number is not None]
        reported = paper.EPOCHS.get(one.bar or "")
        cells.append(
            [
                one.comparison,
                f"{without['best_epoch']:.1f}",
                f"{without['epochs']:.1f}",
                (f"{mean(passed):.1f}" if passed else "never")
                + ("" if len(passed) in (0, len(with_elmo["seeds"])) else f" ({len(passed)} of the seeds)"),
                "" if reported is None else f"{reported[0]}, passed after {reported[1]}",
            ]
        )
    head = ["comparison", f"best epoch {WITHOUT}", "epochs trained", f"passed {WITH} after epoch", "in the paper"]
    return shown(head, cells)


def mixes() -> str:
    """The weights of the layers that the models with ELMo learnt, means over seeds."""
    cells = []
    for name in dict.fromkeys(one.comparison for one in TEST_SETS):
        found = trainings(name, WITH)
        for place in found[0]["mixes"] if found else ():
            weights = [[line["mixes"][place]["weights"][layer] for line in found] for layer in range(3)]
            scale = mean(line["mixes"][place]["gamma"] for line in found)
            cells.append([name, place, *(f"{mean(own):.3f}" for own in weights), f"{scale:.3f}"])
    path = RESULTS / "mixes.png"
    drawn = f"\n\n![mixes](../{path.relative_to(RESULTS.parents[2]).as_posix()})" if path.is_file() else ""
    return shown(["comparison", "place", "h0", "h1", "h2", "gamma"], cells, texts=2) + (drawn if cells else "")


def coreference() -> str:
    cells = []
    for name, test in COREFERENCE.items():
        for variant in (WITHOUT, WITH):
            row, found = row_of(name, variant), trainings(name, variant)
            if row is None:
                continue
            parts = [line["tests"][test]["parts"] for line in found]
            kinds = ("muc.f1", "b_cubed.f1", "ceaf_e.f1", "with_singletons")
            cells.append(
                [
                    test,
                    variant,
                    score(row["tests"][test]),
                    interval(row.get("intervals", {}).get(test)),
                    *(f"{mean(part[kind] for part in parts):.2f}" for kind in kinds),
                ]
            )
    head = [
        "test set",
        "model",
        "CoNLL F1",
        "interval",
        "MUC",
        "B-cubed",
        "CEAF-e",
        "CoNLL F1 with clusters of one mention",
    ]
    return shown(head, cells, texts=2)


def answers() -> str:
    cells = []
    for test in (one.test for one in TEST_SETS if one.comparison == "squad"):
        for variant in (WITHOUT, WITH):
            row, found = row_of("squad", variant), trainings("squad", variant)
            if row is not None:
                exact = mean(line["tests"][test]["parts"]["exact_match"] for line in found)
                cells.append([test, variant, score(row["tests"][test]), f"{exact:.2f}"])
    return shown(["test set", "model", "F1", "exact match"], cells, texts=2)


def published() -> str:
    """Scores of others on test sets that are the same, each beside ours."""
    ours = {one.test: row_of(one.comparison, WITH) for one in TEST_SETS}
    cells = []
    for one in paper.PUBLISHED:
        row = ours[one.test]
        cells.append(
            [
                one.test,
                one.model,
                one.trained_on or "not known here",
                str(one.score),
                score(row["tests"][one.test]) if row else "",
            ]
        )
    return table(["test set", "model", "trained on", "published", "here, with ELMo"], cells, texts=3)


def senses() -> str:
    found = word_senses_figures.rows("wsd")
    cells = [[name, f"{found[name]['scores']['four']:.1f}", str(value)] for name, value in paper.WSD.items()]
    return table(["F1 on the four test sets", "elmore-en", "the paper"], cells)


def tags() -> str:
    cells = []
    for layer in ("layer 0", "layer 1", "layer 2"):
        found = [row_of(name, layer) for name in PROBES]
        cells.append(
            [layer, *(score(row["tests"]["EWT"]) if row else "" for row in found), str(paper.POS.get(layer, ""))]
        )
    return table(["accuracy", *TAGS.values(), "the paper, Penn Treebank"], cells)
