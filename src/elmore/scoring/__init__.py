"""What the language model itself says: perplexity, surprisal, substitutes."""

from elmore.scoring.perplexity import Perplexity, perplexity
from elmore.scoring.predictor import Predictor
from elmore.scoring.substitutes import Candidate, Substitutes, substitutes
from elmore.scoring.surprisal import LogProbabilities, surprisal

__all__ = [
    "Candidate",
    "LogProbabilities",
    "Perplexity",
    "Predictor",
    "Substitutes",
    "perplexity",
    "substitutes",
    "surprisal",
]
