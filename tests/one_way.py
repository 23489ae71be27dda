"""One direction of a model that reads both ways, as a model of its own."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from elmore.config import Direction
from elmore.model import Model
from elmore.network.bilm import BiLM
from elmore.network.state import State

DIRECTIONS: tuple[Direction, ...] = ("forward", "backward")


def one_way(model: Model, direction: Direction) -> Model:
    """The same weights and start state, less those of the other direction; all that is said of it must stay true."""
    network = one_way_network(model.network, direction)
    return replace(model, network=network, start=one_way_state(model.start, direction))


def one_way_network(network: BiLM, direction: Direction) -> BiLM:
    alone = BiLM(replace(network.config, reads=direction)).to(next(network.parameters()).dtype).requires_grad_(False)
    alone.load_state_dict(one_way_tensors(network.state_dict(), direction))
    return alone


def one_way_state(state: State, direction: Direction) -> State:
    place = [DIRECTIONS.index(direction)]
    return State(state.h[:, place], state.c[:, place])


def one_way_tensors(tensors: Mapping[str, Tensor], direction: Direction) -> dict[str, Tensor]:
    """Of a biLM, with or without its softmax: words and softmax are shared, every tensor of the LSTM is cut."""
    place = torch.tensor([DIRECTIONS.index(direction)])
    return {name: tensor[place] if "lstm." in name else tensor for name, tensor in tensors.items()}
