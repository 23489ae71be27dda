"""ESIM, a network that compares two sentences (Chen et al., 2017).

    a = biLSTM(premise),  b = biLSTM(hypothesis)    one biLSTM for both; more vectors beside it if given
    a~ = softmax by row of (a b^T) @ b,   b~ = softmax by row of (b a^T) @ a
    m = relu(W [v; v~; v - v~; v * v~])             of a and b alike
    logits = feed-forward([mean; max] of biLSTM(m_a), [mean; max] of biLSTM(m_b))

After Peters et al., 2018, A.3: a second mix of ELMo's layers stands beside the first biLSTM's output, and dropout
behind the attention. B pairs, T tokens, D and E sizes of what comes in.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.tasks.blocks.attention import BiAttention
from elmore.tasks.blocks.dropout import VariationalDropout
from elmore.tasks.blocks.encoder_inputs import EncoderInputs
from elmore.tasks.blocks.feed_forward import FeedForward
from elmore.tasks.blocks.pooling import masked_max, masked_mean
from elmore.tasks.blocks.sequence_encoder import BiLstm


class EsimDropout(NamedTuple):
    """Probabilities of dropout, from the network's input to its output."""

    encoders: float = 0.5  # on the inputs of both biLSTMs, one mask for a sentence
    attended: float = 0.0  # on [v; v~; v - v~; v * v~], likewise
    output: float = 0.5  # before both layers of the output network


class Esim(nn.Module):
    """Scores of the relations that two sentences may have.

    `extra_dim` is the size of the vectors that stand beside the first biLSTM's output; 0 for none.

    >>> sentences = EncoderInputs(torch.ones(1, 2, 7), torch.ones(1, 2, dtype=torch.bool), (2,))
    >>> Esim(7, num_classes=3, hidden=4)(sentences, sentences).shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        input_dim: int,
        num_classes: int,
        *,
        extra_dim: int = 0,
        hidden: int = 300,
        dropout: EsimDropout = EsimDropout(),  # noqa: B008  # a tuple of numbers
    ) -> None:
        super().__init__()
        self.extra_dim = extra_dim
        self.encoder = BiLstm(input_dim, hidden, input_dropout=dropout.encoders)
        self.attention = BiAttention()
        self.attended_dropout = VariationalDropout(dropout.attended)
        self.projection = FeedForward(4 * (self.encoder.output_dim + extra_dim), (hidden,))
        self.composition = BiLstm(hidden, hidden, input_dropout=dropout.encoders)
        self.pooled_dropout = nn.Dropout(dropout.output)
        pooled_dim = 4 * self.composition.output_dim
        self.output = FeedForward(pooled_dim, (hidden,), dropout=dropout.output, output_dim=num_classes)

    def forward(self, premise: EncoderInputs, hypothesis: EncoderInputs) -> Tensor:  # -> (B, classes)
        a, b = self._encoded(premise), self._encoded(hypothesis)
        attended = self.attention(a, b, premise.mask, hypothesis.mask)
        pooled = [*self._composed(a, attended.x, premise), *self._composed(b, attended.y, hypothesis)]
        logits: Tensor = self.output(self.pooled_dropout(torch.cat(pooled, dim=1)))
        return logits

    def _encoded(self, sentences: EncoderInputs) -> Tensor:  # (B, T, 2 hidden + E)
        extra = sentences.extra
        given = 0 if extra is None else extra.shape[2]
        if given != self.extra_dim:
            raise InputError(f"this network takes extra vectors of size {self.extra_dim} and was given size {given}")
        x: Tensor = self.encoder(sentences.x, sentences.lengths)
        return x if extra is None else torch.cat([x, extra.to(x.dtype)], dim=2)

    def _composed(self, v: Tensor, attended: Tensor, sentences: EncoderInputs) -> tuple[Tensor, Tensor]:
        """The mean and the largest values of what a sentence is beside the other, (B, 2 hidden) each."""
        compared = torch.cat([v, attended, v - attended, v * attended], dim=2)
        z = self.composition(self.projection(self.attended_dropout(compared)), sentences.lengths)
        return masked_mean(z, sentences.mask), masked_max(z, sentences.mask)
