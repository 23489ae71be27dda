"""AllenNLP's names for ELMo: old code runs when its import lines change.

    from allennlp.modules.elmo import Elmo, batch_to_ids        becomes
    from elmore.compat.allennlp import Elmo, batch_to_ids

Signatures and vectors are those of AllenNLP 0.9; masks are boolean as in 2.x. As in AllenNLP, the biLM carries its
state from call to call, so the same sentence has other vectors in the second call; `reset_states` resets it. State
dicts that AllenNLP saved can be loaded. Wrong input raises InputError, which is a ValueError, instead of
ConfigurationError.

`ElmoEmbedder` works without torch; the other classes are torch modules. Each object carries a state and belongs to one
thread. New code is simpler with `elmore.Embedder` and `elmore.Elmo`.

>>> from elmore.compat.allennlp import batch_to_ids
>>> batch_to_ids([["I", "took", "a", "bow", "."], ["Me", "too"]]).shape
torch.Size([2, 5, 50])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmore.errors import requires_torch

if TYPE_CHECKING:
    from elmore.compat.allennlp.bilm import ElmoBiLm as _ElmoBiLm  # noqa: F401 (private, but imported by users)
    from elmore.compat.allennlp.bilm import ElmoCharacterEncoder as _ElmoCharacterEncoder  # noqa: F401
    from elmore.compat.allennlp.character_ids import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE, batch_to_ids
    from elmore.compat.allennlp.elmo import Elmo, ElmoTokenEmbedder, ScalarMix
    from elmore.compat.allennlp.embedder import ElmoEmbedder

__all__ = [
    "DEFAULT_OPTIONS_FILE",
    "DEFAULT_WEIGHT_FILE",
    "Elmo",
    "ElmoEmbedder",
    "ElmoTokenEmbedder",
    "ScalarMix",
    "batch_to_ids",
]

# Loaded on first use, because only some of them need torch: the file of each name, and its name there.
_MODULES = {
    "DEFAULT_OPTIONS_FILE": ("character_ids", "DEFAULT_OPTIONS_FILE"),
    "DEFAULT_WEIGHT_FILE": ("character_ids", "DEFAULT_WEIGHT_FILE"),
    "Elmo": ("elmo", "Elmo"),
    "ElmoEmbedder": ("embedder", "ElmoEmbedder"),
    "ElmoTokenEmbedder": ("elmo", "ElmoTokenEmbedder"),
    "ScalarMix": ("elmo", "ScalarMix"),
    "batch_to_ids": ("character_ids", "batch_to_ids"),
    # Private in AllenNLP, but imported by its users.
    "_ElmoBiLm": ("bilm", "ElmoBiLm"),
    "_ElmoCharacterEncoder": ("bilm", "ElmoCharacterEncoder"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file, attribute = _MODULES[name]
    with requires_torch(f"{__name__}.{name}"):
        return getattr(import_module(f"{__name__}.{file}"), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
