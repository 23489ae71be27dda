"""The kernels of the torch modules, chosen here by device and number type, or by name.

    reference         plain torch, differentiated by autograd any number of times
    torch             the backward pass of the LSTM is written
    cpu               the same, and the character CNN for words of one length at a time: training on a CPU
    native-training   C++ for word encoder and LSTM, forward and backward: training on a CPU in float32
    triton            as torch, with Triton kernels for the LSTM's pointwise parts and the softmax: training on a GPU
    triton-bfloat16   the same, with Triton kernels for the character CNN too: training on a GPU in bfloat16

All of them compute the same numbers, except for rounding; tests compare each with the reference. Inference without
gradients runs through `elmore.engine`; its GPU engine uses the word encoder's kernels and `cuda_graph_lstm`.
"""

import importlib.util
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from elmore.errors import InputError
from elmore.nn.character_cnn import (
    Filters,
    HighwayKernel,
    pool_by_convolution,
    pool_by_length,
    pool_by_product,
    run_highway,
)
from elmore.nn.cross_entropy import LossKernel, SoftmaxKernel, softmax_
from elmore.nn.native_recurrence import native_lstm
from elmore.nn.native_training import differentiate_natively, pool_by_table, run_native_highway
from elmore.nn.native_training_library import why_training_unavailable
from elmore.nn.recurrence import AUTOGRAD_LSTM, TORCH_CELL, LstmKernel, lstm_kernel

# The Triton kernels compute in float32: float64 would lose its precision.
TRITON_DTYPES = (torch.float32, torch.bfloat16, torch.float16)

KERNEL_NAMES = ("reference", "torch", "cpu", "native-training", "triton", "triton-bfloat16")

PoolCharacters = Callable[[Tensor, Tensor, Filters], Tensor]  # as in `character_cnn`


class Kernels(NamedTuple):
    """The hot functions of a pass."""

    name: str
    lstm: LstmKernel
    pool_characters: PoolCharacters
    softmax: SoftmaxKernel
    highway: HighwayKernel = run_highway
    loss: LossKernel | None = None  # replaces all of the cross-entropy, not only its softmax


def choose_kernels(device: torch.device, dtype: torch.dtype, *, name: str | None = None) -> Kernels:
    """The kernels for passes on a device in a number type, or the kernels of this name.

    >>> choose_kernels(torch.device("cpu"), torch.bfloat16).name
    'cpu'
    """
    if name == "native-training" and (device.type != "cpu" or dtype != torch.float32):
        raise InputError(f"the kernels {name!r} compute float32 on a CPU, not {dtype} on {device.type}")
    if name is not None:
        return kernels_named(name)
    if triton_runs_on(device, dtype):
        return kernels_named("triton-bfloat16" if dtype == torch.bfloat16 else "triton")
    if native_runs_on(device, dtype):
        return kernels_named("native-training")
    return kernels_named("cpu" if device.type == "cpu" else "torch")


def native_runs_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the native CPU kernels can be used there; `torch.compile` cannot trace them."""
    usable = device.type == "cpu" and dtype == torch.float32 and not torch.compiler.is_compiling()
    return usable and why_training_unavailable() is None


def triton_runs_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether Triton kernels can be used there."""
    return device.type == "cuda" and dtype in TRITON_DTYPES and importlib.util.find_spec("triton") is not None


@cache
def kernels_named(name: str) -> Kernels:
    """The kernels of a name. Triton is imported here: not every machine has it."""
    torch_lstm = lstm_kernel(TORCH_CELL)
    match name:
        case "reference":
            return Kernels(name, AUTOGRAD_LSTM, pool_by_convolution, softmax_)
        case "torch" | "cpu":
            return Kernels(name, torch_lstm, pool_by_length if name == "cpu" else pool_by_convolution, softmax_)
        case "native-training":
            return Kernels(name, native_lstm(), pool_by_table, softmax_, run_native_highway, differentiate_natively)
        case "triton" | "triton-bfloat16":
            return _triton_kernels(name)
    raise InputError(f"there are no kernels {name!r}; there are {', '.join(KERNEL_NAMES)}")


def _triton_kernels(name: str) -> Kernels:
    if importlib.util.find_spec("triton") is None:
        raise InputError(f"the kernels {name!r} require Triton, which torch installs for NVIDIA GPUs on Linux")
    from elmore.nn import triton_max_pooling, triton_training

    # In float32 the tiles of the character CNN's kernel are too large for the shared memory of a GPU.
    pool = pool_by_product
    if name == "triton-bfloat16":
        pool = partial(pool_by_product, pooling=triton_max_pooling.TRITON_MAX_POOLING)
    return Kernels(name, lstm_kernel(triton_training.TRITON_CELL), pool, triton_training.softmax_)
