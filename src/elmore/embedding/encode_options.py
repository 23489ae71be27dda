"""How sentences are encoded: the options of every `encode`, checked in one place."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch

from elmore.defaults import DEFAULT_BATCH_TOKENS, DEFAULT_CARRY_BATCH_SIZE
from elmore.embedding.layer_choice import LayersArgument
from elmore.errors import InputError
from elmore.text.style import TOKEN_STYLES, TokenStyle

StateName = Literal["fixed", "carry"]
DtypeName = Literal["float32", "float16"]
DtypeArgument = DtypeName | torch.dtype | np.dtype[Any] | type[np.floating[Any]]


@dataclass(frozen=True, kw_only=True)
class EncodeOptions:
    """Options that every way to encode shares; see `Embedder.encode`."""

    layers: LayersArgument = "average"
    state: StateName = "fixed"
    dtype: DtypeArgument = "float32"
    batch_tokens: int = DEFAULT_BATCH_TOKENS
    batch_size: int | None = None
    token_style: TokenStyle = "moses"

    def __post_init__(self) -> None:
        if self.state not in get_args(StateName):
            raise InputError(f"state is {self.state!r}; it must be 'fixed' or 'carry'")
        dtype_name(self.dtype)
        if self.token_style not in TOKEN_STYLES:
            raise InputError(f"token_style is {self.token_style!r}; it must be {' or '.join(TOKEN_STYLES)}")
        for name, number in (("batch_tokens", self.batch_tokens), ("batch_size", self.batch_size)):
            if number is not None and (type(number) is not int or number < 1):
                raise InputError(f"{name} is {number!r}; it must be a whole number, at least 1")

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
