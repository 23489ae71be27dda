"""Which kernels run: chosen here and nowhere else, by device, kind of number and need of gradients, or by name.

    reference        plain torch, differentiated by autograd: reading where nothing below fits
    native           C++ for word encoder and LSTM: reading on a CPU in float32, the same bits in every batch
    native-bfloat16  the same, with products of bfloat16, and
    native-int8      of int8: both only by name, for what goes in and comes out is float32
    cuda-graphs      the loop of the LSTM captured as CUDA graphs, over Triton kernels: reading on a GPU, and
    cuda-graphs-tf32 the same, with products of float32 rounded to TF32: by name
    packed           the same loop in plain torch, for any device: by name, to compare with
    torch            the backward pass of the LSTM written out: training where nothing below fits
    cpu              the same, and the character CNN by words of one length at a time: training on a CPU
    native-training  C++ for word encoder and LSTM, forth and back: training on a CPU in float32
    triton           as torch, with Triton kernels for the LSTM's pointwise parts and the softmax: training on a GPU
    triton-bfloat16  the same, with Triton kernels for the character CNN too: training on a GPU in bfloat16

All of them give the same numbers, but for rounding, and the same gradients; tests hold each against the reference.
"""

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from elmore.errors import InputError
from elmore.kernels import reference
from elmore.kernels.autocast import compute_dtype
from elmore.kernels.captured_reading import TORCH_READING_CELL, captured_recurrence
from elmore.kernels.cell import TORCH_CELL
from elmore.kernels.character_cnn import Filters, pool_by_convolution, pool_by_length, pool_by_product
from elmore.kernels.cross_entropy import DifferentiateChoice
from elmore.kernels.explicit_backward import recurrence_with
from elmore.kernels.highway import HighwayKernel, run_highway
from elmore.kernels.native_cross_entropy import differentiate_natively
from elmore.kernels.native_highway import run_native_highway
from elmore.kernels.native_library import Number, native_obstacle
from elmore.kernels.native_max_pooling import pool_by_table
from elmore.kernels.native_recurrence import native_recurrence
from elmore.kernels.native_training_recurrence import native_training_recurrence
from elmore.kernels.native_word_encoding import native_word_encoding
from elmore.kernels.recurrence import Recurrence
from elmore.kernels.softmax import SoftmaxKernel, softmax_
from elmore.kernels.torch_threads import torch_on_one_thread
from elmore.kernels.word_encoding import WordEncoding

# Triton's kernels compute in float32, and would take from float64 what it is there for.
TRITON_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


NATIVE_NUMBERS = {"native": Number.FLOAT32, "native-bfloat16": Number.BFLOAT16, "native-int8": Number.INT8}
NATIVE_NAMES = (*NATIVE_NUMBERS, "native-training")
CUDA_GRAPHS = ("cuda-graphs", "cuda-graphs-tf32")
KERNEL_NAMES = (
    "reference",
    *NATIVE_NUMBERS,
    *CUDA_GRAPHS,
    "packed",
    "torch",
    "cpu",
    "native-training",
    "triton",
    "triton-bfloat16",
)


PoolCharacters = Callable[[Tensor, Tensor, Filters], Tensor]  # as in `character_cnn`


class Kernels(NamedTuple):
    """The hot functions of a pass."""

    name: str
    recurrence: Recurrence
    pool_characters: PoolCharacters
    softmax: SoftmaxKernel  # as in `softmax`
    highway: HighwayKernel = run_highway  # as in `highway`
    differentiate_choice: DifferentiateChoice | None = None  # for all of `cross_entropy`, and not its softmax alone
    word_encoding: WordEncoding | None = None  # for all of a word encoder, and not its character CNN alone

    def settings(self) -> AbstractContextManager[None]:
        """Around a pass: where the native kernels run, torch steps back; for TF32 it is told to round so."""
        if self.name == "cuda-graphs-tf32":
            return _rounding_to_tf32()
        return torch_on_one_thread() if self.name in NATIVE_NAMES else nullcontext()


def choose_kernels(device: torch.device, dtype: torch.dtype, *, training: bool, name: str | None = None) -> Kernels:
    """The kernels for a pass on a device, with numbers of a kind; those of a name, if one is given.

    >>> choose_kernels(torch.device("cpu"), torch.bfloat16, training=True).name
    'cpu'
    """
    if name in NATIVE_NUMBERS and (device.type != "cpu" or dtype != torch.float32 or training):
        raise _refusal(name, "float32 on a CPU", device, dtype, training=training)
    if name == "native-training" and (device.type != "cpu" or dtype != torch.float32):
        raise InputError(f"the kernels {name!r} train float32 on a CPU; wanted were {dtype} on {device.type}")
    if name in CUDA_GRAPHS and (device.type != "cuda" or dtype not in TRITON_DTYPES or training):
        raise _refusal(name, "on a GPU", device, dtype, training=training)
    if name == "packed" and training:
        raise _refusal(name, "on any device", device, dtype, training=training)
    if name is not None:
        return kernels_named(name)
    if not training:
        if graphs_run_on(device, dtype):
            return kernels_named("cuda-graphs")
        return kernels_named("native" if native_runs_on(device, dtype) else "reference")
    if triton_runs_on(device, dtype):
        return kernels_named("triton-bfloat16" if dtype == torch.bfloat16 else "triton")
    if native_runs_on(device, dtype):
        return kernels_named("native-training")
    return kernels_named("cpu" if device.type == "cpu" else "torch")


def _refusal(name: str, reads: str, device: torch.device, dtype: torch.dtype, *, training: bool) -> InputError:
    wanted = "gradients" if training else f"{dtype} on {device.type}".removeprefix("torch.")
    return InputError(f"the kernels {name!r} read {reads}, without gradients; wanted were {wanted}")


def kernels_for(x: Tensor, parameters: Iterable[Tensor], *, name: str | None = None) -> Kernels:
    """The kernels for a pass over x with these parameters: those of training where any of them wants a gradient."""
    training = torch.is_grad_enabled() and (x.requires_grad or any(one.requires_grad for one in parameters))
    return choose_kernels(x.device, compute_dtype(x), training=training, name=name)


def describe_kernels(device: torch.device) -> dict[str, str]:
    """For each use on a device the name of the kernels.

    >>> describe_kernels(torch.device("cpu"))["training in bfloat16"]
    'cpu'
    """
    uses = {
        "reading": choose_kernels(device, torch.float32, training=False),
        "training in float32": choose_kernels(device, torch.float32, training=True),
        "training in bfloat16": choose_kernels(device, torch.bfloat16, training=True),
    }
    return {use: kernels.name for use, kernels in uses.items()}


def describe_native_kernels() -> str:
    """In which kinds of numbers the native CPU kernels compute here; where they cannot, why, and how to get them."""
    obstacles = {number.name.lower(): native_obstacle(number) for number in Number}
    usable = [name for name, obstacle in obstacles.items() if obstacle is None]
    if not usable:
        return str(obstacles["float32"])
    missing = [f"; not {name}: {obstacle}" for name, obstacle in obstacles.items() if obstacle is not None]
    return ", ".join(usable) + "".join(missing)


def native_runs_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the native CPU kernels can be used there; a compiled graph cannot look into them."""
    usable = device.type == "cpu" and dtype == torch.float32 and not torch.compiler.is_compiling()
    return usable and native_obstacle(Number.FLOAT32) is None


def triton_runs_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether Triton kernels can be used there."""
    return device.type == "cuda" and dtype in TRITON_DTYPES and importlib.util.find_spec("triton") is not None


def graphs_run_on(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether reading can be captured there: not inside of what somebody else captures or compiles."""
    if not triton_runs_on(device, dtype) or torch.compiler.is_compiling():
        return False
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return not (in_use and torch.cuda.is_current_stream_capturing())


@contextmanager
def _rounding_to_tf32() -> Iterator[None]:
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = True
    try:
        yield
    finally:
        matmul.allow_tf32 = before


@cache
def kernels_named(name: str) -> Kernels:
    """The kernels of a name; those of Triton are imported here, since not every machine has it."""
    torch_recurrence = recurrence_with(TORCH_CELL)
    match name:
        case "reference":
            return Kernels(name, reference.RECURRENCE, pool_by_convolution, softmax_)
        case "native" | "native-bfloat16" | "native-int8":
            number = NATIVE_NUMBERS[name]
            encoding = native_word_encoding(number)
            return Kernels(name, native_recurrence(number), pool_by_convolution, softmax_, word_encoding=encoding)
        case "torch" | "cpu":
            return Kernels(name, torch_recurrence, pool_by_length if name == "cpu" else pool_by_convolution, softmax_)
        case "native-training":
            recurrence = native_training_recurrence()
            return Kernels(name, recurrence, pool_by_table, softmax_, run_native_highway, differentiate_natively)
        case "packed":
            return Kernels(name, captured_recurrence(TORCH_READING_CELL), pool_by_convolution, softmax_)
        case "triton" | "triton-bfloat16" | "cuda-graphs" | "cuda-graphs-tf32":
            return _triton_kernels(name)
    raise InputError(f"there are no kernels {name!r}; there are {', '.join(KERNEL_NAMES)}")


def _pool_by_dtype(in_bfloat16: PoolCharacters, characters: Tensor, table: Tensor, filters: Filters) -> Tensor:
    pool = in_bfloat16 if compute_dtype(table) == torch.bfloat16 else pool_by_product
    return pool(characters, table, filters)


def _triton_kernels(name: str) -> Kernels:
    if importlib.util.find_spec("triton") is None:
        raise InputError(f"the kernels {name!r} need Triton, which torch brings along for NVIDIA GPUs on Linux")
    from elmore.kernels import triton_cell, triton_max_pooling, triton_reading_cell, triton_softmax

    pool_in_triton = partial(pool_by_product, pooling=triton_max_pooling.TRITON_MAX_POOLING)
    if name in CUDA_GRAPHS:
        captured = captured_recurrence(triton_reading_cell.TritonReadingCell())
        return Kernels(name, captured, partial(_pool_by_dtype, pool_in_triton), triton_softmax.softmax_)
    # In float32 the tiles of the character CNN's kernel would not fit into what a GPU has at hand.
    pool = pool_in_triton if name == "triton-bfloat16" else pool_by_product
    return Kernels(name, recurrence_with(triton_cell.TRITON_CELL), pool, triton_softmax.softmax_)
