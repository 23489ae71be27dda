"""Old state dicts: a biLM's parameters under AllenNLP's names become those of `elmore.network`.

    _token_embedder._char_embedding_weights         a row of zeros stands in front
    _token_embedder.char_conv_{i}.…
    _token_embedder._highways._layers.{k}.…
    _token_embedder._projection.…
    _elmo_lstm.{forward,backward}_layer_{l}.…

Saving uses the names of `elmore.network`; both kinds are loaded.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from elmore.config import ModelConfig
from elmore.errors import error_context
from elmore.formats.allennlp import tensors_of_state_dict
from elmore.network.bilm import BiLM

_WORDS, _LSTM = "_token_embedder.", "_elmo_lstm."


def rename_parameters(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Before a state dict is loaded into a module that has a `network`: put our names in place of AllenNLP's."""
    old_names = [name for name in state_dict if name.startswith((prefix + _WORDS, prefix + _LSTM))]
    if not old_names:
        return
    network = module.get_submodule("network")
    assert isinstance(network, BiLM)
    stored = {name.removeprefix(prefix): state_dict.pop(name) for name in old_names}
    with error_context(f"AllenNLP's state dict, {prefix.rstrip('.')}"):
        renamed = _renamed(stored, network.config)
    state_dict.update((f"{prefix}network.{name}", tensor) for name, tensor in renamed.items())


def _renamed(stored: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    ours = tensors_of_state_dict(stored, "", config)
    for layer in range(config.lstm_layers):
        # Theirs is complete; to ours the network adds what the configuration says.
        i, j, f, o = ours[f"lstm.{layer}.bias"].chunk(4, dim=-1)
        ours[f"lstm.{layer}.bias"] = torch.cat([i, j, f - config.forget_bias, o], dim=-1)
    return ours
