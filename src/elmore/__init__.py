"""ELMo, deep contextualized word vectors: any model in, the same vectors out, every time.

>>> from elmore import Embedder
>>> model = Embedder.from_pretrained("tiny-random")
>>> model.encode("I took a bow.").shape  # five words, one vector each
(5, 32)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmore.version import __version__

if TYPE_CHECKING:
    from elmore.config import ModelConfig
    from elmore.embedding.elmo import Elmo
    from elmore.embedding.embed_file import embed_file
    from elmore.embedding.embedder import Embedder
    from elmore.embedding.vectors import open_vectors
    from elmore.errors import ElmoreError
    from elmore.model import Model, load
    from elmore.network.mix import LayerMix

__all__ = [
    "Elmo",
    "ElmoreError",
    "Embedder",
    "LayerMix",
    "Model",
    "ModelConfig",
    "__version__",
    "embed_file",
    "load",
    "open_vectors",
]

# Loaded on first use: importing elmore takes milliseconds and does not import torch.
_HOMES = {
    "Elmo": "elmore.embedding.elmo",
    "ElmoreError": "elmore.errors",
    "Embedder": "elmore.embedding.embedder",
    "LayerMix": "elmore.network.mix",
    "Model": "elmore.model",
    "ModelConfig": "elmore.config",
    "embed_file": "elmore.embedding.embed_file",
    "load": "elmore.model",
    "open_vectors": "elmore.embedding.vectors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'elmore' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
