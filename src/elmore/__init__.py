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
    from elmore import tasks
    from elmore.config import ModelConfig
    from elmore.corpus.corpus import Corpus
    from elmore.corpus.prepare import prepare
    from elmore.embedding.elmo import Elmo
    from elmore.embedding.embed_file import embed_file
    from elmore.embedding.embedder import Embedder
    from elmore.embedding.vectors import open_vectors
    from elmore.errors import ElmoreError
    from elmore.model import Model, load
    from elmore.network.mix import LayerMix
    from elmore.pretraining.pretrain import pretrain
    from elmore.pretraining.recipe import Recipe
    from elmore.scoring.perplexity import perplexity
    from elmore.scoring.substitutes import substitutes
    from elmore.scoring.surprisal import surprisal

__all__ = [
    "Corpus",
    "Elmo",
    "ElmoreError",
    "Embedder",
    "LayerMix",
    "Model",
    "ModelConfig",
    "Recipe",
    "__version__",
    "embed_file",
    "load",
    "open_vectors",
    "perplexity",
    "prepare",
    "pretrain",
    "substitutes",
    "surprisal",
    "tasks",
]

# Loaded on first use: importing elmore takes milliseconds and does not import torch.
_HOMES = {
    "Corpus": "elmore.corpus.corpus",
    "Elmo": "elmore.embedding.elmo",
    "ElmoreError": "elmore.errors",
    "Embedder": "elmore.embedding.embedder",
    "LayerMix": "elmore.network.mix",
    "Model": "elmore.model",
    "ModelConfig": "elmore.config",
    "Recipe": "elmore.pretraining.recipe",
    "embed_file": "elmore.embedding.embed_file",
    "load": "elmore.model",
    "open_vectors": "elmore.embedding.vectors",
    "perplexity": "elmore.scoring.perplexity",
    "prepare": "elmore.corpus.prepare",
    "pretrain": "elmore.pretraining.pretrain",
    "substitutes": "elmore.scoring.substitutes",
    "surprisal": "elmore.scoring.surprisal",
}


def __getattr__(name: str) -> Any:
    if name == "tasks":
        return import_module("elmore.tasks")
    if name not in _HOMES:
        raise AttributeError(f"module 'elmore' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
