"""`elmore info`: what a model is, and where it came from."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from elmore.cli.command import option, verb
from elmore.cli.model_options import ModelChoice, model_argument
from elmore.cli.task_model_facts import every_task_detail, task_model_facts
from elmore.cli.verbosity import Verbosity
from elmore.display import pluralize
from elmore.errors import error_context
from elmore.version import __version__

if TYPE_CHECKING:
    from elmore.config import ModelConfig
    from elmore.model import Model
    from elmore.tasks.core.model_folder import StoredTaskModel


@verb()
@model_argument
@option("--system", is_flag=True, help="Tell about this machine instead.")
@option("--json", "as_json", is_flag=True, help="Print JSON, with every detail.")
def info(verbosity: Verbosity, model: ModelChoice, *, system: bool, as_json: bool) -> None:
    """Tell what a model is: sizes, format, checksum, tokeniser, where it came from.

    Of a task model: its labels, scores, data and license, and which biLM it needs.
    """
    if system:
        facts = _system_facts()
    elif members := _task_models(model):
        # Those of an ensemble are of one kind, and differ by their seeds.
        with error_context(model.model):
            facts = every_task_detail(members[0]) if as_json else task_model_facts(members[0])
        if len(members) > 1:
            own_scores = [dict(one.card.scores) for one in members]
            facts = {"members": len(members) if as_json else _members_in_words(own_scores), **facts}
    else:
        loaded = model.load()
        facts = _every_detail(loaded) if as_json else _model_facts(loaded)
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    width = max(map(len, facts))
    for name, fact in facts.items():
        if fact:
            print(f"{name:<{width}}  {fact}")


def _task_models(model: ModelChoice) -> "list[StoredTaskModel]":
    """The task model that was named, or the members of an ensemble; none where it is a biLM, or nothing at all."""
    if model.model is None or model.inputs != [model.model]:
        return []
    from elmore.tasks.core.model_folder import find_task_model, member_folders, names_task_model, read_task_model

    if not names_task_model(model.model):
        return []

    return [read_task_model(folder) for folder in member_folders(find_task_model(model.model))]


def _members_in_words(scores: Sequence[Mapping[str, Any]]) -> str:
    """How many there are, and the first score of each."""
    name = next(iter(scores[0]), "")
    alone = ", ".join(f"{one[name]:.2f}" for one in scores if name in one)
    return f"{len(scores)} that decide together; what follows is of the first" + (f"; {name} {alone}" if alone else "")


def _model_facts(model: "Model") -> dict[str, str]:
    """What a person wants to know; what there is nothing to say of is left empty."""
    config, card = model.config, model.card
    mixes = sum(name.endswith(".scalars") for name in model.mixes or ())
    version = f" version {card.text.tokenizer_version}" if card.text.tokenizer == "moses" else ""
    changes = [name for name, is_so in (("lower case", card.text.lowercase), ("escaped", card.text.escape)) if is_so]
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
        "LSTM": _what_its_lstm_is(config),
        "reads": _what_it_reads(config),
        "vocabulary": pluralize(len(model.vocabulary), "word") if model.vocabulary else "",
        "softmax": "kept" if model.softmax is not None else "",
        "mixes": f"{mixes}, learnt for a task" if mixes else "",
        "tokenizer": ", ".join([f"{card.text.tokenizer}{version}", card.text.language, *changes]),
        "start state": f"warm: {card.start_state_source}" if card.start_state == "warm" else "zeros",
        "sha256": model.fingerprint(),
    }


def _what_it_reads(config: "ModelConfig") -> str:
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


def _what_its_lstm_is(config: "ModelConfig") -> str:
    def clipped(bound: float | None) -> str:
        return "" if bound is None else f" clipped at {bound:g}"

    parts = [f"{config.cell_dim} cells{clipped(config.cell_clip)}"]
    if config.lstm_projection:
        parts.append(f"projected to {config.vector_dim}{clipped(config.projection_clip)}")
    parts.append(f"{'with' if config.skip_connections else 'without'} skip connections")
    return ", ".join(parts)


def _every_detail(model: "Model") -> dict[str, Any]:
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
