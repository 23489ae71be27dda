"""A model that computes in another kind of number, for speed; what goes in and comes out stays float32."""

import copy
from dataclasses import replace

import torch

from elmore.defaults import ComputeName
from elmore.errors import InputError
from elmore.kernels.native_library import Number, native_obstacle
from elmore.model import Model


def model_computing_in(compute: ComputeName, model: Model) -> Model:
    """The model for this kind of number; the caller's own stays as it is.

    On a CPU the native kernels round the numbers that they multiply, and share the weights. Elsewhere, and where there
    are no native kernels for it, bfloat16 is what the whole network is converted to; int8 is theirs alone. TF32 is how
    an NVIDIA GPU rounds what it multiplies.
    """
    if compute == "float32":
        return model
    if compute == "tf32":
        if model.device.type != "cuda":
            raise InputError(
                f"compute='tf32' is how NVIDIA GPUs multiply, and the model is on {model.device.type}; there are "
                "float32, bfloat16 and, on a CPU, int8"
            )
        return _with_kernels("cuda-graphs-tf32", model)
    obstacle = "it runs on a CPU only" if model.device.type != "cpu" else native_obstacle(Number[compute.upper()])
    if obstacle is None:
        return _with_kernels(f"native-{compute}", model)
    if compute == "int8":
        raise InputError(
            f"compute='int8' is done by the native CPU kernels: {obstacle}; there are float32 and bfloat16"
        )
    network = copy.deepcopy(model.network).bfloat16()
    network.use_kernels(None)
    return replace(model, network=network, start=model.start.to(torch.bfloat16))


def _with_kernels(name: str, model: Model) -> Model:
    # Of the copy only the modules are new: its parameters are the caller's.
    network = copy.deepcopy(model.network, {id(tensor): tensor for tensor in model.network.parameters()})
    network.use_kernels(name)
    return replace(model, network=network)
