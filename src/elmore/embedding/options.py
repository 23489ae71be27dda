"""The options of inference: one record for `encode`, `embed_file`, the command line, tasks, scoring and export."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, TypedDict, Unpack, get_args

from elmore.defaults import (
    DEFAULT_BATCH_TOKENS,
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
from elmore.errors import InputError
from elmore.fields import check_value
from elmore.text.style import DEFAULT_TOKEN_STYLE, TOKEN_STYLES, TokenStyle

# NumPy is imported late: the command line builds its options from this record.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LayersArgument: TypeAlias = "str | SupportsIndex | Sequence[SupportsIndex] | slice | NDArray[np.integer[Any]]"
# A name, a NumPy type, or a torch type, which prints as "torch.float32".
DtypeArgument = Any


class EncodeArguments(TypedDict, total=False):
    """The options of one call of `encode`; see `InferenceOptions`."""

    layers: LayersArgument
    state: StateName
    dtype: DtypeArgument
    batch_tokens: int | None
    batch_size: int | None
    token_style: TokenStyle


class EngineArguments(TypedDict, total=False):
    """The options that open an engine; see `InferenceOptions`."""

    compute: ComputeName
    device: object
    batch_invariant: bool
    engine: EngineName | None


class InferenceArguments(EncodeArguments, EngineArguments, total=False):
    """All fields of `InferenceOptions`."""


@dataclass(frozen=True, kw_only=True)
class InferenceOptions:
    """How sentences become vectors. Each `help` is a help text of the command line."""

    layers: LayersArgument = field(
        default=DEFAULT_LAYERS, metadata={"help": "average, top, all, a number, or several: 0,2."}
    )
    state: StateName = field(
        default=DEFAULT_STATE,
        metadata={
            "help": "fixed: each sentence starts from the model's start state. carry: each row starts where it ended "
            f"in the previous batch, of {DEFAULT_CARRY_BATCH_SIZE} sentences or --batch-size."
        },
    )
    dtype: DtypeArgument = field(default=DEFAULT_DTYPE, metadata={"help": "Type of the vectors: float32, float16."})
    compute: ComputeName = field(
        default=DEFAULT_COMPUTE,
        metadata={
            "help": "Type of matrix products: float32, or faster and less exact: bfloat16 (about 3 digits), on a CPU "
            "int8 (about 2 digits), on an NVIDIA GPU tf32 (about 4 digits)."
        },
    )
    device: object = field(
        default="auto", metadata={"help": "cpu, cuda, cuda:1, mps; auto is a GPU if there is one, else the CPU."}
    )
    batch_tokens: int | None = field(
        default=None,
        metadata={"help": f"Words computed at once, padding included: {DEFAULT_BATCH_TOKENS}; more on a GPU."},
    )
    batch_size: int | None = field(default=None, metadata={"help": "Sentences computed side by side, at most."})
    batch_invariant: bool = field(
        default=False, metadata={"help": "On a GPU: bit-identical vectors in every batch, more slowly."}
    )
    engine: EngineName | None = field(
        default=None, metadata={"help": "native, numpy or gpu; by default chosen by device and compute."}
    )
    token_style: TokenStyle = field(
        default=DEFAULT_TOKEN_STYLE,
        metadata={
            "help": f"Convention of tokenized input: {', '.join(TOKEN_STYLES)}. Tokens of another convention than "
            "moses (do n't, -LRB-) are converted to the model's words."
        },
    )

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
        return {
            option.name: getattr(self, option.name)
            for option in fields(self)
            if option.name in EngineArguments.__annotations__ and getattr(self, option.name) != option.default
        }

    @property
    def numpy_dtype(self) -> "type[np.floating[Any]]":
        """The type of the results."""
        import numpy as np

        return np.float16 if dtype_name(self.dtype) == "float16" else np.float32

    @property
    def carried_rows(self) -> int | None:
        """The rows of a batch with `state="carry"`, which decide the vectors; None for other states."""
        return (self.batch_size or DEFAULT_CARRY_BATCH_SIZE) if self.state == "carry" else None


def check_engine_options(requested: Mapping[str, object], **opened: Unpack[EngineArguments]) -> None:
    """Raise InputError if a requested option differs from the option with which an engine was opened.

    A missing option agrees with every engine, and so does the device "auto".
    """
    from elmore.engine.open_engine import AUTO, resolve_device

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

    >>> import numpy as np
    >>> dtype_name(np.float16), dtype_name(np.dtype("float32")), dtype_name("float16")
    ('float16', 'float32', 'float16')
    """
    name = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")  # a class of NumPy has its name
    for known in get_args(DtypeName):
        if name == known:
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


def parse_layers(text: str) -> str | int | list[int]:
    """The layers in a text, as `Embedder.encode` accepts them: a word, a number, or several numbers.

    >>> parse_layers("top"), parse_layers("-1"), parse_layers("0,2")
    ('top', -1, [0, 2])
    """
    if text in ("all", "top", "average"):
        return text
    if not re.fullmatch(r"-?\d+(,-?\d+)*", text):
        raise InputError(f"--layers is {text!r}; give all, top, average, a number, or several as in 0,2")
    numbers = [int(number) for number in text.split(",")]
    return numbers[0] if len(numbers) == 1 else numbers


def _numbers(layers: object) -> tuple[list[int], bool]:
    """The layer numbers, empty if there is anything else; and whether a single number was given."""
    several = isinstance(layers, Iterable) and not isinstance(layers, str) and getattr(layers, "ndim", 1) > 0
    numbers: list[Any] = list(layers) if several else [layers]  # type: ignore[call-overload]
    # Python's truth values are numbers too; NumPy's are not.
    if any(isinstance(number, bool) for number in numbers):
        return [], False
    try:
        return [index(number) for number in numbers], not several
    except TypeError:
        return [], False
