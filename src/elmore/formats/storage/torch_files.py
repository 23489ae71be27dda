"""Read a file that `torch.save` wrote as named NumPy arrays, without torch.

Both layouts are read: a zip archive with a pickle and a member for each storage; and, before PyTorch 1.6, five pickles
and then the storages. A pickle is a program, so `_PickleReader` interprets it and never calls a function that it names:
it only builds dictionaries, lists, tuples, numbers, strings and descriptions of tensors.

Files may be hostile. All sizes in a file must fit into the file, and time and memory are bounded by its size.
"""

import math
import pickletools
import struct
import zipfile
from collections.abc import Iterable, Mapping
from typing import IO, Any, BinaryIO, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from elmore.errors import ElmoreError, FormatError, error_context
from elmore.formats.storage.container import Container

T = TypeVar("T")
Array = NDArray[Any]

_ZIP = b"PK\x03\x04"
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # a pickle of the number that opens every file of the old layout
_MAX_STEPS = 1_000_000  # instructions of a pickle, and pairs that it copies; a state dict has 30 for each tensor
_MAX_TENSORS, _MAX_NAME = 100_000, 1_000  # tensors in a file, and characters in the dotted name of a tensor
_MAX_SHARING = 64  # values in all tensors for each stored value; tied weights occur several times in a state dict
_MAX_DIMENSIONS = 32
_MAX_KEY = 2**60  # as a key of a dictionary; larger integers can have equal hashes, which makes a dictionary very slow

_DTYPES = {
    "Float": "<f4",
    "Double": "<f8",
    "Half": "<f2",
    "BFloat16": "<u2",  # widened to float32 in the end, because NumPy has no bfloat16
    "Long": "<i8",
    "Int": "<i4",
    "Short": "<i2",
    "Char": "i1",
    "Byte": "u1",
    "Bool": "?",
}
# A file that was saved on a GPU names torch.cuda.
_STORAGES = {f"{module} {kind}Storage": kind for module in ("torch", "torch.cuda") for kind in _DTYPES}
_ORDERED_DICT, _SIZE = "collections OrderedDict", "torch Size"
_REBUILD_TENSOR = {"torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2"}
_REBUILD_PARAMETER = {
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_parameter_with_state",
    "torch.nn.parameter Parameter",
}
_NAMES = {_ORDERED_DICT, _SIZE} | _REBUILD_TENSOR | _REBUILD_PARAMETER | _STORAGES.keys()

# Exceptions that tests with damaged files raised.
_DAMAGE = (
    zipfile.BadZipFile,
    struct.error,
    RuntimeError,
    ValueError,
    LookupError,
    ArithmeticError,
    TypeError,
    AttributeError,
    EOFError,
    OSError,
    MemoryError,
)


class _Global(NamedTuple):
    """A function or class that a pickle names, as "module name"."""

    name: str


class _Storage(NamedTuple):
    """A sequence of numbers in the file, which one or more tensors share."""

    key: str
    kind: str  # a key of _DTYPES
    length: int  # in numbers

    @property
    def size(self) -> int:
        """In bytes."""
        return self.length * np.dtype(_DTYPES[self.kind]).itemsize

    def values(self, content: bytearray) -> Array:
        """The numbers, from the bytes in the file."""
        if len(content) != self.size:
            raise FormatError("a tensor and its values have different sizes; the file is damaged")
        values = np.frombuffer(content, _DTYPES[self.kind])
        return (values.astype(np.uint32) << 16).view(np.float32) if self.kind == "BFloat16" else values


class _Tensor(NamedTuple):
    """A tensor as a pickle describes it. Offset and strides count numbers of its storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def view(self, values: Array, name: str) -> Array:
        """The tensor as a view of the numbers of its storage."""
        if math.prod(self.shape) == 0:
            return np.empty(self.shape, values.dtype)
        end = self.offset + sum(stride * (length - 1) for length, stride in zip(self.shape, self.strides, strict=True))
        if math.prod(self.shape) > len(values) or end >= len(values):
            raise FormatError(f"{name} has shape {self.shape} and too few values for it; the file is damaged")
        strides = [stride * values.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(values[self.offset :], self.shape, strides)


class _BoundedFile:
    """A file for a pickle; a read never requests more than the file contains, so a wrong length costs no memory."""

    def __init__(self, file: Any, size: int) -> None:
        self._file, self._size = file, size
        self.readline = file.readline

    def read(self, size: int) -> bytes:
        content: bytes = self._file.read(min(size, self._size))
        return content


def load_tensors(container: Container, name: str) -> dict[str, Array]:
    """Read all tensors of a file; a tensor in nested dictionaries gets a dotted name. Arrays may share memory."""
    with error_context(name), container.open(name) as file:
        try:
            size = file.seek(0, 2)
            file.seek(0)
            start = file.read(len(_LEGACY))
            file.seek(0)
            if start.startswith(_ZIP):
                return _load_archive(file, size)
            if start == _LEGACY:
                return _load_legacy(file, size)
            raise FormatError("this is not a file that torch.save wrote, or its beginning is damaged")
        except ElmoreError:
            raise
        except _DAMAGE as error:
            reason = (str(error).splitlines() or [""])[0][:120]
            raise FormatError(f"cannot be read; the file is damaged ({type(error).__name__}: {reason})") from None


def _load_archive(file: BinaryIO, size: int) -> dict[str, Array]:
    with zipfile.ZipFile(file) as archive:
        members = {member.filename.partition("/")[2]: member for member in archive.infolist()}
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise FormatError("its members are compressed, which torch.save does not do; save the tensors again")
        if sum(member.file_size for member in archive.infolist()) > size:
            raise FormatError("the sizes of its members exceed the size of the file; the file is damaged")
        if damaged := archive.testzip():
            raise FormatError(f"its member {damaged} does not match its checksum; the file is damaged")
        if "constants.pkl" in members:
            raise FormatError("this is a TorchScript program; save model.state_dict() instead")
        if "byteorder" in members and archive.read(members["byteorder"]) != b"little":
            raise FormatError("it was saved on a big-endian machine, which is not supported")
        with archive.open(members["data.pkl"]) as pickled:
            tensors = _flatten(_PickleReader(pickled, size).read())
        values = {
            storage: storage.values(bytearray(archive.read(members[f"data/{storage.key}"])))
            for storage in {tensor.storage for tensor in tensors.values()}
        }
    return _views(tensors, values)


def _load_legacy(file: BinaryIO, size: int) -> dict[str, Array]:
    pickles = [_PickleReader(file, size) for _ in range(5)]
    _, _, machine, content, keys = (reader.read() for reader in pickles)
    if not machine["little_endian"]:
        raise FormatError("it was saved on a big-endian machine, which is not supported")
    values = {}
    for storage in [pickles[3].storages[key] for key in keys]:
        if struct.unpack("<q", file.read(8)) != (storage.length,):
            raise FormatError("a tensor and its values have different sizes; the file is damaged")
        if storage.size > size - file.tell():
            raise FormatError("its values end early; the file is cut short")
        values[storage] = storage.values(bytearray(file.read(storage.size)))
    if file.tell() != size:
        raise FormatError("the file contains more values than its tensors; the file is damaged")
    return _views(_flatten(content), values)


def _views(tensors: Mapping[str, _Tensor], values: Mapping[_Storage, Array]) -> dict[str, Array]:
    """The tensors as views of the values of their storages."""
    stored = sum(len(array) for array in values.values())
    if sum(math.prod(tensor.shape) for tensor in tensors.values()) > _MAX_SHARING * stored:
        raise FormatError(f"its tensors have more than {_MAX_SHARING} times the values that the file contains")
    return {name: tensor.view(values[tensor.storage], name) for name, tensor in tensors.items()}


def _flatten(content: object) -> dict[str, _Tensor]:
    """The tensors of a dictionary and of the dictionaries in it, by their dotted names."""
    if not isinstance(content, dict):
        kind = type(content).__name__.removeprefix("_")
        raise FormatError(f"it holds a {kind} where a dictionary of tensors was expected")
    tensors: dict[str, _Tensor] = {}
    waiting: list[tuple[str, dict[Any, Any]]] = [("", content)]
    seen = {id(content)}  # a pickle can make a dictionary that contains itself
    while waiting:
        prefix, mapping = waiting.pop()
        for key, value in mapping.items():
            name = f"{prefix}{key}"
            if len(name) > _MAX_NAME:
                raise FormatError(f"the name of a tensor is longer than {_MAX_NAME} characters; the file is damaged")
            if isinstance(value, _Tensor):
                tensors[name] = value
                if len(tensors) > _MAX_TENSORS:
                    raise FormatError(f"it contains more than {_MAX_TENSORS:,} tensors")
            elif isinstance(value, dict) and id(value) not in seen:
                seen.add(id(value))
                waiting.append((f"{name}.", value))
    return tensors


class _PickleReader:
    """Interprets one pickle, with the instructions and names that torch.save needs for a state dict, and no others."""

    def __init__(self, file: Any, size: int) -> None:
        self.storages: dict[str, _Storage] = {}  # every storage in the pickle, by its key
        self._file = cast(IO[bytes], _BoundedFile(file, size))
        self._steps = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []  # positions in the stack
        self._memo: dict[int, Any] = {}

    def read(self) -> Any:
        for instruction, argument, _ in pickletools.genops(self._file):
            self._count(1)
            self._run(instruction.name, argument)
        return self._stack.pop()

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MAX_STEPS:
            raise FormatError("its pickle is too long for a state dict")

    def _run(self, instruction: str, argument: Any) -> None:
        match instruction:
            case "PROTO" if argument != 2:
                raise FormatError(f"its pickle has protocol {argument}; torch.save writes 2 by default")
            case "PROTO" | "STOP":
                pass
            case "MARK":
                self._marks.append(len(self._stack))
            case "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = self._stack[-1]
            case "APPEND" | "APPENDS":
                items = self._pop(1 if instruction == "APPEND" else None)
                self._top(list).extend(items)
            case "SETITEM" | "SETITEMS":
                items = self._pop(2 if instruction == "SETITEM" else None)
                _set_items(self._top(dict), zip(items[::2], items[1::2], strict=True))
            case "BUILD":  # attributes of a dictionary: the versions of the modules in a state dict
                self._pop(1)
                self._top(dict)
            case _:
                self._stack.append(self._value(instruction, argument))

    def _value(self, instruction: str, argument: Any) -> object:
        """The value that an instruction puts on the stack."""
        value: object
        match instruction:
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT" | "BINUNICODE" | "SHORT_BINSTRING":
                value = argument
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                value = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[instruction]
            case "EMPTY_DICT":
                value = {}
            case "EMPTY_LIST":
                value = []
            case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                value = tuple(self._pop(("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3").index(instruction)))
            case "TUPLE":
                value = tuple(self._pop(None))
            case "BINGET" | "LONG_BINGET":
                value = self._memo[argument]
            case "BINPERSID":
                value = self._storage(*self._pop(1))
            case "REDUCE" | "NEWOBJ":
                value = self._build(*self._pop(2))
            case "GLOBAL" if argument in _NAMES:
                value = _Global(argument)
            case _:
                what = argument.replace(" ", ".")[:80] if instruction == "GLOBAL" else f"the instruction {instruction}"
                raise FormatError(
                    f"it holds {what}, not only tensors, and could not be read without running code from it; save "
                    "model.state_dict() with torch.save and load that"
                )
        return value

    def _pop(self, number: int | None) -> list[Any]:
        """Take this number of values off the stack; None: all from the last mark on."""
        position = self._marks.pop() if number is None else len(self._stack) - number
        if not 0 <= position <= len(self._stack):
            raise IndexError("its pickle takes more values than its stack has")
        items = self._stack[position:]
        del self._stack[position:]
        return items

    def _top(self, kind: type[T]) -> T:
        """The last value on the stack, which must be of this kind."""
        value = self._stack[-1]
        if not isinstance(value, kind):
            raise TypeError(f"found {type(value).__name__} where a {kind.__name__} was expected")
        return value

    def _storage(self, claim: object) -> _Storage:
        match claim:
            # In the old layout a sixth value follows, which is None since PyTorch 0.4 at the latest.
            case ("storage", _Global(name), str(key), _, int(length), *rest) if rest in ([], [None]) and length >= 0:
                storage = _Storage(key, _STORAGES[name], length)
                if self.storages.setdefault(key, storage) != storage:
                    raise ValueError("two tensors describe one storage differently")
                return storage
        raise TypeError("it refers to the values of a tensor in an unknown way")

    def _build(self, function: object, arguments: Any) -> object:
        """The result that a call of the named function would have."""
        match function, arguments:
            case _Global(name), () if name == _ORDERED_DICT:
                return {}
            case _Global(name), (list(pairs),) if name == _ORDERED_DICT:  # as Python 2 saved it
                self._count(len(pairs))  # one list can be copied any number of times
                return _set_items({}, pairs)
            case _Global(name), (tuple(sizes),) if name == _SIZE:
                return sizes
            case _Global(name), (_Tensor() as tensor, *_) if name in _REBUILD_PARAMETER:
                return tensor
            case _Global(name), (_Storage() as storage, offset, tuple(shape), tuple(strides), *_) if (
                name in _REBUILD_TENSOR
            ):
                if max(len(shape), len(strides)) > _MAX_DIMENSIONS:
                    raise ValueError(f"a tensor has more than {_MAX_DIMENSIONS} dimensions")
                if not all(type(number) is int and 0 <= number < 2**63 for number in (offset, *shape, *strides)):
                    raise ValueError("an offset, length or stride of a tensor is not an integer from 0 on")
                return _Tensor(storage, offset, shape, strides)
        raise TypeError("a tensor or dictionary is described in a way that torch.save does not use")


def _set_items(target: dict[Any, Any], items: Iterable[Any]) -> dict[Any, Any]:
    for key, value in items:
        if not isinstance(key, str | int | float | None):  # computing the hash of other types could overflow the stack
            raise TypeError(f"a dictionary has a {type(key).__name__} as a key")
        if isinstance(key, int) and abs(key) > _MAX_KEY:
            raise ValueError("a dictionary has a very large integer as a key")
        target[key] = value
    return target
