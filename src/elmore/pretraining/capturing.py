"""All that changes in a training, as tensors by name, and back again: what a checkpoint holds.

    model.…              the parameters
    optimizer.0.3.…      what an optimizer remembers of one of its parameters
    state.h, state.c     what the rows of all processes carry on

It does not say how many processes there were: another number of them can go on.
"""

from collections.abc import Mapping

from torch import Tensor, as_tensor

from elmore.pretraining.stepping import Stepper
from elmore.training.distributed import Team


def capture(stepper: Stepper, team: Team) -> dict[str, Tensor]:
    """Everything, on the CPU; all processes must ask, for each has its own rows."""
    tensors = {f"model.{name}": tensor for name, tensor in stepper.model.state_dict().items()}
    for place, optimizer in enumerate(stepper.optimizers):
        for number, values in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{place}.{number}.{name}": as_tensor(value) for name, value in values.items()}
    tensors["state.h"] = team.gather(stepper.state.h, dim=2)
    tensors["state.c"] = team.gather(stepper.state.c, dim=2)
    return {name: tensor.detach().cpu() for name, tensor in tensors.items()}


def restore(stepper: Stepper, tensors: Mapping[str, Tensor], team: Team) -> None:
    """Put everything back; each process takes its own rows."""
    stepper.model.load_state_dict(_below("model.", tensors))
    for place, optimizer in enumerate(stepper.optimizers):
        states: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _below(f"optimizer.{place}.", tensors).items():
            number, field = name.split(".", 1)
            states.setdefault(int(number), {})[field] = tensor
        optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
    share = stepper.state.rows
    own = slice(team.rank * share, (team.rank + 1) * share)
    # Into the tensors that are there: on a GPU they are part of captured graphs.
    stepper.state.h.copy_(tensors["state.h"][:, :, own])
    stepper.state.c.copy_(tensors["state.c"][:, :, own])


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
