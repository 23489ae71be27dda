"""What a comparison has to show at its end: the table, and the pictures."""

from pathlib import Path
from typing import Any

from elmore.errors import MissingExtra
from elmore.files.atomic_files import atomic_write, make_folder
from elmore.tasks.comparison.events import Reported
from elmore.tasks.comparison.folder import ComparisonFolder
from elmore.tasks.comparison.plots import plot_comparison
from elmore.tasks.comparison.table import tabulate
from elmore.tasks.comparison.variants import Plan
from elmore.tasks.core.task import Task


def write_report(place: Path, task: Task[Any, Any], plan: Plan, *, kept: ComparisonFolder, failed: int = 0) -> Reported:
    """Write to `place` what the trainings of a plan gave, as far as they are kept; so many of them `failed`."""
    wanted = {cell.key for cell in plan.cells}
    results = list({one.key: one for one in kept.read_results() if one.key in wanted}.values())
    ensembles = kept.read_ensembles()
    counts = kept.read_counts([*results, *ensembles])
    comparison = tabulate(task.name, plan, results, counts, task.count_score, ensembles=ensembles)
    made = ComparisonFolder(place)
    make_folder(place)
    files = {"table": made.table, "json": made.table_json}
    for path, text in ((files["table"], comparison.to_markdown()), (files["json"], comparison.to_json())):
        with atomic_write(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    try:
        files |= plot_comparison(place, comparison, plan, results) if results else {}
    except MissingExtra:
        return Reported(comparison, files, failed, is_drawn=False)
    return Reported(comparison, files, failed, is_drawn=True)
