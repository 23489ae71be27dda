"""State dicts of AllenNLP: parameters get the names that they have in `elmore.nn`.

    _token_embedder._char_embedding_weights         with an additional first row of zeros
    _token_embedder.char_conv_{i}.…
    _token_embedder._highways._layers.{k}.…
    _token_embedder._projection.…
    _elmo_lstm.{forward,backward}_layer_{l}.…

In a word encoder alone, names start after `_token_embedder.`. Saving uses the names of `elmore.nn`; both kinds can be
loaded.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from elmore.config import ModelConfig
from elmore.errors import error_context
from elmore.formats.allennlp import tensors_of_state_dict, word_encoder_tensors
from elmore.formats.arrays import Floats
from elmore.nn.bilm import BiLM
from elmore.nn.devices import to_tensors

_BILM = ("_token_embedder.", "_elmo_lstm.")
_WORD_ENCODER = ("_char_embedding_weights", "char_conv_", "_highways.", "_projection.")


def rename_bilm(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Replace AllenNLP's names before a state dict is loaded into a module with a `network`."""
    network = module.get_submodule("network")
    assert isinstance(network, BiLM)
    config = network.config
    _rename(state_dict, prefix, _BILM, lambda stored: _prefixed("network.", _bilm_tensors(stored, config)))


def rename_word_encoder(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Replace AllenNLP's names before a state dict is loaded into a module with a `config` and `words`."""
    config = module.config
    assert isinstance(config, ModelConfig)
    _rename(state_dict, prefix, _WORD_ENCODER, lambda stored: word_encoder_tensors(stored, "", config))


def _rename(
    state_dict: dict[str, Any],
    prefix: str,
    beginnings: tuple[str, ...],
    renamed: Callable[[Mapping[str, Floats]], Mapping[str, Floats]],
) -> None:
    """Rename the tensors whose names start with the prefix and one of AllenNLP's names."""
    old_names = [name for name in state_dict if name.startswith(tuple(prefix + name for name in beginnings))]
    if not old_names:
        return
    stored = {name.removeprefix(prefix): _array(state_dict.pop(name)) for name in old_names}
    with error_context(f"AllenNLP's state dict, {prefix.rstrip('.')}"):
        state_dict.update(to_tensors(_prefixed(prefix, renamed(stored))))


def _array(tensor: Tensor) -> Floats:
    # NumPy has no bfloat16. Integers stay integers, so that the error can name their type.
    tensor = tensor.detach().cpu()
    array: Floats = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
    return array


def _prefixed(prefix: str, arrays: Mapping[str, Floats]) -> dict[str, Floats]:
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def _bilm_tensors(stored: Mapping[str, Floats], config: ModelConfig) -> dict[str, Floats]:
    ours = tensors_of_state_dict(stored, "", config)
    for layer in range(config.lstm_layers):
        # AllenNLP's bias includes the forget bias. Elmore's does not: the network adds `config.forget_bias`.
        i, j, f, o = np.split(ours[f"lstm.{layer}.bias"], 4, axis=-1)
        ours[f"lstm.{layer}.bias"] = np.concatenate([i, j, f - np.float32(config.forget_bias), o], axis=-1)
    return ours
