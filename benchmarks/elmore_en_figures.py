"""The model inside: its size, how it was trained, what it was measured at; `figures.py` puts it into pages."""

import math
import re
import statistics
import tomllib
from pathlib import Path
from typing import Any

from kept_results import directions, read, read_lines, table

from elmore.config import ModelConfig, tensor_shapes
from elmore.pretraining.heldout_perplexity import METRIC
from elmore.pretraining.recipe import Recipe
from elmore.recipe import read_recipe
from elmore.training.events import Evaluated, Progressed
from elmore.training.trainable import Evaluation, Step

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENT = ROOT / "experiments" / "elmore-en"
SHIPPED = ROOT / "src" / "elmore" / "models" / "elmore-en"


def epochs() -> str:
    rows = [
        [str(n), *(f"{one:.1f}" for one in directions(entry["heldout_each"])), f"{entry['heldout']:.1f}"]
        for n, entry in enumerate((entry for entry in training_log() if "heldout" in entry), start=1)
    ]
    return table(["epoch", "forward", "backward", "mean"], rows)


def texts() -> str:
    alone = read(EXPERIMENT / "results" / "perplexity_by_sentence.json")
    rows = [
        [
            name,
            f"{one['tokens']:,}",
            f"{one['unknown']:.1%}",
            str(one["passage"]),
            *(f"{one[which]:.1f}" for which in ("forward", "backward", "mean")),
            f"{alone[name]['mean']:.1f}" if name in alone else "",
        ]
        for name, one in sorted(read(EXPERIMENT / "results" / "perplexity.json").items())
    ]
    head = ["text", "tokens", "`<UNK>`", "passages of", "forward", "backward", "mean", "each sentence by itself"]
    return table(head, rows)


def int8() -> str:
    measured = read(EXPERIMENT / "results" / "int8.json")
    rows = [[name, f"{one['float32']:.2f}", f"{one['int8']:.2f}"] for name, one in sorted(measured.items())]
    shown = table(["text", "float32", "int8"], rows)
    return f"What int8 costs, one scale for each row of a matrix:\n\n{shown}" if measured else ""


def start_state() -> str:
    measured = read(EXPERIMENT / "results" / "start_state.json")
    rows = [
        [name, *(f"{one[name]:.2f}" if one[name] > 1 else f"{one[name]:.1%}" for one in measured.values())]
        for name in measured["zeros"]
        if name != "start"
    ]
    return table(["", *measured], rows)


def printed_lines() -> str:
    """The last lines of the training of elmore-en, as the run prints what its log has."""
    *_, logged, last, evaluated = training_log()
    named = {
        way: dict(zip(("forward", "backward"), directions(values), strict=True))
        for way, values in (("sampled", logged["sampled_perplexities"]), ("heldout", evaluated["heldout_each"]))
    }
    speed = logged["tokens_per_second"]
    progressed = Progressed(
        Step(logged["step"], (logged["loss"],), logged["gradient_norm"], logged["learning_rate"]),
        last["step"],
        epoch=logged["epoch"],
        metrics={"sampled_perplexities": named["sampled"]},
        tokens_per_second=speed,
        seconds_left=(last["tokens"] - logged["tokens"]) / speed,
        logged=True,
    )
    found = Evaluation(METRIC, evaluated["heldout"], named["heldout"], tokens=0)
    return f"```text\n{progressed}\n{Evaluated(evaluated['step'], found, is_baseline=False)}\n```"


def parameters(recipe: str | None = None) -> str:
    """In millions: those of a recipe's model, or of the model inside."""
    config = read_recipe(recipe, Recipe).model if recipe else None
    config = config or ModelConfig.from_dict(read(SHIPPED / "config.json")["model"])
    return f"{sum(math.prod(shape) for shape in tensor_shapes(config).values()) / 1e6:.1f}"


def megabytes(digits: int) -> str:
    return f"{sum(path.stat().st_size for path in SHIPPED.iterdir()) / 1e6:.{digits}f}"


def million_words(digits: int = 0) -> str:
    about = tomllib.loads((EXPERIMENT / "about.toml").read_text(encoding="utf-8"))
    return f"{sum(text['words'] for text in about['texts']) / 1e6:.{digits}f}"


def minutes() -> str:
    return f"{read(SHIPPED / 'card.json')['extra']['training']['seconds'] / 60:.0f}"


def softmax_words() -> str:
    return f"{read(SHIPPED / 'card.json')['extra']['training']['corpus']['vocabulary']:,}"


def perplexity(text: str, *, by_sentence: bool = False) -> str:
    measured = read(EXPERIMENT / "results" / f"perplexity{'_by_sentence' if by_sentence else ''}.json")
    return f"{measured[text]['mean']:.1f}"


def training_sizes() -> list[str]:
    training = read(SHIPPED / "card.json")["extra"]["training"]
    return [f"{training['recipe']['training']['epochs']:.0f}", million_words(), minutes()]


def shipped_recipe() -> Any:
    """The recipe in the card, under the names of fields at that time."""
    return read(SHIPPED / "card.json")["extra"]["training"]["recipe"]["training"]


def shipped_settings() -> list[str]:
    recipe = shipped_recipe()
    return [f"{recipe['epochs']:.0f}", str(recipe["learning_rate"]), str(recipe["gradient_clip"])]


def logged_every() -> list[str]:
    first, second = (entry["step"] for entry in training_log()[:2])
    return [str(second - first)]


def gradient_norms() -> list[str]:
    clip = shipped_recipe()["gradient_clip"]
    norms = [entry["gradient_norm"] for entry in training_log() if "gradient_norm" in entry]
    return [f"{statistics.median(norms):.1f}", f"{100 * statistics.mean(norm > clip for norm in norms):.0f}", str(clip)]


def warm_sentences() -> list[str]:
    return re.findall(r"\d+", read(EXPERIMENT / "results" / "start_state.json")["warm"]["start"])[:1]


def training_log() -> list[dict[str, Any]]:
    return read_lines(EXPERIMENT / "results" / "log.jsonl")
