"""What `elmore info` tells of a task model."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from elmore.display import pluralize

if TYPE_CHECKING:
    from elmore.tasks.core.config import ElmoOptions
    from elmore.tasks.core.model_folder import MixWeights, StoredTaskModel, TaskModelCard

MOST_LABELS = 60  # that are told by name


def task_model_facts(stored: "StoredTaskModel") -> dict[str, str]:
    """What a person wants to know; what there is nothing to say of is left empty."""
    from elmore.tasks.core.trained_model import task_from_card

    card = stored.card
    described = task_from_card(card)
    return {
        "task": f"{card.task}: {described.task.summary}",
        "license": card.license or "not stated",
        "data": card.data,
        **{name.replace("_", " "): _labels_in_words(labels) for name, labels in card.labels.items()},
        "scores": ", ".join(f"{name} {value:.2f}" for name, value in card.scores.items() if _is_whole_score(name)),
        "biLM": _bilm_in_words(stored, described.recipe.elmo),
        "mix of layers": "; ".join(_mix_in_words(place, mix) for place, mix in card.mixes.items()),
        "words": f"{pluralize(len(stored.words), 'word')} with a vector of their own" if stored.words else "",
        "token style": card.token_style,
        "parameters": f"{_parameters(stored):,}",
        "trained": _training_in_words(card),
        "written by": card.written_by,
    }


def every_task_detail(stored: "StoredTaskModel") -> dict[str, Any]:
    """All of it, under the names that the code uses."""
    inside = stored.elmo is not None
    return {**asdict(stored.card), "words": len(stored.words), "parameters": _parameters(stored), "elmo_inside": inside}


def _parameters(stored: "StoredTaskModel") -> int:
    return sum(array.size for array in stored.arrays.values())


def _labels_in_words(labels: Any) -> str:
    if isinstance(labels, list) and len(labels) <= MOST_LABELS:
        return f"{len(labels)}: {', '.join(map(str, labels))}"
    return f"{_leaves(labels):,}"


def _leaves(labels: Any) -> int:
    """How many there are, in whatever they are sorted by."""
    if isinstance(labels, Mapping):
        return sum(map(_leaves, labels.values()))
    return sum(map(_leaves, labels)) if isinstance(labels, list) else 1


def _is_whole_score(name: str) -> bool:
    # "dev F1", "test accuracy"; what they are made of has other names.
    return name.partition(" ")[0] in ("dev", "test")


def _bilm_in_words(stored: "StoredTaskModel", options: "ElmoOptions") -> str:
    required = stored.card.elmo
    if required is None:
        return "none"
    where = "inside" if stored.elmo is not None else "needed"
    place = "input and output" if options.where == "both" else options.where
    return f"{required.name}, {where} (sha256 {required.fingerprint[:12]}…), {options.training}, at the {place}"


def _mix_in_words(place: str, mix: "MixWeights") -> str:
    shares = " ".join(f"{weight:.2f}" for weight in mix.weights)
    return f"{shares} at the {place}, gamma {mix.gamma:.2f}"


def _training_in_words(card: "TaskModelCard") -> str:
    facts = card.training
    parts = [pluralize(facts["examples"], "example")] if "examples" in facts else []
    if facts.keys() >= {"best_epoch", "epochs"}:
        parts.append(f"epoch {facts['best_epoch']} of {facts['epochs']} taken")
    if "chosen" in facts:
        parts.append(f"{facts['chosen']} taken")
    return ", ".join([*parts, *([facts["command"]] if "command" in facts else [])])
