"""The biattentive classification network, for one sentence.

    X = biLSTM(feed-forward(inputs)),  with more vectors beside it where there are any
    C = softmax by row of (X X^T) @ X
    Z = biLSTM([X; X - C; X * C])
    logits = output network([max Z; min Z; mean Z; self-attentive average of Z])

McCann et al., 2017, where the output network is maxout; Peters et al., 2018, have ReLU in its place, and a second
mix of ELMo's layers beside the first biLSTM's output. B sentences, T tokens, D and E sizes of what comes in.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.tasks.modules.attention import BiAttention
from elmore.tasks.modules.feed_forward import FeedForward, Maxout
from elmore.tasks.modules.pooling import SelfAttentivePooling, masked_max, masked_mean, masked_min
from elmore.tasks.modules.rnn import BiLstm


class ClassifierDropout(NamedTuple):
    """Probabilities of dropout, from the network's input to its output; AllenNLP's, of its model without ELMo."""

    inputs: float = 0.25
    feed_forward: float = 0.25
    pooled: float = 0.1
    output: float | tuple[float, ...] = (0.2, 0.3)  # behind each hidden layer of the output network


class BiattentiveClassifier(nn.Module):
    """Scores of a sentence's classes.

    `extra_dim` is the size of the vectors that stand beside the first biLSTM's output; 0 for none. They come with
    whatever dropout they are to have. With `maxout`, all layers of the output network are, the last one included.

    >>> classifier = BiattentiveClassifier(7, num_classes=5, hidden=4, output_dims=(6, 3))
    >>> classifier(torch.ones(1, 2, 7), torch.ones(1, 2, dtype=torch.bool), [2]).shape
    torch.Size([1, 5])
    """

    def __init__(
        self,
        input_dim: int,
        num_classes: int,
        *,
        extra_dim: int = 0,
        hidden: int = 300,
        output_dims: Sequence[int] = (1200, 600),
        maxout: bool = False,
        dropout: ClassifierDropout = ClassifierDropout(),  # noqa: B008  # a tuple of numbers
    ) -> None:
        super().__init__()
        self.extra_dim = extra_dim
        self.input_dropout = nn.Dropout(dropout.inputs)
        self.feed_forward = FeedForward(input_dim, (hidden,), dropout=dropout.feed_forward)
        self.encoder = BiLstm(hidden, hidden)
        self.attention = BiAttention()
        self.integrator = BiLstm(3 * (self.encoder.output_dim + extra_dim), hidden)
        self.self_attentive = SelfAttentivePooling(self.integrator.output_dim)
        self.pooled_dropout = nn.Dropout(dropout.pooled)
        pooled_dim = 4 * self.integrator.output_dim
        behind = dropout.output
        if maxout:
            behind = behind if isinstance(behind, tuple) else (behind,) * len(output_dims)
            self.output: nn.Module = Maxout(pooled_dim, (*output_dims, num_classes), dropout=(*behind, 0.0))
        else:
            self.output = FeedForward(pooled_dim, output_dims, dropout=behind, output_dim=num_classes)

    def forward(
        self, x: Tensor, mask: Tensor, lengths: Sequence[int] | Tensor, extra: Tensor | None = None
    ) -> Tensor:  # (B, T, D), (B, T), B on the CPU, (B, T, E) -> (B, classes)
        given = 0 if extra is None else extra.shape[2]
        if given != self.extra_dim:
            raise InputError(f"this classifier takes extra vectors of size {self.extra_dim} and was given size {given}")
        x = self.encoder(self.feed_forward(self.input_dropout(x)), lengths)
        if extra is not None:
            x = torch.cat([x, extra.to(x.dtype)], dim=2)
        attended = self.attention.attend_self(x, mask)
        z = self.integrator(torch.cat([x, x - attended, x * attended], dim=2), lengths)
        pooled = [masked_max(z, mask), masked_min(z, mask), masked_mean(z, mask), self.self_attentive(z, mask)]
        logits: Tensor = self.output(self.pooled_dropout(torch.cat(pooled, dim=1)))
        return logits
