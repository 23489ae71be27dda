"""The tables that `experiments/tasks` keeps, for its page; `figures.py` puts them there."""

from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "experiments" / "tasks" / "results"
PAPER_TABLES = ("layers", "places", "subword", "gamma", "fine-tuning")
NAMES = (
    *("wikineural", "wnut17", "sst", "ewt-upos", "ewt-xpos", "ewt-upos-probes", "ewt-xpos-probes"),
    *("settings-wikineural", "settings-wnut17", "settings-sst", "more-settings-wikineural", "more-settings-sst"),
    *("scales-wikineural", "scales-sst", "sst-unscaled"),
    "ewt-tagger",
    *("squad", "snli", "mnli", "srl", "litbank", "ontogum"),
    *("settings-squad", "settings-snli", "settings-srl", "settings-litbank"),
    *(f"{name}-{table}" for name in ("squad", "snli", "srl") for table in PAPER_TABLES),
    *("snli-fractions", "srl-fractions"),
)


def comparison(name: str) -> str:
    return markdown_table(RESULTS / name / "table.md")


def not_trained() -> str:
    """The names of the tables that are defined and not made yet, as a sentence; nothing where there are none."""
    missing = [f"`{name}`" for name in NAMES if not (RESULTS / name / "table.md").is_file()]
    return f"Defined, and not trained yet: {', '.join(missing)}." if missing else ""


def markdown_table(table: Path) -> str:
    """The table that `elmore compare` wrote, a heading for each test set; nothing before it was run."""
    if not table.is_file():
        return ""
    lines = table.read_text(encoding="utf-8").strip().splitlines()
    # They stand under a heading of the page.
    return "\n".join(f"**{line.removeprefix('## ')}**" if line.startswith("## ") else line for line in lines)
