"""AllenNLP's names for ELMo: old code runs when it changes its import lines.

    from allennlp.modules.elmo import Elmo, batch_to_ids        becomes
    from elmore.compat.allennlp import Elmo, batch_to_ids

Signatures and vectors are those of AllenNLP 0.9, masks are boolean as in 2.x. As there, the biLM remembers its state
from call to call, and so the same sentence has other vectors the second time; `reset_states` forgets it. State dicts
that AllenNLP saved are loaded. Wrong input is an `InputError`, which is a ValueError, instead of a ConfigurationError.

New code has less to look out for with `elmore.Embedder` and `elmore.Elmo`.

>>> ids = batch_to_ids([["I", "took", "a", "bow", "."], ["Me", "too"]])
>>> ids.shape
torch.Size([2, 5, 50])
"""

from elmore.compat.allennlp.bilm import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
from elmore.compat.allennlp.bilm import ElmoBiLm as _ElmoBiLm  # noqa: F401 (private there, and imported all the same)
from elmore.compat.allennlp.character_encoder import ElmoCharacterEncoder as _ElmoCharacterEncoder  # noqa: F401
from elmore.compat.allennlp.character_ids import batch_to_ids
from elmore.compat.allennlp.elmo import Elmo, ElmoTokenEmbedder
from elmore.compat.allennlp.embedder import ElmoEmbedder
from elmore.compat.allennlp.scalar_mix import ScalarMix

__all__ = [
    "DEFAULT_OPTIONS_FILE",
    "DEFAULT_WEIGHT_FILE",
    "Elmo",
    "ElmoEmbedder",
    "ElmoTokenEmbedder",
    "ScalarMix",
    "batch_to_ids",
]
