"""A module and its optimizers as tensors by name, and back again: what a checkpoint holds.

model.…              the parameters
optimizer.0.3.…      what an optimizer remembers of one of its parameters

It does not say how many processes there were: another number of them can go on.
"""

from collections.abc import Mapping, Sequence

from torch import Tensor, as_tensor, nn
from torch.optim import Optimizer


def joint_state_dict(model: nn.Module, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    """All parameters, and all that the optimizers remember, under one set of names, on the CPU."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for place, optimizer in enumerate(optimizers):
        for number, values in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{place}.{number}.{name}": as_tensor(value) for name, value in values.items()}
    return {name: tensor.detach().cpu() for name, tensor in tensors.items()}


def load_joint_state_dict(model: nn.Module, optimizers: Sequence[Optimizer], tensors: Mapping[str, Tensor]) -> None:
    """Put everything back."""
    model.load_state_dict(_below("model.", tensors))
    for place, optimizer in enumerate(optimizers):
        states: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _below(f"optimizer.{place}.", tensors).items():
            number, field = name.split(".", 1)
            states.setdefault(int(number), {})[field] = tensor
        optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
