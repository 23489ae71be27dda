"""ESIM, a network that compares two sentences (Chen et al., 2017).

    a = biLSTM(premise),  b = biLSTM(hypothesis)    one biLSTM for both; more vectors beside it if given
    a~ = softmax by row of (a b^T) @ b,   b~ = softmax by row of (b a^T) @ a
    m = relu(W [v; v~; v - v~; v * v~])             of a and b alike
    logits = feed-forward([mean; max] of biLSTM(m_a), [mean; max] of biLSTM(m_b))

After Peters et al., 2018, A.3: a second mix of ELMo's layers stands beside the first biLSTM's output, and dropout
behind the attention. Premises and hypotheses come as one batch, the premises first: what is done to both is done once.
B pairs, T tokens, D and E sizes of what comes in.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.tasks.modules.attention import BiAttention
from elmore.tasks.modules.dropout import VariationalDropout
from elmore.tasks.modules.encoder_inputs import EncoderInputs
from elmore.tasks.modules.feed_forward import FeedForward
from elmore.tasks.modules.pooling import masked_max, masked_mean
from elmore.tasks.modules.rnn import BiLstm


class EsimDropout(NamedTuple):
    """Probabilities of dropout, from the network's input to its output."""

    encoders: float = 0.5  # on the inputs of both biLSTMs, one mask for a sentence
    attended: float = 0.0  # on [v; v~; v - v~; v * v~], likewise
    output: float = 0.5  # before both layers of the output network


class Esim(nn.Module):
    """Scores of the relations that two sentences may have.

    `extra_dim` is the size of the vectors that stand beside the first biLSTM's output; 0 for none.

    >>> pair = EncoderInputs(torch.ones(2, 5, 7), torch.ones(2, 5, dtype=torch.bool), (5, 5))
    >>> Esim(7, num_classes=3, hidden=4)(pair).shape
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

    def forward(self, sentences: EncoderInputs) -> Tensor:  # 2 B -> (B, classes)
        """From the premises of all pairs and, behind them, their hypotheses."""
        v = self._encoded(sentences)
        attended = torch.cat(self.attention(*v.chunk(2), *sentences.mask.chunk(2)))
        compared = torch.cat([v, attended, v - attended, v * attended], dim=2)
        z = self.composition(self.projection(self.attended_dropout(compared)), sentences.lengths)
        pooled = torch.cat([masked_mean(z, sentences.mask), masked_max(z, sentences.mask)], dim=1)  # (2 B, 4 hidden)
        logits: Tensor = self.output(self.pooled_dropout(torch.cat(pooled.chunk(2), dim=1)))
        return logits

    def _encoded(self, sentences: EncoderInputs) -> Tensor:  # (2 B, T, 2 hidden + E)
        extra = sentences.extra
        given = 0 if extra is None else extra.shape[2]
        if given != self.extra_dim:
            raise InputError(f"this network takes extra vectors of size {self.extra_dim} and was given size {given}")
        x: Tensor = self.encoder(sentences.x, sentences.lengths)
        return x if extra is None else torch.cat([x, extra.to(x.dtype)], dim=2)
