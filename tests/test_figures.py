"""Every figure on a page is the one in the file that keeps what was measured, and a script writes that file."""

import ast
import importlib.util
import io
import json
import os
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENT = ROOT / "experiments" / "elmore-en"


# Parts of others.
SHARED = (
    "ablation_figures.py",
    "busy_core.py",
    "circumstances.py",
    "cold_start_figures.py",
    "comparison_parts.py",
    "comparisons.py",
    "elmore_en_figures.py",
    "embed_cpu_figures.py",
    "embed_cpu_turns.py",
    "embed_revision.py",
    "embed_gpu_figures.py",
    "embed_gpu_parts.py",
    "embed_growth_figures.py",
    "kept_results.py",
    "kernel_figures.py",
    "overlap_figures.py",
    "parallel_training_figures.py",
    "paper_figures.py",
    "peer_environments.py",
    "pos_tagger_figures.py",
    "pretrain_figures.py",
    "quiet_machine.py",
    "results_page_figures.py",
    "sacremoses_tokenizer.py",
    "task_comparison_figures.py",
    "tasks_figures.py",
    "tasks_rates.py",
    "text_comparisons.py",
    "tokenizer_figures.py",
    "waiting_program.py",
    "word_senses_figures.py",
    "write_vectors_figures.py",
)
SCRIPTS = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("experiments/*/*.py")])


def script(path: Path) -> ModuleType:
    """A program, to be asked."""
    found = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


figures = script(ROOT / "benchmarks" / "figures.py")


@pytest.mark.parametrize("path", [path for path in SCRIPTS if path.name not in SHARED], ids=lambda p: p.name)
def test_every_script_fits_the_package_as_it_is(path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.syspath_prepend(path.parent)  # as Python does when it runs one
    assert script(path).main


@pytest.mark.parametrize("page", figures.pages())
def test_a_page_says_what_was_measured(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert figures.with_figures(page, text) == text, "python benchmarks/figures.py puts the page right"


@pytest.mark.parametrize(
    ("measured", "wrong"), [("has 28.0 million parameters", "has 28.1 million parameters"), ("1e-06 |", "5e-01 |")]
)
def test_with_figures_corrects_changed_number(measured: str, wrong: str) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert measured in text
    assert figures.with_figures("README.md", text.replace(measured, wrong, 1)) == text


# What looks measured and is not.
NOT_MEASURED = {
    ("docs/performance.md", "24 words"): "the length of the sentences",
    ("docs/performance.md", "500 tokens"): "a setting, --longest",
    ("benchmarks/embed_cpu_figures.py", "24 words"): "the length of the sentences",
    ("benchmarks/NOTES.md", "500 tokens"): "a setting, --longest",
    ("benchmarks/write_vectors.py", "20 words"): "a tolerance, a setting or an estimate, not a result",
    ("docs/architecture.md", "1e-5"): "a tolerance, a setting or an estimate, not a result",
    ("docs/architecture.md", "5e-6"): "a tolerance, a setting or an estimate, not a result",
    ("src/elmore/embedding/vector_files/numpy.py", "8 times"): "a tolerance, a setting or an estimate, not a result",
    ("src/elmore/engine/numpy_engine.py", "1e-5"): "a tolerance, a setting or an estimate, not a result",
    ("experiments/elmore-en/README.md", "48 MB"): "the limit that the question sets",
    ("experiments/elmore-en/README.md", "5 epochs"): "what a run was asked for of which, as it says, nothing was kept",
    ("experiments/elmore-en/about.toml", "5 epochs"): "the same",
    **{
        (file, "95 %"): "the level of an interval"
        for file in ("docs/comparing.md", "src/elmore/tasks/metrics/metric.py", "src/elmore/tasks/comparison/table.py")
    },
    ("docs/export.md", "2 GB"): "what a protocol buffer can hold",
    **{("docs/results.md", share): "a share of the training data" for share in ("1 %", "3 %", "10 %", "30 %")},
    ("docs/tasks/squad.md", "800 tokens"): "a limit, LONGEST_WINDOW",
    ("docs/tasks/coref.md", "10,000 words"): "a limit, of what coref reads at once",
    ("src/elmore/recipes/tasks/srl.toml", "200 epochs"): "the paper's",
    ("src/elmore/recipes/tasks/entailment.toml", "1e-4"): "the paper's",
    ("src/elmore/recipes/tasks/squad.toml", "1e-6"): "what it is set to",
    ("src/elmore/recipes/tasks/squad.toml", "1e-8"): "the paper's code",
    ("src/elmore/progress.py", "42%"): "how a bar looks",
    ("src/elmore/progress.py", "1,234,567 tokens"): "how a bar looks",
    ("src/elmore/progress.py", "12,345 tokens"): "how a bar looks",
}
UNITS = "MB|GB|MiB|GiB|TB|[TG]FLOP|tokens|words|times|ms|milliseconds|s|seconds|min|minutes|h|hours|million|epochs"
LOOKS_MEASURED = re.compile(rf"\d[\d.,_]*\s*(?:(?:{UNITS})\b|%)|\de-\d")
PAGES = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "src/elmore/models/LICENSE.md",
    "experiments/elmore-en/about.toml",
]
PAGES += [
    path.relative_to(ROOT).as_posix()
    for pattern in ("docs/**/*.md", "experiments/*/README.md", "benchmarks/*.md", "src/elmore/recipes/*/*.toml")
    for path in sorted(ROOT.glob(pattern))
]


def without_figures(page: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A page with a gap wherever it is told what to say."""
    monkeypatch.setattr(figures, "TABLES", dict.fromkeys(figures.TABLES, lambda: ""))
    gaps = {place: [""] * place[1].count("{}") for place in figures.SENTENCES}
    monkeypatch.setattr(figures, "SENTENCES", {place: lambda gap=gap: gap for place, gap in gaps.items()})
    text: str = figures.with_figures(page, (ROOT / page).read_text(encoding="utf-8"))
    monkeypatch.undo()
    return text


def prose_of(source: str) -> Iterator[str]:
    """The comments and docstrings of a program, without the examples in them, which are run."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (said := ast.get_docstring(node)):
            yield re.sub(r"^\s*>>>.*?(?:\n\s*\n|\Z)", "\n", said, flags=re.DOTALL | re.MULTILINE)


def test_no_page_has_a_figure_that_no_file_keeps(monkeypatch) -> None:
    found = set()
    for page in PAGES:
        # What is printed in examples is compared with what they print, in test_readme.py.
        examples = r"^```(?:console|python).*?^```"
        text = re.sub(examples, "", without_figures(page, monkeypatch), flags=re.DOTALL | re.MULTILINE)
        found |= {(page, figure) for figure in LOOKS_MEASURED.findall(text)}
    for path in [*ROOT.glob("src/elmore/**/*.py"), *SCRIPTS, *ROOT.glob("examples/*.py")]:
        page = path.relative_to(ROOT).as_posix()
        for text in prose_of(without_figures(page, monkeypatch)):
            found |= {(page, figure) for figure in LOOKS_MEASURED.findall(text)}
    assert found == NOT_MEASURED.keys(), "let benchmarks/figures.py write it from a kept file, or take it out"


@pytest.mark.parametrize(
    "claim",
    ["3 % less likely", "some 0.3 seconds", "ten, or 2.5 times", "16 minutes", "30 million", "up to 6e-6", "4 TB"],
)
def test_what_looks_measured_is_seen(claim: str) -> None:
    assert LOOKS_MEASURED.search(claim)


def test_a_figure_that_has_lost_its_sentence_is_noticed() -> None:
    with pytest.raises(SystemExit, match="0 places look like"):
        figures.with_figures("CHANGELOG.md", "- a model")


def test_every_comparison_with_the_original_programs_is_in_the_table() -> None:
    rows = figures.kernels.read(figures.kernels.BENCHMARKS / "parity.json")["rows"]
    assert [(row["program"], row["what"]) for row in rows] == [
        (c.program, c.what) for c in script(ROOT / "benchmarks" / "parity.py").COMPARISONS
    ]


def test_every_size_was_read_in_every_way() -> None:
    equality = script(ROOT / "benchmarks" / "equality.py")
    found = figures.kernels.read(figures.kernels.BENCHMARKS / "equality.json")["largest_difference"]
    assert {size: list(row) for size, row in found.items()} == {size: list(equality.WAYS) for size in equality.MODELS}
    assert {row["the same call twice"] for row in found.values()} == {0.0}


def test_the_time_of_a_step_is_told_by_kind_and_adds_up(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(figures.pretraining, "BENCHMARKS", tmp_path)
    kinds = {"small": {"matrix products": 1.5, "copies": 0.5}, "original": {"matrix products": 4.0, "softmax": 2.0}}
    lines = [
        {"size": size, "milliseconds_per_step": 2 * sum(spent.values()), "milliseconds_by_kind": spent}
        for size, spent in kinds.items()
    ]
    (tmp_path / "pretrain.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert figures.pretraining.pretrain_profile().splitlines()[2:] == [
        "| size | step | matrix products | softmax | copies | nothing runs |",
        "|---|--:|--:|--:|--:|--:|",
        "| small | 4.0 | 1.5 | 0.0 | 0.5 | 2.0 |",
        "| original | 12.0 | 4.0 | 2.0 | 0.0 | 6.0 |",
    ]


def test_a_bound_is_never_below_what_was_measured() -> None:
    for difference in (5.1e-6, 1e-6, 9.99e-6, 2.7418136596679688e-06):
        assert float(figures.kernels.bound(difference)) >= difference * (1 - 1e-8)
    assert figures.kernels.bound(9.99e-6) == "1e-05"


def test_the_card_of_the_model_inside_holds_what_the_experiment_measured() -> None:
    card = json.loads((ROOT / "src/elmore/models/elmore-en/card.json").read_text())
    measured = {path.stem: json.loads(path.read_text()) for path in (EXPERIMENT / "results").glob("*.json")}
    assert card["extra"]["measured"] == measured
    about = tomllib.loads((EXPERIMENT / "about.toml").read_text())
    assert {name: value for name, value in (card | card["extra"]).items() if name in about} == about


def test_the_card_of_the_model_inside_ends_as_the_log_of_its_training_does() -> None:
    training = json.loads((ROOT / "src/elmore/models/elmore-en/card.json").read_text())["extra"]["training"]
    last = [entry for entry in figures.elmore_en.training_log() if "heldout" in entry][-1]
    assert training["heldout_perplexity"]["mean"] == pytest.approx(last["heldout"], rel=1e-5)
    assert training["words_read"] == last["tokens"]


@pytest.mark.parametrize(
    "path", [*ROOT.glob("benchmarks/results/*"), *ROOT.glob("experiments/*/results/*.json")], ids=lambda p: p.name
)
def test_every_file_of_results_is_written_by_a_script(path: Path) -> None:
    writers = [one.name for one in SCRIPTS if one.name != "figures.py" and writes(one, path)]
    assert writers, f"no script writes {path.name}"


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("embed_cpu", "embed_cpu"),
        ("embed_growth", "embed_growth"),
        ("pretrain", "pretrain"),
        ("pretrain_cpu", "pretrain_cpu"),
        ("tasks_training", "tasks"),
        ("tasks_prediction", "tasks"),
    ],
)
def test_every_field_that_is_kept_is_one_that_its_script_writes(name: str, program: str) -> None:
    lines = figures.pretraining.read_lines(figures.pretraining.BENCHMARKS / f"{name}.jsonl")
    parsed = [ast.parse((ROOT / "benchmarks" / f"{part}.py").read_text("utf-8")) for part in (program, "circumstances")]
    written = {node.value for tree in parsed for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert lines
    assert {field for line in lines for field in line} - written == set()


def writes(program: Path, results: Path) -> bool:
    text = program.read_text(encoding="utf-8")
    return f'"{results.name}"' in text or f'keep("{results.stem}"' in text
