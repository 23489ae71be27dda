"""What is each part of the biLM worth? Six models that read the same text, each without one part, on two tasks.

    python experiments/ablations/run.py [prepare] [pretrain] [compare] [--text FOLDER] [--data FOLDER] [--work FOLDER]
        [--epochs N] [--at-once N] [--jobs N] [--seeds N] [--device DEVICE]

Without a stage all three are run. `prepare` makes a corpus of some files of the text, `pretrain` trains the six side by
side, `compare` puts them under a tagger of parts of speech, which has nothing but their vectors, and a classifier of
sentiment, which has GloVe's too and reads whole sentences alone. What is done is not done again, and a biLM whose
training was stopped goes on. Writes results/pretraining.json and, for both tasks, the table and a line for each
training.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from elmore.tasks import compare
from elmore.tasks.comparison.events import Reported
from elmore.tasks.comparison.variants import WITHOUT, Variant

RESULTS = Path(__file__).parent / "results"
SHARED = Path("../shared/data")  # from the root of the repository
WORK = Path(".cache/experiments/ablations")
STAGES = ("prepare", "pretrain", "compare")

TEXTS = ("wikipedia-01.txt.xz", "government-01.txt.xz", "news-01.txt.xz")
PREPARATION = ("--vocabulary-size", "30000", "--heldout", "0.01")
# The smallest published size, trained as elmore-en was; dropout because a small text is read several times.
TRAINING = (
    *("--recipe", "small", "--training.batch_size", "512", "--training.precision", "bfloat16"),
    *("--training.learning_rate", "0.003", "--training.warmup_steps", "300", "--training.gradient_clip", "2.5"),
)
FULL = "full biLM"
ABLATIONS: dict[str, tuple[str, ...]] = {
    FULL: (),
    "forward only": ("--model.reads", "forward"),
    "backward only": ("--model.reads", "backward"),
    "words instead of characters": ("--words",),
    "one layer": ("--model.lstm_layers", "1"),
    "no residual connection": ("--model.skip_connections", "false"),
}
# Nothing but the biLM's vectors: a character CNN of the tagger's own would hide what the biLM's is worth.
TAGGER = {"words.vectors": "none", "words.character_filters": 0, "training.plateau_factor": 0.5}
CLASSIFIER = {"task.phrases": False, "words.vectors": "vectors/glove.6B.100d.cut.txt.xz"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("--text", type=Path, default=SHARED / "text")
    parser.add_argument("--data", type=Path, default=SHARED / "tasks")
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument(
        "--recipe", nargs="*", default=[], metavar="FLAG", help="more flags of elmore pretrain, as a.b=1"
    )
    parser.add_argument("--epochs", default="6")
    parser.add_argument("--at-once", type=int, default=len(ABLATIONS), help="trainings of biLMs side by side")
    parser.add_argument("--jobs", type=int, default=1, help="trainings of tasks side by side")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device")
    parser.add_argument("--workers", default="16", help="processes that prepare the text")
    arguments = parser.parse_args()
    if unknown := set(arguments.stages) - set(STAGES):
        parser.error(f"there is no stage {', '.join(sorted(unknown))}; there are {', '.join(STAGES)}")
    stages = arguments.stages or STAGES
    if "prepare" in stages and not (arguments.work / "corpus").is_dir():
        prepare(arguments)
    if "pretrain" in stages:
        pretrain(arguments)
    if "compare" in stages:
        compare_taggers(arguments)
        compare_classifiers(arguments)


def prepare(arguments: argparse.Namespace) -> None:
    texts = [str(arguments.text / name) for name in TEXTS]
    corpus = str(arguments.work / "corpus")
    arguments.work.mkdir(parents=True, exist_ok=True)
    subprocess.run(elmore("prepare", *texts, "-o", corpus, *PREPARATION, "--workers", arguments.workers), check=True)


def pretrain(arguments: argparse.Namespace) -> None:
    """Train those that are not trained yet, some at once, and keep what is known of all."""
    waiting = {name: command_of(name, arguments) for name in ABLATIONS if not model_of(name, arguments).is_dir()}
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < arguments.at_once:
                name = next(iter(waiting))
                log = arguments.work / f"{folder_of(name)}.log"
                with log.open("ab") as file:
                    running[name] = subprocess.Popen(waiting.pop(name), stdout=file, stderr=subprocess.STDOUT)
                print(f"{name}: begins; its log is {log}", flush=True)
            name, process = next(iter(running.items()))
            if process.wait():
                raise SystemExit(f"{name}: failed; see {arguments.work / folder_of(name)}.log")
            del running[name]
            print(f"{name}: done", flush=True)
    finally:
        for process in running.values():
            process.terminate()  # which saves, and goes on next time
    arguments.results.mkdir(parents=True, exist_ok=True)
    rows = {name: trained(name, arguments) for name in ABLATIONS}
    (arguments.results / "pretraining.json").write_text(json.dumps(rows, indent=2) + "\n")


def command_of(name: str, arguments: argparse.Namespace) -> list[str]:
    run, corpus = arguments.work / folder_of(name), str(arguments.work / "corpus")
    if (run / "recipe.json").is_file():
        return elmore("pretrain", corpus, "--resume", str(run), "--quiet")
    more = [word for flag in arguments.recipe for word in (f"--{flag.split('=')[0]}", flag.split("=", 1)[1])]
    device = ["--device", arguments.device] if arguments.device else []
    flags = [*TRAINING, "--epochs", arguments.epochs, *more, *ABLATIONS[name]]
    return elmore("pretrain", corpus, "-o", str(run), *flags, "--quiet", *device)


def trained(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What a biLM is, and how it predicts the held-out text."""
    card = json.loads((model_of(name, arguments) / "card.json").read_text())
    training = card["extra"]["training"]
    flags = (*TRAINING, "--epochs", arguments.epochs, *ABLATIONS[name])
    return {
        "command": shlex.join(["elmore", "pretrain", "corpus", "-o", folder_of(name), *flags]),
        "words_read": training["words_read"],
        "seconds": round(training["seconds"]),
        "perplexity": training["heldout_perplexity"],
    }


def compare_taggers(arguments: argparse.Namespace) -> None:
    variants = [Variant(name=name, changes=chosen(name, arguments), baseline=baseline_of(name)) for name in ABLATIONS]
    files = {part: arguments.data / "pos" / f"en_ewt-ud-{part}.conllu.xz" for part in ("train", "dev", "test")}
    run_comparison("ewt-upos", "pos", files, arguments, recipe=TAGGER, variants=variants)


def compare_classifiers(arguments: argparse.Namespace) -> None:
    variants = [
        Variant(name=WITHOUT, changes={"elmo.where": "none"}, baseline=None),
        *(
            Variant(name=name, changes=chosen(name, arguments), baseline=baseline_of(name) or WITHOUT)
            for name in ABLATIONS
        ),
    ]
    files = {part: arguments.data / "sentiment" / f"sst-{part}.txt.xz" for part in ("train", "dev", "test")}
    recipe = {**CLASSIFIER, "words.vectors": str(arguments.data / CLASSIFIER["words.vectors"])}
    run_comparison("sst", "sentiment", files, arguments, recipe=recipe, variants=variants)


def run_comparison(
    name: str,
    task: str,
    files: dict[str, Path],
    arguments: argparse.Namespace,
    *,
    recipe: dict[str, Any],
    variants: list[Variant],
) -> None:
    folder = arguments.work / name
    events = compare(
        task,
        folder,
        train=files["train"],
        dev=files["dev"],
        test={name: files["test"]},
        recipe=recipe,
        variants=variants,
        seeds=arguments.seeds,
        jobs=arguments.jobs,
        cache=arguments.work / "layers",
        device=arguments.device,
    )
    for event in events:
        print(f"{name}: {event}", flush=True)
    if isinstance(event, Reported):
        kept = arguments.results / name
        kept.mkdir(parents=True, exist_ok=True)
        for file in (*event.files.values(), folder / "results.jsonl"):
            shutil.copy(file, kept)


def elmore(*words: str) -> list[str]:
    return [sys.executable, "-m", "elmore", *words]


def chosen(name: str, arguments: argparse.Namespace) -> dict[str, str]:
    return {"elmo.model": str(model_of(name, arguments))}


def baseline_of(name: str) -> str | None:
    """What is left out is measured by what it was worth to the whole."""
    return None if name == FULL else FULL


def folder_of(name: str) -> str:
    return name.replace(" ", "-")


def model_of(name: str, arguments: argparse.Namespace) -> Path:
    return Path(arguments.work / folder_of(name) / "model")


if __name__ == "__main__":
    main()
