"""What is ELMo worth to names, parts of speech and sentiment? The same models with `elmore-en` and without it.

    python experiments/tasks/run.py [NAME ...] [--data FOLDER] [--work FOLDER] [--jobs N] [--device DEVICE] [--seeds N]

Every NAME is a comparison as `elmore compare` makes them; without any, all are run. They can be stopped and go on where
they were. Of each, results/NAME keeps the table, the plots and a line for every training, with the command that trains
the same model.
"""

import argparse
import shutil
from pathlib import Path

from comparisons import COMPARISONS

from elmore.tasks import compare
from elmore.tasks.comparison.variants import WITHOUT

RESULTS = Path(__file__).parent / "results"
DATA = Path("../shared/data/tasks")  # from the root of the repository
WORK = Path(".cache/experiments/tasks")
KEPT = ("results.jsonl", "table.md", "table.json", "*.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COMPARISONS))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", metavar="VARIANT", help="train these variants alone, for now")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in COMPARISONS]:
        parser.error(f"there is no comparison {', '.join(unknown)}; there are {', '.join(COMPARISONS)}")
    for name in arguments.names or COMPARISONS:
        run(name, arguments)


def run(name: str, arguments: argparse.Namespace) -> None:
    comparison, data, folder = COMPARISONS[name], arguments.data, arguments.work / name
    changes = dict(comparison.changes)
    changes["words.vectors"] = "none" if comparison.vectors == "none" else str(data / comparison.vectors)
    events = compare(
        comparison.task,
        folder,
        train=data / comparison.train,
        dev=data / comparison.dev,
        test={test: data / file for test, file in comparison.tests.items()},
        recipe=changes,
        variants=[one for one in comparison.variants if not arguments.only or one.name in (WITHOUT, *arguments.only)],
        seeds=arguments.seeds,
        jobs=arguments.jobs,
        keep_models=comparison.keep_models,
        cache=arguments.work / "layers",
        device=arguments.device,
    )
    for event in events:
        print(f"{name}: {event}", flush=True)
    kept = RESULTS / name
    kept.mkdir(parents=True, exist_ok=True)
    for pattern in KEPT:
        for file in folder.glob(pattern):
            shutil.copy(file, kept)


if __name__ == "__main__":
    main()
