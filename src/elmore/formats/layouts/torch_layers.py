"""Layers as AllenNLP's torch modules store them, made into ours; ELMoForManyLangs took those modules over.

They differ from `elmore.config.tensor_shapes` in four things. Gates stand in the order input, forget, candidate,
output; the forget gate's bias is complete; LSTM matrices are applied as torch.nn.Linear applies its own; and a highway
is one linear layer, first the transform, then the gate with the opposite sign.

F filters, P vector size, D cell size.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from elmore.config import CharacterConfig, ModelConfig
from elmore.errors import FormatError
from elmore.formats.storage.tensor_checks import check_finite


def take_tensor(tensors: Mapping[str, Tensor], name: str, *shape: int) -> Tensor:
    """One tensor in float32, or an error that names it where it is missing, has another shape, or is damaged."""
    if name not in tensors:
        raise FormatError(f"{name} is missing")
    tensor = tensors[name]
    if tuple(tensor.shape) != shape:
        raise FormatError(f"{name} has shape {tuple(tensor.shape)}; the configuration needs {shape}")
    if not tensor.is_floating_point():
        raise FormatError(f"{name} holds {tensor.dtype}; float32 is needed")
    # A copy, because tensors of one file may share their memory.
    values = tensor.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    check_finite(name, values)
    return values


def convolutions(tensors: Mapping[str, Tensor], prefix: str, config: CharacterConfig) -> dict[str, Tensor]:
    """The convolutions over characters, stored under `prefix` and their number."""
    ours = {}
    for i, (width, number) in enumerate(config.filters):
        ours[f"words.convolutions.{i}.weight"] = take_tensor(
            tensors, f"{prefix}{i}.weight", number, config.embedding_dim, width
        )
        ours[f"words.convolutions.{i}.bias"] = take_tensor(tensors, f"{prefix}{i}.bias", number)
    return ours


def highways(tensors: Mapping[str, Tensor], prefix: str, config: CharacterConfig) -> dict[str, Tensor]:
    """The highways, stored under `prefix` and their number."""
    ours = {}
    features = config.features
    for k in range(config.n_highways):
        weight = take_tensor(tensors, f"{prefix}{k}.weight", 2 * features, features)
        bias = take_tensor(tensors, f"{prefix}{k}.bias", 2 * features)
        ours[f"words.highways.{k}.transform.weight"] = weight[:features].contiguous()
        ours[f"words.highways.{k}.transform.bias"] = bias[:features].contiguous()
        ours[f"words.highways.{k}.gate.weight"] = -weight[features:]
        ours[f"words.highways.{k}.gate.bias"] = -bias[features:]
    return ours


def lstm(tensors: Mapping[str, Tensor], prefix: str, config: ModelConfig) -> dict[str, Tensor]:
    """The LSTM layers of both directions, stored under `prefix`; the config's `forget_bias` must be 0."""
    ours = {}
    p, d = config.vector_dim, config.cell_dim
    for layer in range(config.lstm_layers):
        stored = [f"{prefix}{direction}_layer_{layer}" for direction in ("forward", "backward")]
        inputs = [take_tensor(tensors, f"{name}.input_linearity.weight", 4 * d, p) for name in stored]
        recurrent = [take_tensor(tensors, f"{name}.state_linearity.weight", 4 * d, p) for name in stored]
        biases = [take_tensor(tensors, f"{name}.state_linearity.bias", 4 * d) for name in stored]
        projections = [take_tensor(tensors, f"{name}.state_projection.weight", p, d) for name in stored]
        ours[f"lstm.{layer}.input"] = torch.stack([_reorder_gates(weight).T for weight in inputs])  # (2, P, 4D)
        ours[f"lstm.{layer}.recurrent"] = torch.stack([_reorder_gates(weight).T for weight in recurrent])  # (2, P, 4D)
        ours[f"lstm.{layer}.bias"] = torch.stack([_reorder_gates(bias) for bias in biases])  # (2, 4D)
        ours[f"lstm.{layer}.projection"] = torch.stack([weight.T for weight in projections])  # (2, D, P)
    return ours


def _reorder_gates(rows: Tensor) -> Tensor:
    i, f, j, o = rows.chunk(4)
    return torch.cat([i, j, f, o])
