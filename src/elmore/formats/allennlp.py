"""A biLM inside a model that AllenNLP trained: its archive, its serialization directory, or a bare state dict.

    config.json     the training configuration, with the name of the biLM's options file
    weights.th      the state dict of the whole model (best.th in a serialization directory), the biLM under a prefix
    fta/            in an archive: the options file itself, under its key in config.json

A state dict does not contain the clips, the maximum word length and the activation. Without an options file, they are
those of all published models, and the card's `extra` lists the assumed values.
"""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from elmore.config import CharacterConfig, ModelConfig
from elmore.display import join_names
from elmore.errors import FormatError, InputError, error_context
from elmore.formats.allennlp_layers import convolutions, highways, lstm, take_tensor
from elmore.formats.arrays import Floats, take
from elmore.formats.card import ModelCard
from elmore.formats.checkpoint import Checkpoint, Format
from elmore.formats.options_json import config_from_options
from elmore.formats.storage.container import Container, read_json
from elmore.formats.storage.torch_files import Array, load_tensors

_STATE_DICTS = ("weights.th", "best.th")
_TORCH_SUFFIXES = (".th", ".pt", ".pth", ".bin", ".pkl")
_OTHER_SUFFIXES = (".hdf5", ".h5", ".safetensors", ".index")
_TABLE = "_token_embedder._char_embedding_weights"


def detect(container: Container) -> bool:
    return _state_dict(container) is not None


def read(container: Container) -> Checkpoint:
    name = _state_dict(container)
    if name is None:
        raise FormatError(f"{' and '.join(_STATE_DICTS)} are missing")
    stored = load_tensors(container, name)
    task = read_json(container, "config.json") if "config.json" in container.names() else {}
    config, options = _options(container, task)
    with error_context(name):
        prefix = _prefix(stored)
        extra: dict[str, Any] = {"prefix": prefix}
        if config is None:
            config = _infer_config(stored, prefix)
            extra["assumed"] = _assumed_values(config)
    # The fault may be in the weights or in the options, so the message names both.
    with error_context(f"{name}, by {options}" if options else name):
        tensors = tensors_of_state_dict(stored, prefix, config)
        mixes = _mixes(stored, prefix.removesuffix("_elmo_lstm."), config)
    if mixes:
        pairs = range(len(mixes) // 2)
        extra["mixes"] = [{part: mixes[f"mixes.{n}.{part}"].tolist() for part in ("scalars", "gamma")} for n in pairs]
        if any(value is True for _, value in _find_all(task, "do_layer_norm")):
            extra["elmo"] = {"mixes": [{"normalize": "masked-batch"} for _ in pairs]}
    return Checkpoint(
        config=config,
        tensors=tensors,
        mixes=mixes or None,
        card=ModelCard(extra=extra),
    )


ALLENNLP = Format(
    name="allennlp", detect=detect, read=read, files="weights.th with config.json, or one state dict (.th, .pt)"
)


def _state_dict(container: Container) -> str | None:
    names = container.names()
    for name in _STATE_DICTS:
        if name in names:
            return name
    torch_files = [name for name in names if name.endswith(_TORCH_SUFFIXES)]
    of_another_format = any(name.endswith(_OTHER_SUFFIXES) for name in names)
    return torch_files[0] if len(torch_files) == 1 and not of_another_format else None


def _prefix(stored: Mapping[str, Array]) -> str:
    """The prefix of the names of the biLM's tensors."""
    prefixes = [name.removesuffix(_TABLE) for name in stored if name == _TABLE or name.endswith(f".{_TABLE}")]
    if not prefixes:
        raise FormatError(
            f"contains no biLM: no tensor has a name that ends in {_TABLE}; the tensors are "
            f"{join_names(sorted(stored)) or 'none'}"
        )
    if len(prefixes) > 1:
        raise FormatError(
            f"contains several biLMs, with the prefixes {join_names(sorted(prefixes))}; save one as a state dict"
        )
    return prefixes[0]


def _options(container: Container, task: Mapping[str, Any]) -> tuple[ModelConfig | None, str]:
    """The configuration in the options file of the biLM, and the name of this file; None and "" without one."""
    names = container.names()
    candidates = [f"fta/{key}" for key, _ in _find_all(task, "options_file")]
    candidates += [posixpath.basename(path) for _, path in _find_all(task, "options_file") if isinstance(path, str)]
    candidates += [name for name in names if posixpath.basename(name).endswith("options.json")]
    present = list(dict.fromkeys(name for name in candidates if name in names))
    configs = []
    for name in present:
        options = read_json(container, name)
        with error_context(name):
            config = config_from_options(options, token_projection=True, lstm_projection=True)
            # The biLM of AllenNLP always has skip connections, and its stored biases are complete.
            configs.append(replace(config, skip_connections=True, forget_bias=0.0))
    if any(config != configs[0] for config in configs):
        raise FormatError(f"{join_names(present)} describe different biLMs; remove all but that of these weights")
    return (configs[0], present[0]) if present else (None, "")


def _find_all(task: Mapping[str, Any], wanted: str) -> Iterator[tuple[str, Any]]:
    """All values of this name in a configuration, at any depth, with their dotted keys."""
    waiting: list[tuple[str, Any]] = [("", task)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{path}{key}.", inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}{number}.", inner) for number, inner in enumerate(value)]
        if path.endswith(f".{wanted}."):
            yield path.removesuffix("."), value


def _infer_config(stored: Mapping[str, Array], prefix: str) -> ModelConfig:
    """The configuration, inferred from the shapes; the rest as in all published models."""
    words, layers = f"{prefix}_token_embedder.", f"{prefix}_elmo_lstm.forward_layer_"
    rows, embedding_dim = take(stored, f"{words}_char_embedding_weights", (None, None)).shape
    filters: list[tuple[int, int]] = []
    while (name := f"{words}char_conv_{len(filters)}.weight") in stored:
        number, _, width = take(stored, name, (None, None, None)).shape
        filters.append((width, number))
    vector_dim, cell_dim = take(stored, f"{layers}0.state_projection.weight", (None, None)).shape
    try:
        return ModelConfig(
            characters=CharacterConfig(
                n_characters=rows - 1,  # without the row of zeros for padding
                embedding_dim=embedding_dim,
                filters=tuple(filters),
                num_highways=_count(stored, f"{words}_highways._layers.", ".weight"),
            ),
            vector_dim=vector_dim,
            cell_dim=cell_dim,
            lstm_layers=_count(stored, layers, ".state_projection.weight"),
            forget_bias=0.0,
        )
    except InputError as error:
        raise FormatError(f"the shapes are not those of a biLM: {error}") from None


def _assumed_values(config: ModelConfig) -> dict[str, Any]:
    assert config.characters is not None
    return {
        "cell_clip": config.cell_clip,
        "projection_clip": config.projection_clip,
        "max_characters": config.characters.max_characters,
        "activation": config.characters.activation,
    }


def _count(stored: Mapping[str, Array], before: str, after: str) -> int:
    number = 0
    while f"{before}{number}{after}" in stored:
        number += 1
    return number


def tensors_of_state_dict(stored: Mapping[str, Array], prefix: str, config: ModelConfig) -> dict[str, Floats]:
    """The tensors of a biLM whose names begin with `prefix`; their biases include the forget bias."""
    return {
        **word_encoder_tensors(stored, f"{prefix}_token_embedder.", config),
        **lstm(stored, f"{prefix}_elmo_lstm.", config),
    }


def word_encoder_tensors(stored: Mapping[str, Array], prefix: str, config: ModelConfig) -> dict[str, Floats]:
    """The tensors of a biLM's word encoder, whose names begin with `prefix`."""
    characters = config.characters
    if characters is None:
        raise FormatError("the options describe a model of words, the weights one of characters")
    table = take_tensor(
        stored, f"{prefix}_char_embedding_weights", characters.n_characters + 1, characters.embedding_dim
    )
    return {
        "words.characters": table[1:],
        **convolutions(stored, f"{prefix}char_conv_", characters),
        **highways(stored, f"{prefix}_highways._layers.", characters),
        "words.projection.weight": take_tensor(
            stored, f"{prefix}_projection.weight", config.vector_dim, config.word_feature_dim
        ),
        "words.projection.bias": take_tensor(stored, f"{prefix}_projection.bias", config.vector_dim),
    }


def _mixes(stored: Mapping[str, Array], prefix: str, config: ModelConfig) -> dict[str, Floats]:
    """The layer mixes that a task learned."""
    mixes = {}
    for number in range(_count(stored, f"{prefix}scalar_mix_", ".gamma")):
        mix = f"{prefix}scalar_mix_{number}."
        scalars = [take_tensor(stored, f"{mix}scalar_parameters.{layer}", 1) for layer in range(config.num_layers)]
        mixes[f"mixes.{number}.scalars"] = np.concatenate(scalars)
        mixes[f"mixes.{number}.gamma"] = take_tensor(stored, f"{mix}gamma", 1).reshape(())
    return mixes
