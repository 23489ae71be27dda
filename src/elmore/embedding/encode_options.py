"""How sentences are encoded: the options of every `encode`, checked in one place."""

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch

from elmore.defaults import (
    DEFAULT_CARRY_BATCH_SIZE,
    DEFAULT_DTYPE,
    DEFAULT_LAYERS,
    DEFAULT_STATE,
    DtypeName,
    StateName,
)
from elmore.embedding.layer_choice import LayersArgument
from elmore.errors import InputError
from elmore.fields import check_value
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle

DtypeArgument = DtypeName | torch.dtype | np.dtype[Any] | type[np.floating[Any]]


@dataclass(frozen=True, kw_only=True)
class EncodeOptions:
    """Options that every way to encode shares; see `Embedder.encode`."""

    layers: LayersArgument = DEFAULT_LAYERS
    state: StateName = DEFAULT_STATE
    dtype: DtypeArgument = DEFAULT_DTYPE
    batch_tokens: int | None = None  # None: what suits the device
    batch_size: int | None = None
    token_style: TokenStyle = DEFAULT_TOKEN_STYLE

    def __post_init__(self) -> None:
        check_value("state", self.state, StateName)
        check_value("token_style", self.token_style, TokenStyle)
        dtype_name(self.dtype)
        if self.batch_tokens is not None:
            check_value("batch_tokens", self.batch_tokens, int, at_least=1)
        if self.batch_size is not None:
            check_value("batch_size", self.batch_size, int, at_least=1)

    @property
    def carried_rows(self) -> int | None:
        """How many rows carry their state from batch to batch, which decides the numbers; None: none does."""
        return (self.batch_size or DEFAULT_CARRY_BATCH_SIZE) if self.state == "carry" else None


def dtype_name(dtype: DtypeArgument) -> DtypeName:
    """The name of a type of numbers, however it was given.

    >>> dtype_name(np.float16), dtype_name(torch.float32), dtype_name("float16")
    ('float16', 'float32', 'float16')
    """
    name = str(dtype).removeprefix("torch.")
    for known in get_args(DtypeName):
        # NumPy's types compare equal to their names, its classes only by way of a dtype.
        if name == known or dtype == getattr(np, known):
            found: DtypeName = known
            return found
    raise InputError(f"dtype is {dtype!r}; it must be float32 or float16")
