"""Read a file that `torch.save` wrote as named tensors, and nothing else.

Both of torch's layouts are read: a few pickles, then the values (before PyTorch 1.6); and a zip archive, the values in
members of their own. A pickle is a program, so the file is looked through before `torch.load` may have it: it may only
speak of tensors and ordered dictionaries, and what it claims must fit into the file. `weights_only=True` then sees to
it a second time that nothing of the file is run.
"""

import pickle
import pickletools
import struct
import warnings
import zipfile
from collections import Counter
from collections.abc import Mapping
from typing import Any, BinaryIO

import torch
from torch import Tensor

from elmore.errors import ElmoreError, FormatError, error_context
from elmore.formats.storage.container import Container

_ZIP = b"PK\x03\x04"
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # a pickle of the number that opens every file of the old layout

_NAMES = {"collections OrderedDict", "torch.nn.parameter Parameter"} | {
    f"torch._utils {function}"
    for function in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter", "_rebuild_parameter_with_state")
}
_STORAGES = {
    f"{module} {kind}Storage"
    for module in ("torch", "torch.cuda")  # a file saved on a GPU names that; map_location brings it home
    for kind in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
}
_MAX_OPCODES = 10_000_000

# What torch.load and pickletools were seen to raise on damaged files.
_DAMAGE = (
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    struct.error,
    RuntimeError,
    ValueError,
    LookupError,
    ArithmeticError,
    TypeError,
    AttributeError,
    AssertionError,
    EOFError,
    OSError,
    MemoryError,
    SystemError,
)


def load_tensors(container: Container, name: str) -> dict[str, Tensor]:
    """All tensors of a torch file, on the CPU; those of dictionaries in dictionaries get dotted names."""
    # Warnings are for those who write such files; what a reader must know becomes an error.
    with error_context(name), container.open(name) as file, warnings.catch_warnings(action="ignore"):
        try:
            return _load(file)
        except ElmoreError:
            raise
        except _DAMAGE as error:
            reason = (str(error).splitlines() or [""])[0][:120]
            raise FormatError(f"torch cannot read it; the file is damaged ({type(error).__name__}: {reason})") from None


def _load(file: BinaryIO) -> dict[str, Tensor]:
    size = file.seek(0, 2)
    file.seek(0)
    start = file.read(len(_LEGACY))
    file.seek(0)
    if start.startswith(_ZIP):
        records = _scan_archive(file, size)
    elif start == _LEGACY:
        records = None
        for _ in range(5):  # the magic number, the version, the machine, the object, the order of the values
            _scan_pickle(file, size)
    else:
        raise FormatError("this is not a file that torch.save wrote, or its beginning is damaged")
    file.seek(0)
    content = torch.load(file, map_location="cpu", weights_only=True)
    if records is None and file.seek(0, 1) != size:
        raise FormatError("some of its values belong to no tensor; the file is damaged")
    tensors = _flattened(content)
    _check_storages(tensors, records)
    return tensors


def _scan_archive(file: BinaryIO, size: int) -> Counter[int]:
    """Check a zip archive, and give the sizes of its members with values."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise FormatError("its members are compressed; torch.save stores them plain: unpack it, or save it again")
        if sum(member.file_size for member in members) > size:
            raise FormatError("its members claim more bytes than the file has; the file is damaged")
        if damaged := archive.testzip():
            raise FormatError(f"its member {damaged} does not match its checksum; the file is damaged")
        for member in members:
            match member.filename.partition("/")[2]:
                case "constants.pkl":
                    raise FormatError("this is a TorchScript program; save model.state_dict() instead")
                case "byteorder" if archive.read(member) != b"little":
                    raise FormatError("it was saved on a big-endian machine, which is not supported")
                case "data.pkl":
                    with archive.open(member) as pickled:
                        _scan_pickle(pickled, size)
        return Counter(member.file_size for member in members if "/data/" in member.filename)


def _scan_pickle(file: Any, size: int) -> None:
    number = 0
    for count, (instruction, argument, _) in enumerate(pickletools.genops(file)):
        if count > _MAX_OPCODES:
            raise FormatError("its pickle is too long for a state dict")
        if instruction.name == "PROTO" and argument != 2:
            raise FormatError(f"its pickle has protocol {argument}; torch.save writes 2, unless told otherwise")
        if instruction.name in ("GLOBAL", "INST", "STACK_GLOBAL") and argument not in _NAMES | _STORAGES:
            raise FormatError(
                f"it holds {str(argument).replace(' ', '.')[:80]}, not only tensors, and could not be read without "
                "running code from it; save model.state_dict() with torch.save and load that"
            )
        if isinstance(argument, int):
            number = argument
        if instruction.name == "BINPERSID" and not 0 <= number <= size:
            raise FormatError(f"a tensor claims {number} values and the file has {size} bytes; the file is damaged")


def _flattened(content: object) -> dict[str, Tensor]:
    if not isinstance(content, Mapping):
        raise FormatError(f"it holds a {type(content).__name__} where a dictionary of tensors was expected")
    tensors: dict[str, Tensor] = {}
    waiting: list[tuple[str, Mapping[Any, Any]]] = [("", content)]
    seen = {id(content)}  # a pickle can make a dictionary that contains itself
    while waiting:
        prefix, mapping = waiting.pop()
        for key, value in mapping.items():
            if isinstance(value, Tensor):
                tensors[f"{prefix}{key}"] = value.detach()
            elif isinstance(value, Mapping) and id(value) not in seen:
                seen.add(id(value))
                waiting.append((f"{prefix}{key}.", value))
    return tensors


def _check_storages(tensors: Mapping[str, Tensor], records: Counter[int] | None) -> None:
    for name, tensor in tensors.items():
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise FormatError(f"{name} has shape {tuple(tensor.shape)} and too few values for it; the file is damaged")
    if records is not None:
        # Some versions of torch believe a pickle that claims more bytes than a member has, and read foreign memory.
        storages = {tensor.untyped_storage() for tensor in tensors.values()}
        if not Counter(storage.nbytes() for storage in storages) <= records:
            raise FormatError("a tensor claims another size than its values have; the file is damaged")
