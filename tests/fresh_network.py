"""A network with first values, as training begins from."""

import torch

from elmore.config import ModelConfig
from elmore.nn.bilm import BiLM
from elmore.nn.language_model import initialize


def fresh_network(config: ModelConfig, *, seed: int = 1) -> BiLM:
    network = BiLM(config)
    initialize(network, torch.Generator().manual_seed(seed))
    return network
