"""Layers of AllenNLP's torch modules, converted to Elmore's tensors; ELMoForManyLangs uses copies of those modules.

They differ from `elmore.config.tensor_shapes` in four ways. The gates have the order input, forget, candidate, output;
the bias of the forget gate includes the forget bias; LSTM matrices are applied as `x @ W.T`; and a highway is one
linear layer: first the transform, then the gate with the opposite sign.

F filters, P vector size, D cell size.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from elmore.config import CharacterConfig, ModelConfig
from elmore.errors import FormatError
from elmore.formats.arrays import Floats, check_finite, take
from elmore.formats.storage.torch_files import Array


def take_tensor(tensors: Mapping[str, Array], name: str, *shape: int) -> Floats:
    """Copy one tensor as float32; FormatError if it is missing, has another shape or type, or is not finite."""
    tensor = take(tensors, name, shape)
    if not np.issubdtype(tensor.dtype, np.floating):
        raise FormatError(f"{name} has the type {tensor.dtype}; float32 is required")
    # A copy, because tensors of one file may share their memory. Values too large for float32 become infinite.
    with np.errstate(over="ignore"):
        values = tensor.astype(np.float32, order="C")
    check_finite(name, values)
    return values


def convolutions(tensors: Mapping[str, Array], prefix: str, config: CharacterConfig) -> dict[str, Floats]:
    """The convolutions over characters; their names are `prefix` and a number."""
    converted = {}
    for i, (width, number) in enumerate(config.filters):
        converted[f"words.convolutions.{i}.weight"] = take_tensor(
            tensors, f"{prefix}{i}.weight", number, config.embedding_dim, width
        )
        converted[f"words.convolutions.{i}.bias"] = take_tensor(tensors, f"{prefix}{i}.bias", number)
    return converted


def highways(tensors: Mapping[str, Array], prefix: str, config: CharacterConfig) -> dict[str, Floats]:
    """The highways; their names are `prefix` and a number."""
    converted = {}
    features = config.num_filters
    for k in range(config.num_highways):
        weight = take_tensor(tensors, f"{prefix}{k}.weight", 2 * features, features)
        bias = take_tensor(tensors, f"{prefix}{k}.bias", 2 * features)
        converted[f"words.highways.{k}.transform.weight"] = weight[:features].copy()
        converted[f"words.highways.{k}.transform.bias"] = bias[:features].copy()
        converted[f"words.highways.{k}.gate.weight"] = -weight[features:]
        converted[f"words.highways.{k}.gate.bias"] = -bias[features:]
    return converted


def lstm(tensors: Mapping[str, Array], prefix: str, config: ModelConfig) -> dict[str, Floats]:
    """The LSTM layers of both directions; their names begin with `prefix`. `config.forget_bias` must be 0."""
    converted = {}
    p, d = config.vector_dim, config.cell_dim
    for layer in range(config.lstm_layers):
        stored = [f"{prefix}{direction}_layer_{layer}" for direction in ("forward", "backward")]
        inputs = [take_tensor(tensors, f"{name}.input_linearity.weight", 4 * d, p) for name in stored]
        recurrent = [take_tensor(tensors, f"{name}.state_linearity.weight", 4 * d, p) for name in stored]
        biases = [take_tensor(tensors, f"{name}.state_linearity.bias", 4 * d) for name in stored]
        projections = [take_tensor(tensors, f"{name}.state_projection.weight", p, d) for name in stored]
        converted[f"lstm.{layer}.input"] = _stack([_reorder_gates(weight).T for weight in inputs])  # (2, P, 4D)
        converted[f"lstm.{layer}.recurrent"] = _stack([_reorder_gates(weight).T for weight in recurrent])  # (2, P, 4D)
        converted[f"lstm.{layer}.bias"] = _stack([_reorder_gates(bias) for bias in biases])  # (2, 4D)
        converted[f"lstm.{layer}.projection"] = _stack([weight.T for weight in projections])  # (2, D, P)
    return converted


def _stack(matrices: Sequence[Floats]) -> Floats:
    """Copy the matrices of all directions into one contiguous array; without `out`, np.stack copies strides."""
    return np.stack(matrices, out=np.empty((len(matrices), *matrices[0].shape), np.float32))


def _reorder_gates(rows: Floats) -> Floats:
    i, f, j, o = np.split(rows, 4)
    return np.concatenate([i, j, f, o])
