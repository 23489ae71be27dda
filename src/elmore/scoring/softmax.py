"""The words that a model predicts, and how probable each is.

N positions, P vector size, V classes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.engine.engine import Engine, SoftmaxScorer
from elmore.engine.weights import as_float
from elmore.errors import FormatError, InputError
from elmore.model import Model
from elmore.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Softmax:
    """A model's softmax in the memory of its engine, with the words of its classes."""

    scorer: SoftmaxScorer
    vocabulary: Vocabulary
    unknown: str  # the class of all words outside the vocabulary

    @classmethod
    def of(cls, model: Model, engine: Engine) -> "Softmax":
        """Read a model's softmax; InputError if the model has none."""
        name = model.card.name or model.card.source or "this model"
        if model.softmax is None:
            form = f" ({model.card.format})" if model.card.format else ""
            raise InputError(
                f"{name}{form} has no softmax layer, which perplexity, surprisal and substitutes need. Models with "
                "one: elmore-en, models from `elmore pretrain`, TensorFlow checkpoints, and ELMoForManyLangs models "
                "with classifier.pkl"
            )
        if model.vocabulary is None:
            raise InputError(
                f"{name} has a softmax, but the vocabulary of its classes is missing; give the file with "
                "--vocabulary FILE or load(..., vocabulary=FILE)"
            )
        if missing := [
            mark for mark in (model.config.bos_token, model.config.eos_token) if mark not in model.vocabulary
        ]:
            raise FormatError(f"{name}: the vocabulary lacks {' and '.join(missing)}, which ends every sentence")
        arrays = model.softmax()
        weight, bias = as_float(arrays["weight"]), as_float(arrays["bias"])
        if len(bias) != len(model.vocabulary):
            raise FormatError(
                f"{name}: the softmax has {len(bias):,} classes and the vocabulary {len(model.vocabulary):,} words; "
                "give the vocabulary the model was trained with: --vocabulary FILE or load(..., vocabulary=FILE)"
            )
        return cls(engine.new_softmax(weight, bias), model.vocabulary, model.config.unk_token)

    def class_of(self, word: str) -> int:
        """The class of the word: that of `<UNK>` for a word outside the vocabulary."""
        return self.vocabulary.word_id(word, unknown=self.unknown)

    def knows(self, word: str) -> bool:
        """Whether the word has a class of its own."""
        return word in self.vocabulary and word != self.unknown

    def log_probabilities(self, hidden: Any, classes: NDArray[np.int64]) -> NDArray[np.float32]:  # (N, P), (N,) -> (N,)
        """The natural logarithm of the probability of one class at each position."""
        return self.scorer.log_probabilities(hidden, classes)

    def log_distribution(self, hidden: Any) -> NDArray[np.float32]:  # (P,) -> (V,)
        """The natural logarithms of the probabilities of all classes at one position."""
        return self.scorer.log_distribution(hidden)
