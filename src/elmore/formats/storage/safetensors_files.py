"""Named tensors in a safetensors file: float32 numbers, all of them finite, or int8 with finite scales.

Who reads one may allow other kinds of numbers, such as float16.
"""

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from safetensors.torch import load
from torch import Tensor

from elmore.errors import FormatError, error_context
from elmore.formats.storage.archives import explain_read_errors
from elmore.formats.storage.container import Container
from elmore.formats.storage.int8 import Int8Tensor, StoredTensor, dequantize, pack, unpack
from elmore.formats.storage.tensor_checks import check_finite

FLOAT32 = (torch.float32,)


def read_tensors(container: Container, name: str, *, kinds: Collection[torch.dtype] = FLOAT32) -> dict[str, Tensor]:
    """All tensors of a file, in float32, whichever of the `kinds` they are stored as."""
    return {
        key: tensor.float() for key, tensor in dequantize(read_stored_tensors(container, name, kinds=kinds)).items()
    }


def read_stored_tensors(
    container: Container, name: str, *, kinds: Collection[torch.dtype] = FLOAT32
) -> dict[str, StoredTensor]:
    """All tensors of a file, as they are stored: those of int8, and others of these `kinds`."""
    with explain_read_errors(name), error_context(name):
        tensors = unpack(_load(container, name))
        for key, tensor in tensors.items():
            if isinstance(tensor, Int8Tensor):
                check_finite(key, 127 * tensor.scale)
                continue
            if tensor.dtype not in kinds:
                needed = " or ".join(str(kind).removeprefix("torch.") for kind in kinds)
                raise FormatError(f"{key} holds {tensor.dtype}; {needed} is needed")
            check_finite(key, tensor)
        return tensors


def write_tensors(tensors: Mapping[str, StoredTensor], path: Path) -> None:
    path.touch()
    usual = path.stat().st_mode
    # Through NumPy, which does not mind tensors that share their memory.
    arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in pack(tensors).items()}
    try:
        save_file(arrays, path)
    except SafetensorError as error:
        # A full disk, say: the library hides the system's error in its own, and nobody could explain that.
        if found := re.search(r"(?:os error|code:) (\d+)", str(error)):
            raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from error
        raise
    # The library makes files that only their owner may read; a model is to be shared.
    path.chmod(usual)


def _load(container: Container, name: str) -> dict[str, Tensor]:
    path = container.path(name)
    try:
        if path is None:
            return load(container.read(name))
        with safe_open(path, framework="pt") as file:
            keys = list(file.keys())
        return {key: _read_tensor(path, key) for key in keys}
    except SafetensorError as error:
        raise FormatError(f"damaged, or no safetensors file ({error}); fetch it again") from None


def _read_tensor(path: Path, key: str) -> Tensor:
    # Opened for each one: what is read of a file stays in memory until it is closed: all of it twice.
    with safe_open(path, framework="pt") as file:
        tensor: Tensor = file.get_tensor(key)
        # Copied, because what it gives changes when the file does.
        return tensor.clone()
