"""What is each part of the biLM worth? A whole biLM and five that lack one part each, same text, on two tasks.

    python experiments/ablations/run.py [prepare] [pretrain] [compare] [--text FOLDER] [--data FOLDER] [--work FOLDER]
        [--results FOLDER] [--epochs N] [--at-once N] [--jobs N] [--seeds N] [--device DEVICE] [--workers N]
        [--set FIELD=VALUE ...]

Without a stage all three are run. `prepare` makes a corpus of some files of the text, `pretrain` trains the six side by
side, `compare` puts them under a tagger of parts of speech, which has nothing but their vectors, and a classifier of
sentiment, which has GloVe's too and reads whole sentences alone. What is done is not done again, and a biLM whose
training was stopped goes on. Writes results/pretraining.json and, for both tasks, the table and a line for each
training. For a trial there are --work and --results for folders of its own, and --set model.cell_dim=64 for any field
of the biLMs' recipe.
"""

import argparse
import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from elmore.errors import ElmoreError
from elmore.tasks import compare
from elmore.tasks.comparison.events import Reported
from elmore.tasks.comparison.plan import WITHOUT, Variant

RESULTS = Path(__file__).parent / "results"
SHARED = Path("../shared/data")  # from the root of the repository
WORK = Path(".cache/experiments/ablations")
STAGES = ("prepare", "pretrain", "compare")

TEXTS = ("wikipedia-01.txt.xz", "government-01.txt.xz", "news-01.txt.xz")
PREPARATION = ("--vocabulary-size", "30000", "--heldout", "0.01")
# The smallest published size, trained as elmore-en was, but with the recipe's dropout, for there is less text.
TRAINING = (
    *("--recipe", "small", "--training.batch_size", "512", "--training.precision", "bfloat16"),
    *("--training.learning_rate", "0.003", "--training.warmup_steps", "300", "--training.max_grad_norm", "2.5"),
)
FULL = "full biLM"
ABLATIONS: dict[str, tuple[str, ...]] = {
    FULL: (),
    "forward only": ("--model.directions", "forward"),
    "backward only": ("--model.directions", "backward"),
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
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", help="change the recipe of all biLMs")
    parser.add_argument("--epochs", default="6", help="how often each biLM reads the text")
    parser.add_argument("--at-once", type=int, default=len(ABLATIONS), help="trainings of biLMs side by side")
    parser.add_argument("--jobs", type=int, default=1, help="trainings of tasks side by side")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device")
    parser.add_argument("--workers", default="16", help="processes that prepare the text")
    arguments = parser.parse_args()
    if unknown := set(arguments.stages) - set(STAGES):
        parser.error(f"there is no stage {', '.join(sorted(unknown))}; there are {', '.join(STAGES)}")
    if wrong := [one for one in arguments.set if "=" not in one]:
        parser.error(f"--set takes FIELD=VALUE, and not {', '.join(wrong)}")
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
    command = elmore("prepare", *texts, "-o", corpus, *PREPARATION, "--workers", arguments.workers)
    if subprocess.run(command, check=False).returncode:
        raise SystemExit("the text was not prepared, for the reason above")


def pretrain(arguments: argparse.Namespace) -> None:
    """Train those that are not trained yet, some at once, and keep what is known of each as soon as it is done."""
    waiting = [name for name in ABLATIONS if not model_of(name, arguments).is_dir()]
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < arguments.at_once:
                name = waiting.pop(0)
                with log_of(name, arguments).open("ab") as file:
                    running[name] = subprocess.Popen(command_of(name, arguments), stdout=file, stderr=subprocess.STDOUT)
                print(f"{name}: begins; its log is {log_of(name, arguments)}", flush=True)
            name = first_ended(running)
            if running.pop(name).returncode:
                for process in running.values():
                    process.send_signal(signal.SIGINT)
                lines = log_of(name, arguments).read_text(encoding="utf-8", errors="replace").splitlines()
                raise SystemExit("\n".join([f"{name}: failed; its log ends with", *lines[-10:]]))
            print(f"{name}: done", flush=True)
            keep_trained(arguments)
    finally:
        # Ctrl-C reaches them too. A training that is interrupted saves, and goes on next time.
        for process in running.values():
            process.wait()
    keep_trained(arguments)


def first_ended(running: dict[str, subprocess.Popen[bytes]]) -> str:
    """Whichever ends first: one that fails is told at once, and makes room for the next."""
    while True:
        for name, process in running.items():
            if process.poll() is not None:
                return name
        time.sleep(0.2)


def command_of(name: str, arguments: argparse.Namespace) -> list[str]:
    run, corpus = arguments.work / folder_of(name), str(arguments.work / "corpus")
    if (run / "recipe.json").is_file():
        return elmore("pretrain", corpus, "--resume", str(run))
    device = ["--device", arguments.device] if arguments.device else []
    return elmore("pretrain", corpus, "-o", str(run), *flags_of(name, arguments), *device)


def flags_of(name: str, arguments: argparse.Namespace) -> list[str]:
    changes = [word for one in arguments.set for word in (f"--{one.split('=')[0]}", one.split("=", 1)[1])]
    return [*TRAINING, "--epochs", arguments.epochs, *changes, *ABLATIONS[name]]


def keep_trained(arguments: argparse.Namespace) -> None:
    rows = {name: trained(name, arguments) for name in ABLATIONS if model_of(name, arguments).is_dir()}
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / "pretraining.json").write_text(json.dumps(rows, indent=2) + "\n")


def trained(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What a biLM is, and how it predicts the held-out text."""
    card = json.loads((model_of(name, arguments) / "card.json").read_text())
    training = card["extra"]["training"]
    return {
        "command": shlex.join(["elmore", "pretrain", "corpus", "-o", folder_of(name), *flags_of(name, arguments)]),
        "words_read": training["words_read"],
        "seconds": round(training["seconds"]),
        "perplexity": training["heldout_perplexity"],
    }


def compare_taggers(arguments: argparse.Namespace) -> None:
    variants = [Variant(name=name, changes=chosen(name, arguments), baseline=baseline_of(name)) for name in ABLATIONS]
    files = {part: arguments.data / "pos" / f"en_ewt-ud-{part}.conllu.xz" for part in ("train", "dev", "test")}
    run_comparison("ewt-upos", "pos", "EWT", files, arguments, recipe=TAGGER, variants=variants)


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
    run_comparison("sst", "sentiment", "SST-5", files, arguments, recipe=recipe, variants=variants)


def run_comparison(
    name: str,
    task: str,
    test: str,
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
        test={test: files["test"]},
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
        print(event.files["table"].read_text(encoding="utf-8"), flush=True)


def elmore(*words: str) -> list[str]:
    return [sys.executable, "-m", "elmore", *words]


def chosen(name: str, arguments: argparse.Namespace) -> dict[str, str]:
    return {"elmo.model": str(model_of(name, arguments))}


def baseline_of(name: str) -> str | None:
    """What is left out is measured by what it was worth to the whole."""
    return None if name == FULL else FULL


def folder_of(name: str) -> str:
    return name.replace(" ", "-")


def log_of(name: str, arguments: argparse.Namespace) -> Path:
    return Path(arguments.work / f"{folder_of(name)}.log")


def model_of(name: str, arguments: argparse.Namespace) -> Path:
    return Path(arguments.work / folder_of(name) / "model")


if __name__ == "__main__":
    try:
        main()
    except ElmoreError as error:
        raise SystemExit(f"run.py: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("stopped; the same command goes on") from None
