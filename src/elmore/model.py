"""A model: a checkpoint made into a network, ready to run, and back."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from elmore.config import ModelConfig
from elmore.errors import located
from elmore.formats import Checkpoint, Source, read_checkpoint, write_checkpoint
from elmore.formats.checkpoint import Card
from elmore.network.bilm import BiLM
from elmore.network.state import State
from elmore.sources import find
from elmore.text.batch import Batch
from elmore.text.spelling import Speller
from elmore.text.vocabulary import Vocabulary
