"""The softmax over all words of the vocabulary: from what the network holds to the probability of a word.

Always the full one. Training may compare a word with a sample of the others only; scores never do.

N positions, P vector size, V classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from elmore.errors import FormatError, InputError
from elmore.model import Model
from elmore.text.vocabulary import Vocabulary

POSITIONS_AT_ONCE = 1024
# Scores are made for a block of classes at a time, or they would fill gigabytes; on a CPU, few enough for its cache.
LOGITS_AT_ONCE = {"cpu": 2**20, "cuda": 2**26}


@dataclass(frozen=True)
class Softmax:
    """The words that a model predicts, and how probable it finds each."""

    weight: Tensor  # (V, P)
    bias: Tensor  # (V,)
    vocabulary: Vocabulary
    unknown: str  # the class of all words that have none of their own

    @classmethod
    def of(cls, model: Model) -> "Softmax":
        """Read a model's softmax, onto its device; an error that says what is missing where it has none."""
        name = model.card.name or model.card.source or "this model"
        if model.softmax is None:
            form = f" ({model.card.format})" if model.card.format else ""
            raise InputError(
                f"{name}{form} has no softmax, so it cannot tell how probable a word is; a softmax comes with "
                "TensorFlow checkpoints, with a classifier.pkl of ELMoForManyLangs, and with models that "
                "`elmore pretrain` made"
            )
        if model.vocabulary is None:
            raise InputError(
                f"{name} has a softmax, and the vocabulary that names its classes is missing; give the file with "
                "--vocabulary FILE or load(…, vocabulary=FILE)"
            )
        if missing := [mark for mark in (model.config.begin, model.config.end) if mark not in model.vocabulary]:
            raise FormatError(
                f"{name}: the vocabulary lacks {' and '.join(missing)}, which every sentence is to predict"
            )
        tensors = model.softmax()
        dtype = torch.promote_types(model.start.h.dtype, torch.float32)
        weight, bias = (tensors[part].to(model.device, dtype) for part in ("weight", "bias"))
        if len(bias) != len(model.vocabulary):
            raise FormatError(
                f"{name}: the softmax has {len(bias):,} classes and the vocabulary {len(model.vocabulary):,} words; "
                "give the vocabulary the model was trained with: --vocabulary FILE or load(…, vocabulary=FILE)"
            )
        return cls(weight, bias, model.vocabulary, model.config.unknown)

    def class_of(self, word: str) -> int:
        """The number of the word's class, which is that of `<UNK>` for a word outside the vocabulary."""
        return self.vocabulary.word_id(word, unknown=self.unknown)

    def knows(self, word: str) -> bool:
        """Whether the word has a class of its own."""
        return word in self.vocabulary and word != self.unknown

    def log_probabilities(self, hidden: Tensor, classes: Tensor) -> Tensor:  # (N, P), (N,) -> (N,)
        """The natural logarithm of the probability of one class at each position."""
        hidden = hidden.to(self.weight.dtype)
        pieces = [slice(start, start + POSITIONS_AT_ONCE) for start in range(0, len(hidden), POSITIONS_AT_ONCE)]
        return torch.cat([self._scores(hidden[p], classes[p]) - self._log_total(hidden[p]) for p in pieces])

    def log_distribution(self, hidden: Tensor) -> Tensor:  # (P,) -> (V,)
        """The natural logarithms of the probabilities of all classes at one position."""
        return (self.weight @ hidden.to(self.weight.dtype) + self.bias).log_softmax(dim=0)

    def _scores(self, hidden: Tensor, classes: Tensor) -> Tensor:  # (n, P), (n,) -> (n,)
        return (hidden * self.weight[classes]).sum(dim=-1) + self.bias[classes]

    def _log_total(self, hidden: Tensor) -> Tensor:  # (n, P) -> (n,)
        """What all scores are to be lowered by, so that the probabilities sum to one."""
        block = max(LOGITS_AT_ONCE["cuda" if hidden.is_cuda else "cpu"] // len(hidden), 1)
        parts = [slice(start, start + block) for start in range(0, len(self.bias), block)]
        totals = [torch.addmm(self.bias[p], hidden, self.weight[p].t()).logsumexp(dim=-1) for p in parts]
        return torch.stack(totals).logsumexp(dim=0)
