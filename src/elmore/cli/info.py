"""`elmore info`: the facts about a model, a task model or this machine."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from elmore.cli.command import command, option
from elmore.cli.options import ModelOptions, model_argument
from elmore.cli.output import Verbosity
from elmore.display import pluralize
from elmore.errors import error_context
from elmore.version import __version__

if TYPE_CHECKING:
    from elmore.config import ModelConfig
    from elmore.model import Model
    from elmore.tasks.core.config import ElmoOptions
    from elmore.tasks.core.model_folder import MixWeights, StoredTaskModel, TaskModelCard


@command()
@model_argument
@option("--system", is_flag=True, help="Show this machine instead.")
@option("--json", "as_json", is_flag=True, help="Print JSON with all details.")
def info(verbosity: Verbosity, model: ModelOptions, *, system: bool, as_json: bool) -> None:
    """Show a model's size, format, checksum, tokenizer and source.

    For a task model: its labels, scores, data, license and biLM.
    """
    if system:
        facts = _system_facts()
    elif members := _task_models(model):
        # The members of an ensemble differ only by their seeds.
        with error_context(model.model):
            facts = _task_model_details(members[0]) if as_json else _task_model_facts(members[0])
        if len(members) > 1:
            scores = [dict(member.card.scores) for member in members]
            facts = {"members": len(members) if as_json else _describe_members(scores), **facts}
    else:
        loaded = model.load()
        facts = _model_details(loaded) if as_json else _model_facts(loaded)
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    width = max(map(len, facts))
    for name, fact in facts.items():
        if fact:
            print(f"{name:<{width}}  {fact}")


def _task_models(model: ModelOptions) -> "list[StoredTaskModel]":
    """The named task model, or the members of the named ensemble; empty if no task model is named."""
    if model.model is None or model.inputs != [model.model]:
        return []
    from elmore.tasks.core.model_folder import find_task_model, member_folders, names_task_model, read_task_model

    if not names_task_model(model.model):
        return []
    return [read_task_model(folder) for folder in member_folders(find_task_model(model.model))]


def _describe_members(scores: Sequence[Mapping[str, Any]]) -> str:
    """The number of members, and the first score of each."""
    name = next(iter(scores[0]), "")
    each = ", ".join(f"{member[name]:.2f}" for member in scores if name in member)
    return f"{len(scores)} models, shown is the first" + (f"; {name} of each: {each}" if each else "")


MAX_LABELS = 60  # that are shown by name


def _model_facts(model: "Model") -> dict[str, str]:
    """The main facts; a fact that does not apply is empty."""
    config, card = model.config, model.card
    mixes = sum(name.endswith(".scalars") for name in model.mixes or ())
    version = f" version {card.text.tokenizer_version}" if card.text.tokenizer == "moses" else ""
    changes = [
        name for name, applies in (("lower case", card.text.lowercase), ("escaped", card.text.escape)) if applies
    ]
    directions = f"two directions of {config.vector_dim}" if config.num_directions == 2 else f"{config.directions} only"
    return {
        "name": card.name,
        "description": card.description,
        "license": card.license or "not stated",
        "source": card.source,
        "format": card.format,
        "parameters": f"{config.num_parameters:,}",
        "layers": f"{config.num_layers}: the words alone, and {pluralize(config.lstm_layers, 'LSTM layer')}",
        "vector size": f"{config.dim} ({directions})",
        "LSTM": _describe_lstm(config),
        "input": _describe_input(config),
        "vocabulary": pluralize(len(model.vocabulary), "word") if model.vocabulary else "",
        "softmax": "stored" if model.softmax is not None else "",
        "mixes": f"{mixes}, learned for a task" if mixes else "",
        "tokenizer": ", ".join([f"{card.text.tokenizer}{version}", card.text.language, *changes]),
        "start state": f"warm: {card.start_state_source}" if card.start_state == "warm" else "zeros",
        "sha256": model.fingerprint(),
    }


def _describe_input(config: "ModelConfig") -> str:
    reads = []
    if characters := config.characters:
        filters = ", ".join(f"{number} x {width}" for width, number in characters.filters)
        reads.append(
            f"{characters.alphabet}, up to {characters.max_characters - 2} a word; filters (number x width) {filters}; "
            f"{pluralize(characters.num_highways, 'highway')}"
        )
    if config.word_embedding_dim:
        reads.append(f"a table of {config.vocab_size:,} words")
    return " and ".join(reversed(reads))


def _describe_lstm(config: "ModelConfig") -> str:
    def clipped(bound: float | None) -> str:
        return "" if bound is None else f" clipped at {bound:g}"

    parts = [f"{config.cell_dim} cells{clipped(config.cell_clip)}"]
    if config.lstm_projection:
        parts.append(f"projected to {config.vector_dim}{clipped(config.projection_clip)}")
    parts.append(f"{'with' if config.skip_connections else 'without'} skip connections")
    return ", ".join(parts)


def _model_details(model: "Model") -> dict[str, Any]:
    config = model.config
    return {
        "card": model.card.to_dict(),
        "config": config.to_dict(),
        "parameters": config.num_parameters,
        "num_layers": config.num_layers,
        "dim": config.dim,
        "vocabulary": len(model.vocabulary) if model.vocabulary else None,
        "softmax": model.softmax is not None,
        "mixes": sum(name.endswith(".scalars") for name in model.mixes or ()),
        "sha256": model.fingerprint(),
    }


def _task_model_facts(stored: "StoredTaskModel") -> dict[str, str]:
    """The main facts; a fact that does not apply is empty."""
    from elmore.tasks.core.trained_model import task_from_card

    card = stored.card
    described = task_from_card(card)
    return {
        "task": f"{card.task}: {described.task.summary}",
        "license": card.license or "not stated",
        "data": card.data,
        **{name.replace("_", " "): _describe_labels(labels) for name, labels in card.labels.items()},
        "scores": ", ".join(f"{name} {value:.2f}" for name, value in card.scores.items() if _is_main_score(name)),
        "biLM": _describe_bilm(stored, described.recipe.elmo),
        "mix of layers": "; ".join(_describe_mix(place, mix) for place, mix in card.mixes.items()),
        "words": f"{pluralize(len(stored.words), 'word')} with a vector of their own" if stored.words else "",
        "token style": card.token_style,
        "parameters": f"{_parameters(stored):,}",
        "trained": _describe_training(card),
        "written by": card.written_by,
    }


def _task_model_details(stored: "StoredTaskModel") -> dict[str, Any]:
    """All facts, with the names of the fields."""
    inside = stored.elmo is not None
    return {**asdict(stored.card), "words": len(stored.words), "parameters": _parameters(stored), "elmo_inside": inside}


def _parameters(stored: "StoredTaskModel") -> int:
    return sum(array.size for array in stored.arrays.values())


def _describe_labels(labels: Any) -> str:
    if isinstance(labels, list) and len(labels) <= MAX_LABELS:
        return f"{len(labels)}: {', '.join(map(str, labels))}"
    return f"{_leaves(labels):,}"


def _leaves(labels: Any) -> int:
    """The number of labels in nested tables and lists."""
    if isinstance(labels, Mapping):
        return sum(map(_leaves, labels.values()))
    return sum(map(_leaves, labels)) if isinstance(labels, list) else 1


def _is_main_score(name: str) -> bool:
    # "dev F1", "test accuracy". Parts of a score have other names.
    return name.partition(" ")[0] in ("dev", "test")


def _describe_bilm(stored: "StoredTaskModel", options: "ElmoOptions") -> str:
    required = stored.card.elmo
    if required is None:
        return "none"
    where = "inside" if stored.elmo is not None else "needed"
    place = "input and output" if options.where == "both" else options.where
    return f"{required.name}, {where} (sha256 {required.fingerprint[:12]}…), {options.training}, at the {place}"


def _describe_mix(place: str, mix: "MixWeights") -> str:
    shares = " ".join(f"{weight:.2f}" for weight in mix.weights)
    return f"{shares} at the {place}, gamma {mix.gamma:.2f}"


def _describe_training(card: "TaskModelCard") -> str:
    facts = card.training
    parts = [pluralize(facts["examples"], "example")] if "examples" in facts else []
    if facts.keys() >= {"best_epoch", "epochs"}:
        parts.append(f"epoch {facts['best_epoch']} of {facts['epochs']} taken")
    if "chosen" in facts:
        parts.append(f"{facts['chosen']} taken")
    return ", ".join([*parts, *([facts["command"]] if "command" in facts else [])])


def _system_facts() -> dict[str, Any]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from elmore.engine.open_engine import describe_engines, may_have_gpu
    from elmore.engine.threads import get_threads

    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "not installed: pip install 'elmore[torch]' for training, task models and GPUs"
    facts = {
        "elmore": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "threads": get_threads(),
        **describe_engines(),
        "torch": torch,
        "devices": "cpu",
    }
    if may_have_gpu():
        from elmore.nn.devices import describe_devices  # torch is imported here, for GPUs only

        facts["devices"] = describe_devices()
    return facts
