"""The tables that `experiments/tasks` keeps, for its page; `figures.py` puts them there."""

from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "experiments" / "tasks" / "results"
NAMES = (
    *("wikineural", "wnut17", "sst", "ewt-upos", "ewt-xpos", "ewt-upos-probes", "ewt-xpos-probes"),
    *("settings-wikineural", "settings-wnut17", "settings-sst", "more-settings-wikineural", "more-settings-sst"),
    *("scales-wikineural", "scales-sst", "sst-unscaled"),
    "ewt-tagger",
)


def comparison(name: str) -> str:
    """The table that `elmore compare` wrote, a heading for each test set; nothing before it was run."""
    table = RESULTS / name / "table.md"
    if not table.is_file():
        return ""
    lines = table.read_text(encoding="utf-8").strip().splitlines()
    # They stand under a heading of the page.
    return "\n".join(f"**{line.removeprefix('## ')}**" if line.startswith("## ") else line for line in lines)
