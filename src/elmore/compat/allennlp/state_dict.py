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
from elmore.errors import located
from elmore.formats.torch_layers import convolutions, highways, lstm, take
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
    with located(f"AllenNLP's state dict, {prefix.rstrip('.')}"):
        renamed = _renamed(stored, network.config)
    state_dict.update((f"{prefix}network.{name}", tensor) for name, tensor in renamed.items())


def _renamed(stored: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    characters = config.characters
    assert characters is not None  # the module reads nothing else
    rows, columns = characters.n_characters, characters.embedding_dim
    ours = {"words.characters": take(stored, f"{_WORDS}_char_embedding_weights", rows + 1, columns)[1:]}
    ours |= convolutions(stored, f"{_WORDS}char_conv_", characters)
    ours |= highways(stored, f"{_WORDS}_highways._layers.", characters)
    projection = f"{_WORDS}_projection"
    ours["words.projection.weight"] = take(stored, f"{projection}.weight", config.vector_dim, config.token_features)
    ours["words.projection.bias"] = take(stored, f"{projection}.bias", config.vector_dim)
    ours |= lstm(stored, _LSTM, config)
    for layer in range(config.lstm_layers):
        # Theirs is complete; to ours the network adds what the configuration says.
        i, j, f, o = ours[f"lstm.{layer}.bias"].chunk(4, dim=-1)
        ours[f"lstm.{layer}.bias"] = torch.cat([i, j, f - config.forget_bias, o], dim=-1)
    return ours
