"""One direction of a bidirectional model, as a model of its own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from elmore.config import Direction
from elmore.engine.state import State
from elmore.model import Model
from elmore.nn.bilm import BiLM, StateTensors

T = TypeVar("T", Tensor, np.ndarray[Any, Any])
S = TypeVar("S", State, StateTensors)

DIRECTIONS: tuple[Direction, ...] = ("forward", "backward")


def one_way(model: Model, direction: Direction) -> Model:
    """The model with the weights and the start state of one direction."""
    checkpoint = model.checkpoint
    config = replace(checkpoint.config, directions=direction)
    tensors = one_way_tensors(checkpoint.float_arrays(), direction)
    start = checkpoint.start and {
        name: part[:, [DIRECTIONS.index(direction)]] for name, part in checkpoint.start.items()
    }
    return Model(replace(checkpoint, config=config, tensors=tensors, start=start))


def one_way_network(network: BiLM, direction: Direction) -> BiLM:
    alone = (
        BiLM(replace(network.config, directions=direction)).to(next(network.parameters()).dtype).requires_grad_(False)
    )
    alone.load_state_dict(one_way_tensors(network.state_dict(), direction))
    return alone


def one_way_state(state: S, direction: Direction) -> S:
    index = [DIRECTIONS.index(direction)]
    return type(state)(state.h[:, index], state.c[:, index])


def one_way_tensors(tensors: Mapping[str, T], direction: Direction) -> dict[str, T]:
    """Torch tensors or arrays of a biLM: LSTM tensors for one direction only, all others unchanged."""
    index = [DIRECTIONS.index(direction)]
    return {name: tensor[index] if "lstm." in name else tensor for name, tensor in tensors.items()}
