"""What is ELMo worth to the tasks? The same models with `elmore-en` and without it.

    python experiments/tasks/run.py [NAME ...] [--data FOLDER] [--work FOLDER] [--results FOLDER] [--jobs N]
        [--device DEVICE] [--seeds N] [--only VARIANT ...] [--set FIELD=VALUE ...] [--no-tables | --kept]

Every NAME is a comparison as `elmore compare` makes them; without any, all are run. They can be stopped and go on where
they were. Of each, results/NAME keeps the table and the plots, a line for every training with the command that trains
the same model, and in counts/ what its test scores are made of, example by example; the tables of one data set, such as
snli and snli-layers, share their trainings, which are kept with the first. --only trains these variants alone, for now,
and what they are measured against: tables that are written then have no other rows. --kept trains nothing, and makes
the tables and plots of these names anew of the lines and counts that are kept, wherever they were trained; without
counts of all its trainings a gain has no interval. For a trial there are --work and --results for folders of its own,
and --set training.epochs=2 for any field of the recipe.
"""

import argparse
import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from comparison_parts import CUTS, Comparison
from comparisons import COMPARISONS
from cut_data import make_cut

from elmore.errors import ElmoreError, InputError
from elmore.files.atomic_files import atomic_write
from elmore.tasks import compare
from elmore.tasks.comparison.events import Reported
from elmore.tasks.comparison.plan import Variant, make_plan
from elmore.tasks.comparison.plots import write_report
from elmore.tasks.comparison.store import ComparisonFolder
from elmore.tasks.core.registry import find_task
from elmore.tasks.core.training_run import resolve_recipe

RESULTS = Path(__file__).parent / "results"
DATA = Path("../shared/data/tasks")  # from the root of the repository
WORK = Path(".cache/experiments/tasks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COMPARISONS))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side")
    parser.add_argument("--device")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each variant")
    parser.add_argument("--only", nargs="*", metavar="VARIANT", help="train these variants alone, for now")
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", help="change the recipes of all")
    parser.add_argument("--no-tables", action="store_true", help="train, and leave the tables for another time")
    parser.add_argument("--kept", action="store_true", help="train nothing: tables anew, of what is kept")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in COMPARISONS]:
        parser.error(f"there is no comparison {', '.join(unknown)}; there are {', '.join(COMPARISONS)}")
    chosen = {name: COMPARISONS[name] for name in arguments.names or COMPARISONS}
    variants = {one.name for comparison in chosen.values() for one in comparison.variants}
    if unknown := [name for name in arguments.only or () if name not in variants]:
        parser.error(f"no comparison has a variant {', '.join(unknown)}; there are {', '.join(sorted(variants))}")
    if wrong := [one for one in arguments.set if "=" not in one]:
        parser.error(f"--set takes FIELD=VALUE, and not {', '.join(wrong)}")
    if arguments.kept:
        if not arguments.names:
            parser.error("--kept wants the names of what is to be written anew")
        for name, comparison in chosen.items():
            tabulate_kept(name, comparison, arguments)
        return
    together: dict[str, list[str]] = {}
    for name, comparison in chosen.items():
        if not wanted(comparison.variants, arguments.only):
            continue
        together.setdefault(comparison.trained_in or name, []).append(name)
    for folder, names in together.items():
        # All trainings at once first, so that the last ones of one table do not wait for those of the next.
        if len(names) > 1 or arguments.no_tables:
            run(folder, union([chosen[name] for name in names]), arguments)
        for name in names if not arguments.no_tables else ():
            if report := run(folder, chosen[name], arguments):
                keep(report, arguments.results / name, arguments.results / folder)


def tabulate_kept(name: str, comparison: Comparison, arguments: argparse.Namespace) -> None:
    """Write the table and the plots of the lines that are kept of a comparison's trainings."""
    kept = ComparisonFolder(arguments.results / (comparison.trained_in or name))
    if not kept.results.is_file():
        raise InputError(f"{name}: no trainings are kept in {kept.path}")
    task, variants = find_task(comparison.task), wanted(comparison.variants, arguments.only)
    plan = make_plan(resolve_recipe(task, changes_of(comparison, arguments)), variants, seeds=arguments.seeds)
    print(f"{name}: {write_report(arguments.results / name, task, plan, results_folder=kept)}")


def union(comparisons: Sequence[Comparison]) -> Comparison:
    """One that trains all that these do."""
    variants: dict[str, Variant] = {}
    for variant in (one for comparison in comparisons for one in comparison.variants):
        known = variants.setdefault(variant.name, variant)
        variants[variant.name] = replace(known, fractions=known.fractions or variant.fractions)
    return replace(comparisons[0], variants=tuple(variants.values()))


def run(folder: str, comparison: Comparison, arguments: argparse.Namespace) -> Reported | None:
    """Train what is not trained yet; the report, unless it was stopped before."""

    def path(file: str) -> Path:
        if file.startswith(CUTS):
            return make_cut(file.removeprefix(CUTS), arguments.data, arguments.work / CUTS)
        return arguments.data / file

    changes = changes_of(comparison, arguments)
    changes["words.vectors"] = "none" if comparison.vectors == "none" else str(path(comparison.vectors))
    train = [comparison.train] if isinstance(comparison.train, str) else comparison.train
    events = compare(
        comparison.task,
        arguments.work / folder,
        train=[path(file) for file in train],
        dev=path(comparison.dev),
        test={test: path(file) for test, file in comparison.tests.items()},
        recipe=changes,
        variants=wanted(comparison.variants, arguments.only),
        seeds=arguments.seeds,
        jobs=arguments.jobs,
        keep_models=comparison.keep_models,
        cache=arguments.work / "layers",
        device=arguments.device,
    )
    for event in events:
        print(f"{folder}: {event}", flush=True)
    return event if isinstance(event, Reported) else None


def changes_of(comparison: Comparison, arguments: argparse.Namespace) -> dict[str, Any]:
    return {**comparison.changes, **dict(one.split("=", 1) for one in arguments.set)}


def wanted(variants: Sequence[Variant], only: Sequence[str] | None) -> list[Variant]:
    """Those of these names and what they are measured against; without names, all."""
    names = {name for one in variants if one.name in only for name in (one.name, one.baseline)} if only else set()
    return [one for one in variants if not only or one.name in names]


def keep(report: Reported, tables: Path, trainings: Path) -> None:
    """Copy what is to be kept: the table and the plots, and of all trainings their lines and counts."""
    tables.mkdir(parents=True, exist_ok=True)
    for file in report.files.values():
        shutil.copy(file, tables)
    keep_trainings(report.files["table"].parent, trainings)


def keep_trainings(made: Path, kept: Path) -> None:
    """Put these trainings among those that are kept, so that tables made elsewhere lose none of theirs.

    If a variant was trained by another recipe, or on other data, then all that was kept is out of date.
    """
    new, old = (read_lines(folder / "results.jsonl") for folder in (made, kept))
    trained_by = {line["variant"]: recipe_of(line) for line in new}
    if changed := [line for line in old if trained_by.get(line["variant"], recipe_of(line)) != recipe_of(line)]:
        print(f"{kept}: {changed[0]['variant']!r} was trained otherwise before; what was kept of then is dropped")
        old = []
        shutil.rmtree(kept / "counts", ignore_errors=True)
    (kept / "counts").mkdir(parents=True, exist_ok=True)
    for file in (made / "counts").glob("*.npz"):
        shutil.copy(file, kept / "counts")
    lines = {(line["variant"], line["fraction"], line["seed"]): line for line in (*old, *new)}
    with atomic_write(kept / "results.jsonl") as unfinished:
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines.values())
        unfinished.write_text(text, encoding="utf-8")


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def recipe_of(line: Mapping[str, Any]) -> list[str]:
    """The command of a training without what differs between seeds, shares of the data, and folders of the data."""
    words = shlex.split(line["command"])
    own = ("-o", "--training.seed", "--training.fraction")
    return [
        f"{flag} {Path(value).name}" for flag, value in pairwise(words) if flag.startswith("--") and flag not in own
    ]


if __name__ == "__main__":
    try:
        main()
    except ElmoreError as error:
        raise SystemExit(f"run.py: {error}") from None
