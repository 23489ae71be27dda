"""Language-model scores: perplexity, surprisal, substitutes."""

from elmore.scoring.perplexity import Perplexity, perplexity
from elmore.scoring.scorer import LanguageModelScorer
from elmore.scoring.substitutes import Candidate, Substitutes, substitutes
from elmore.scoring.surprisal import Surprisal, surprisal

__all__ = [
    "Candidate",
    "LanguageModelScorer",
    "Perplexity",
    "Substitutes",
    "Surprisal",
    "perplexity",
    "substitutes",
    "surprisal",
]
