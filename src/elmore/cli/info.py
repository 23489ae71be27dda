"""`elmore info`: what a model is, and where it came from."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmore.cli.model_options import MODEL_HELP, OptionsFile, VocabularyFile, WeightFile
from elmore.cli.speaking import Quiet, Speech, Verbose
from elmore.errors import InputError
from elmore.version import __version__

if TYPE_CHECKING:
    from elmore.model import Model


def info(
    context: typer.Context,
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help=MODEL_HELP)] = None,
    options_file: OptionsFile = None,
    weight_file: WeightFile = None,
    vocab: VocabularyFile = None,
    system: Annotated[bool, typer.Option("--system", help="Tell about this machine instead of a model.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Tell a model's sizes, layers, format, parameters, checksum, tokeniser, and where it came from."""
    Speech.of(context, quiet=quiet, verbose=verbose)
    if system:
        facts = _system_facts()
    elif model is None and options_file is None:
        raise InputError("name a model, as in: elmore info tiny-random; or ask for --system")
    else:
        from elmore.model import load

        facts = _model_facts(load(model, options=options_file, weights=weight_file, vocabulary=vocab))
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        width = max(map(len, facts))
        for name, value in facts.items():
            print(f"{name:<{width}}  {_as_text(value)}")


def _model_facts(model: "Model") -> dict[str, Any]:
    config, card = model.config, model.card
    characters = config.characters
    reads = []
    if characters:
        reads.append(f"{characters.alphabet}, up to {characters.max_characters} characters a word")
    if config.word_dim:
        reads.append(f"{config.n_words:,} words")
    warm = f"warm: {card.start_state_from}" if card.start_state == "warm" else "zeros"
    return {
        "name": card.name or "(none)",
        "description": card.description,
        "licence": card.licence or "not stated",
        "source": card.source,
        "format": card.format,
        "parameters": config.parameters,
        "layers": config.num_layers,
        "vector size": config.dim,
        "directions": config.directions,
        "LSTM": f"{config.lstm_layers} layers of {config.cell_dim} cells, each direction {config.vector_dim}",
        "skip connections": config.skip_connections,
        "clips": f"cell {config.cell_clip or 'none'}, projection {config.projection_clip or 'none'}",
        "reads": " and ".join(reads),
        "filters": [list(pair) for pair in characters.filters] if characters else [],
        "highways": characters.n_highways if characters else 0,
        "vocabulary": len(model.vocabulary) if model.vocabulary else 0,
        "softmax": model.softmax is not None,
        "mixes": sum(name.endswith(".scalars") for name in model.mixes or ()),
        "tokenizer": f"{card.text.tokenizer} ({card.text.language})",
        "lower case": card.text.lowercase,
        "escaped": card.text.escape,
        "start state": warm,
        "sha256": model.fingerprint(),
    }


def _system_facts() -> dict[str, Any]:
    import platform

    import torch

    return {
        "elmore": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.platform(),
        "threads": torch.get_num_threads(),
        "devices": [f"cuda:{n} {torch.cuda.get_device_name(n)}" for n in range(torch.cuda.device_count())] or ["cpu"],
        "recurrence": "reference (plain torch)",
    }


def _as_text(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list():
            return ", ".join(" x ".join(map(str, item)) if isinstance(item, list) else str(item) for item in value)
    return str(value)
