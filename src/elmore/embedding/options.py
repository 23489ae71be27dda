"""The options of inference: one record for `encode`, `embed_file`, the command line, tasks, scoring and export."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, SupportsIndex, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from elmore.defaults import (
    DEFAULT_CARRY_BATCH_SIZE,
    DEFAULT_COMPUTE,
    DEFAULT_DTYPE,
    DEFAULT_LAYERS,
    DEFAULT_STATE,
    ComputeName,
    DtypeName,
    EngineName,
    StateName,
)
from elmore.engine.open_engine import AUTO, resolve_device
from elmore.errors import InputError
from elmore.fields import check_value
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle

LayersArgument = str | SupportsIndex | Sequence[SupportsIndex] | slice | NDArray[np.integer[Any]]
# A name, a NumPy type, or a torch type, which prints as "torch.float32".
DtypeArgument = Any


class EncodeArguments(TypedDict, total=False):
    """The options of one call of `encode`: the fields of `InferenceOptions` that an open engine leaves free."""

    layers: LayersArgument
    state: StateName
    dtype: DtypeArgument
    batch_tokens: int | None
    batch_size: int | None
    token_style: TokenStyle


class EngineArguments(TypedDict, total=False):
    """The options that open an engine."""

    compute: ComputeName
    device: object
    batch_invariant: bool
    engine: EngineName | None


class InferenceArguments(EncodeArguments, EngineArguments, total=False):
    """All fields of `InferenceOptions`."""


@dataclass(frozen=True, kw_only=True)
class InferenceOptions:
    """How sentences become vectors."""

    layers: LayersArgument = DEFAULT_LAYERS  # "average", "top", "all", a number, or several numbers
    state: StateName = DEFAULT_STATE  # "fixed": each sentence from the start state; "carry": rows continue
    dtype: DtypeArgument = DEFAULT_DTYPE  # of the results
    compute: ComputeName = DEFAULT_COMPUTE  # of matrix products
    device: object = AUTO
    batch_tokens: int | None = None  # computed at once, boundaries included; None: what suits the engine
    batch_size: int | None = None  # rows at once
    batch_invariant: bool = False  # on a GPU: bit-identical vectors in every batch
    engine: EngineName | None = None  # by name; None: by device and compute
    token_style: TokenStyle = DEFAULT_TOKEN_STYLE  # of sentences given as lists of tokens

    def __post_init__(self) -> None:
        check_value("state", self.state, StateName)
        check_value("compute", self.compute, ComputeName)
        check_value("token_style", self.token_style, TokenStyle)
        check_value("batch_invariant", self.batch_invariant, bool)
        if self.engine is not None:
            check_value("engine", self.engine, EngineName)
        dtype_name(self.dtype)
        for name in ("batch_tokens", "batch_size"):
            if (value := getattr(self, name)) is not None:
                # As a plain int: the description of a job is written as JSON.
                object.__setattr__(self, name, check_value(name, value, int, at_least=1))

    def engine_arguments(self) -> EngineArguments:
        """The options that open an engine."""
        return {
            "compute": self.compute,
            "device": self.device,
            "batch_invariant": self.batch_invariant,
            "engine": self.engine,
        }

    @property
    def changed_engine_options(self) -> dict[str, object]:
        """The options of an engine that differ from the defaults."""
        default = InferenceOptions()
        names = [name for name in EngineArguments.__annotations__ if getattr(self, name) != getattr(default, name)]
        return {name: getattr(self, name) for name in names}

    @property
    def numpy_dtype(self) -> type[np.floating[Any]]:
        """The type of the results."""
        return np.float16 if dtype_name(self.dtype) == "float16" else np.float32

    @property
    def carried_rows(self) -> int | None:
        """The rows of a batch with `state="carry"`, which decide the vectors; None for other states."""
        return (self.batch_size or DEFAULT_CARRY_BATCH_SIZE) if self.state == "carry" else None


def check_engine_options(requested: Mapping[str, object], **opened: Unpack[EngineArguments]) -> None:
    """Raise InputError if a requested option differs from the option with which an engine was opened.

    A missing option agrees with every engine, and so does the device "auto".
    """
    for name, own in opened.items():
        wanted = requested.get(name, own)
        if name == "device":
            wanted = own if wanted in (None, AUTO) else resolve_device(wanted)
        if wanted != own:
            raise InputError(
                f"{name} is {wanted!r}, and this model was opened with {own!r}; "
                f"open another one: from_pretrained(..., {name}={wanted!r})"
            )


def dtype_name(dtype: DtypeArgument) -> DtypeName:
    """The name of a type of numbers.

    >>> dtype_name(np.float16), dtype_name(np.dtype("float32")), dtype_name("float16")
    ('float16', 'float32', 'float16')
    """
    name = str(dtype).removeprefix("torch.")
    for known in get_args(DtypeName):
        # NumPy's types compare equal to their names, its classes only by way of a dtype.
        if name == known or dtype == getattr(np, known):
            found: DtypeName = known
            return found
    raise InputError(f"dtype is {dtype!r}; it must be float32 or float16")


@dataclass(frozen=True)
class LayerSelection:
    """The layers to return; `averaged` returns their mean, one vector for each word."""

    indices: tuple[int, ...]
    averaged: bool

    @classmethod
    def parse(cls, layers: LayersArgument, *, num_layers: int) -> "LayerSelection":
        """Parse `"average"`, `"top"`, `"all"`, a number, or several: a list, a range, an array, a slice.

        Negative numbers count from the top.

        >>> LayerSelection.parse(-1, num_layers=3)
        LayerSelection(indices=(2,), averaged=True)
        >>> LayerSelection.parse([0, 2], num_layers=3)
        LayerSelection(indices=(0, 2), averaged=False)
        """
        every = tuple(range(num_layers))
        if isinstance(layers, str) and layers in ("average", "top"):
            return cls(every[-1:] if layers == "top" else every, averaged=True)
        chosen = slice(None) if isinstance(layers, str) and layers == "all" else layers
        if isinstance(chosen, slice) and every[chosen]:
            return cls(every[chosen], averaged=False)
        numbers, single = _numbers(layers)
        if not numbers or not all(-num_layers <= number < num_layers for number in numbers):
            raise InputError(
                f"layers is {layers!r}; this model has layers 0 to {num_layers - 1}: "
                "give 'average', 'top', 'all', a number, or several numbers"
            )
        return cls(tuple(number % num_layers for number in numbers), single)

    @property
    def depth(self) -> int:
        """How many LSTM layers have to run."""
        return max(self.indices)

    @property
    def name(self) -> str | int | list[int]:
        """One spelling of each selection, in plain JSON values: `"top"`, `-1` and `2` are the same layer of three."""
        if not self.averaged:
            return list(self.indices)
        return self.indices[0] if len(self.indices) == 1 else "average"


def _numbers(layers: object) -> tuple[list[int], bool]:
    """The layer numbers, none if there is anything else; and whether a single number was given."""
    several = isinstance(layers, Iterable) and not isinstance(layers, str) and getattr(layers, "ndim", 1) > 0
    numbers: list[Any] = list(layers) if several else [layers]  # type: ignore[call-overload]
    if any(isinstance(number, bool | np.bool_) for number in numbers):
        return [], False
    try:
        return [index(number) for number in numbers], not several
    except TypeError:
        return [], False
