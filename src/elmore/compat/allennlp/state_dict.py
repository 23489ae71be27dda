"""Old state dicts: parameters under AllenNLP's names become those of `elmore.network`.

    _token_embedder._char_embedding_weights         a row of zeros stands in front
    _token_embedder.char_conv_{i}.…
    _token_embedder._highways._layers.{k}.…
    _token_embedder._projection.…
    _elmo_lstm.{forward,backward}_layer_{l}.…

A word encoder by itself has the names behind `_token_embedder.`. Saving uses the names of `elmore.network`; both kinds
are loaded.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from elmore.config import ModelConfig
from elmore.errors import error_context
from elmore.formats.allennlp import tensors_of_state_dict, word_encoder_tensors
from elmore.network.bilm import BiLM

_BILM = ("_token_embedder.", "_elmo_lstm.")
_WORD_ENCODER = ("_char_embedding_weights", "char_conv_", "_highways.", "_projection.")


def rename_bilm(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Before a state dict is loaded into a module that has a `network`: put our names in place of AllenNLP's."""
    network = module.get_submodule("network")
    assert isinstance(network, BiLM)
    config = network.config
    _rename(state_dict, prefix, _BILM, lambda stored: _prefixed("network.", _bilm_tensors(stored, config)))


def rename_word_encoder(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Before a state dict is loaded into a module that has a `config` and `words`: the same for these."""
    config = module.config
    assert isinstance(config, ModelConfig)
    _rename(state_dict, prefix, _WORD_ENCODER, lambda stored: word_encoder_tensors(stored, "", config))


def _rename(
    state_dict: dict[str, Any],
    prefix: str,
    beginnings: tuple[str, ...],
    renamed: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]],
) -> None:
    """Replace what begins with the prefix and one of AllenNLP's names, if there is any."""
    old_names = [name for name in state_dict if name.startswith(tuple(prefix + name for name in beginnings))]
    if not old_names:
        return
    stored = {name.removeprefix(prefix): state_dict.pop(name) for name in old_names}
    with error_context(f"AllenNLP's state dict, {prefix.rstrip('.')}"):
        state_dict.update(_prefixed(prefix, renamed(stored)))


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}{name}": tensor for name, tensor in tensors.items()}


def _bilm_tensors(stored: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    ours = tensors_of_state_dict(stored, "", config)
    for layer in range(config.lstm_layers):
        # Theirs is complete; to ours the network adds what the configuration says.
        i, j, f, o = ours[f"lstm.{layer}.bias"].chunk(4, dim=-1)
        ours[f"lstm.{layer}.bias"] = torch.cat([i, j, f - config.forget_bias, o], dim=-1)
    return ours
