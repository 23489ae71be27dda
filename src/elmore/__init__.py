"""ELMo, deep contextualized word vectors: any model in, the same vectors out, every time.

>>> from elmore import Embedder
>>> model = Embedder.from_pretrained("tiny-random")
>>> model.encode("I took a bow.").shape  # five words, one vector each
(5, 32)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmore import forks as _forks  # noqa: F401  # it records forks of this process
from elmore.version import __version__

if TYPE_CHECKING:
    from elmore import errors, tasks
    from elmore.config import ModelConfig
    from elmore.corpus.corpus import Corpus
    from elmore.corpus.prepare import prepare
    from elmore.embedding.embed_file import embed_file
    from elmore.embedding.embedder import Embedder
    from elmore.embedding.vectors import open_vectors
    from elmore.engine.threads import get_threads, set_threads
    from elmore.errors import (
        CannotExpress,
        ElmoreError,
        FormatError,
        InputError,
        InputWarning,
        MissingExtra,
        NotFound,
        OutOfMemory,
    )
    from elmore.model import Model, load
    from elmore.nn.elmo import Elmo
    from elmore.nn.mix import LayerMix
    from elmore.pretraining.pretrain import pretrain
    from elmore.pretraining.recipe import Recipe
    from elmore.scoring.perplexity import perplexity
    from elmore.scoring.substitutes import substitutes
    from elmore.scoring.surprisal import surprisal

__all__ = [
    "CannotExpress",
    "Corpus",
    "Elmo",
    "ElmoreError",
    "Embedder",
    "FormatError",
    "InputError",
    "InputWarning",
    "LayerMix",
    "MissingExtra",
    "Model",
    "ModelConfig",
    "NotFound",
    "OutOfMemory",
    "Recipe",
    "__version__",
    "embed_file",
    "errors",
    "get_threads",
    "load",
    "open_vectors",
    "perplexity",
    "prepare",
    "pretrain",
    "set_threads",
    "substitutes",
    "surprisal",
    "tasks",
]

# Loaded on first use: importing elmore takes milliseconds and does not import torch.
_MODULES = {
    "CannotExpress": "elmore.errors",
    "Corpus": "elmore.corpus.corpus",
    "Elmo": "elmore.nn.elmo",
    "ElmoreError": "elmore.errors",
    "Embedder": "elmore.embedding.embedder",
    "FormatError": "elmore.errors",
    "InputError": "elmore.errors",
    "InputWarning": "elmore.errors",
    "LayerMix": "elmore.nn.mix",
    "MissingExtra": "elmore.errors",
    "Model": "elmore.model",
    "ModelConfig": "elmore.config",
    "NotFound": "elmore.errors",
    "OutOfMemory": "elmore.errors",
    "Recipe": "elmore.pretraining.recipe",
    "embed_file": "elmore.embedding.embed_file",
    "get_threads": "elmore.engine.threads",
    "load": "elmore.model",
    "open_vectors": "elmore.embedding.vectors",
    "perplexity": "elmore.scoring.perplexity",
    "prepare": "elmore.corpus.prepare",
    "pretrain": "elmore.pretraining.pretrain",
    "set_threads": "elmore.engine.threads",
    "substitutes": "elmore.scoring.substitutes",
    "surprisal": "elmore.scoring.surprisal",
}


def __getattr__(name: str) -> Any:
    if name in ("errors", "tasks"):
        return import_module(f"elmore.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'elmore' has no attribute {name!r}")
    from elmore.errors import requires_torch

    with requires_torch(f"elmore.{name}"):
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
