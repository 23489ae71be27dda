"""Engines under observation: a proxy passes all calls on to an engine, and tests change what they need."""

from typing import Any

import numpy as np
import pytest

from elmore.engine import open_engine
from elmore.engine.engine import Engine
from elmore.engine.native_library import Precision, why_unavailable
from elmore.model import Model

# The GPU engine runs in plain torch on a CPU.
ENGINES = ["native", "numpy", "gpu"]


class EngineProxy:
    """All attributes are those of the engine, except the ones that a subclass defines."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def engine_named(name: Any, model: Model) -> Engine:
    """An engine on the CPU; the test is skipped where it is not available."""
    if name == "native" and (reason := why_unavailable(Precision.FLOAT32)):
        pytest.skip(f"native engine: {reason}")
    return open_engine(model.checkpoint, device="cpu", engine=name)


def vectors_alone(engine: Engine, model: Model, sentence: list[str]) -> list[np.ndarray]:
    """All layers (K, dim) of one sentence in a pack of its own, without a word store."""
    from elmore.engine.rows import PackedRows

    table = engine.encode_words(model.word_indexer.index([model.config.bos_token, model.config.eos_token, *sentence]))
    words, lengths = np.arange(2, 2 + len(sentence)), np.array([len(sentence)])
    rows = PackedRows.pack(words, lengths, boundaries=(0, 1), rows=1)
    layers, _ = engine.run(table, rows, model.start)
    return [engine.fetch(layers.layer(number))() for number in range(len(layers))]
