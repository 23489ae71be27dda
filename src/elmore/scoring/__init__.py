"""What the language model itself says: perplexity, surprisal, substitutes."""

from elmore.scoring.perplexity import Perplexity, perplexity
from elmore.scoring.predictor import Predictor
from elmore.scoring.substitutes import Candidate, Substitutes, substitutes
from elmore.scoring.surprisal import Surprisal, surprisal

__all__ = [
    "Candidate",
    "Perplexity",
    "Predictor",
    "Substitutes",
    "Surprisal",
    "perplexity",
    "substitutes",
    "surprisal",
]
