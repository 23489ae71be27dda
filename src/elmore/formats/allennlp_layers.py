"""Layers as AllenNLP's torch modules store them, made into ours; ELMoForManyLangs took those modules over.

They differ from `elmore.config.tensor_shapes` in four things. Gates stand in the order input, forget, candidate,
output; the forget gate's bias is complete; LSTM matrices are applied as torch.nn.Linear applies its own; and a highway
is one linear layer, first the transform, then the gate with the opposite sign.

F filters, P vector size, D cell size.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from elmore.config import CharacterConfig, ModelConfig
from elmore.errors import FormatError
from elmore.formats.arrays import Floats, check_finite
from elmore.formats.storage.torch_files import Array


def take_tensor(tensors: Mapping[str, Array], name: str, *shape: int) -> Floats:
    """Copy one tensor as float32; FormatError if it is missing, has another shape or type, or is not finite."""
    if name not in tensors:
        raise FormatError(f"{name} is missing")
    tensor = tensors[name]
    if tensor.shape != shape:
        raise FormatError(f"{name} has shape {tensor.shape}; the configuration needs {shape}")
    if not np.issubdtype(tensor.dtype, np.floating):
        raise FormatError(f"{name} holds {tensor.dtype}; float32 is needed")
    # A copy, because tensors of one file may share their memory. Values too large for float32 become infinite.
    with np.errstate(over="ignore"):
        values = tensor.astype(np.float32, order="C")
    check_finite(name, values)
    return values


def convolutions(tensors: Mapping[str, Array], prefix: str, config: CharacterConfig) -> dict[str, Floats]:
    """The convolutions over characters, stored under `prefix` and their number."""
    ours = {}
    for i, (width, number) in enumerate(config.filters):
        ours[f"words.convolutions.{i}.weight"] = take_tensor(
            tensors, f"{prefix}{i}.weight", number, config.embedding_dim, width
        )
        ours[f"words.convolutions.{i}.bias"] = take_tensor(tensors, f"{prefix}{i}.bias", number)
    return ours


def highways(tensors: Mapping[str, Array], prefix: str, config: CharacterConfig) -> dict[str, Floats]:
    """The highways, stored under `prefix` and their number."""
    ours = {}
    features = config.num_filters
    for k in range(config.num_highways):
        weight = take_tensor(tensors, f"{prefix}{k}.weight", 2 * features, features)
        bias = take_tensor(tensors, f"{prefix}{k}.bias", 2 * features)
        ours[f"words.highways.{k}.transform.weight"] = weight[:features].copy()
        ours[f"words.highways.{k}.transform.bias"] = bias[:features].copy()
        ours[f"words.highways.{k}.gate.weight"] = -weight[features:]
        ours[f"words.highways.{k}.gate.bias"] = -bias[features:]
    return ours


def lstm(tensors: Mapping[str, Array], prefix: str, config: ModelConfig) -> dict[str, Floats]:
    """The LSTM layers of both directions, stored under `prefix`; the config's `forget_bias` must be 0."""
    ours = {}
    p, d = config.vector_dim, config.cell_dim
    for layer in range(config.lstm_layers):
        stored = [f"{prefix}{direction}_layer_{layer}" for direction in ("forward", "backward")]
        inputs = [take_tensor(tensors, f"{name}.input_linearity.weight", 4 * d, p) for name in stored]
        recurrent = [take_tensor(tensors, f"{name}.state_linearity.weight", 4 * d, p) for name in stored]
        biases = [take_tensor(tensors, f"{name}.state_linearity.bias", 4 * d) for name in stored]
        projections = [take_tensor(tensors, f"{name}.state_projection.weight", p, d) for name in stored]
        ours[f"lstm.{layer}.input"] = _stack([_reorder_gates(weight).T for weight in inputs])  # (2, P, 4D)
        ours[f"lstm.{layer}.recurrent"] = _stack([_reorder_gates(weight).T for weight in recurrent])  # (2, P, 4D)
        ours[f"lstm.{layer}.bias"] = _stack([_reorder_gates(bias) for bias in biases])  # (2, 4D)
        ours[f"lstm.{layer}.projection"] = _stack([weight.T for weight in projections])  # (2, D, P)
    return ours


def _stack(matrices: Sequence[Floats]) -> Floats:
    """Copy the matrices of all directions into one contiguous array; plain np.stack would keep their strides."""
    return np.stack(matrices, out=np.empty((len(matrices), *matrices[0].shape), np.float32))


def _reorder_gates(rows: Floats) -> Floats:
    i, f, j, o = np.split(rows, 4)
    return np.concatenate([i, j, f, o])
