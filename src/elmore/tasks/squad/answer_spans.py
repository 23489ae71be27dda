"""Where an answer begins and ends in a paragraph: the scores of all tokens, their loss, and the best span.

B paragraphs, T tokens, D size.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmore.tasks.modules.rnn import BiGru


class SpanLogits(NamedTuple):
    """Scores of the tokens of paragraphs, before any softmax; at padding the smallest number there is."""

    start: Tensor  # (B, T), float32
    end: Tensor  # (B, T), of the last token


class BestSpan(NamedTuple):
    """A span of tokens."""

    first: int
    last: int
    score: float  # the sum of both logits, by which spans of several windows of a paragraph can be compared
    probability: float  # that of its beginning times that of its end


class SpanPredictor(nn.Module):
    """Two biGRUs, the second of which sees what the first made of the tokens (Clark and Gardner, 2017).

        s = biGRU(x),   start = w_s s;     e = biGRU([x; s]),   end = w_e e

    >>> logits = SpanPredictor(6, hidden=4)(torch.ones(2, 5, 6), torch.ones(2, 5, dtype=torch.bool), (5, 5))
    >>> logits.start.shape, logits.end.shape
    (torch.Size([2, 5]), torch.Size([2, 5]))
    """

    def __init__(self, dim: int, *, hidden: int) -> None:
        super().__init__()
        self.start_encoder = BiGru(dim, hidden)
        self.end_encoder = BiGru(dim + 2 * hidden, hidden)
        self.start, self.end = nn.Linear(2 * hidden, 1), nn.Linear(2 * hidden, 1)
        for layer in (self.start, self.end):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, mask: Tensor, lengths: tuple[int, ...]) -> SpanLogits:  # (B, T, D), (B, T)
        s = self.start_encoder(x, lengths)
        e = self.end_encoder(torch.cat([x, s.to(x.dtype)], dim=2), lengths)
        return SpanLogits(_masked(self.start(s), mask), _masked(self.end(e), mask))


def _masked(scores: Tensor, mask: Tensor) -> Tensor:  # (B, T, 1), (B, T) -> (B, T)
    wide = scores.squeeze(2).to(torch.promote_types(scores.dtype, torch.float32))
    return wide.masked_fill(~mask, torch.finfo(wide.dtype).min)


def span_loss(logits: SpanLogits, firsts: Tensor, lasts: Tensor) -> Tensor:  # (B,), (B,) -> ()
    """The cross entropy of the first tokens and that of the last ones, together; its mean over paragraphs."""
    return nn.functional.cross_entropy(logits.start, firsts) + nn.functional.cross_entropy(logits.end, lasts)


@torch.no_grad()
def best_spans(logits: SpanLogits, *, longest: int) -> list[BestSpan]:
    """Of each paragraph the span of at most so many tokens whose logits have the largest sum; of equals the first.

    >>> logits = SpanLogits(torch.tensor([[0.0, 3.0, 0.0]]), torch.tensor([[9.0, 0.0, 1.0]]))
    >>> best_spans(logits, longest=2)[0][:3]  # an end before its beginning is none
    (0, 0, 9.0)
    """
    # Not a table of all pairs: a beginning meets the few ends that are near enough.
    longest = min(longest, logits.end.shape[1])
    ends = nn.functional.pad(logits.end, (0, longest - 1), value=torch.finfo(logits.end.dtype).min)
    scores = logits.start.unsqueeze(2) + ends.unfold(1, longest, 1)  # (B, T, longest)
    values, places = scores.flatten(1).max(dim=1)
    firsts, lasts = places // longest, places // longest + places % longest
    logs = [
        own.log_softmax(dim=1).gather(1, chosen.unsqueeze(1)).squeeze(1)
        for own, chosen in ((logits.start, firsts), (logits.end, lasts))
    ]
    probabilities = (logs[0] + logs[1]).exp()
    columns = (firsts.tolist(), lasts.tolist(), values.tolist(), probabilities.tolist())
    return [BestSpan(*row) for row in zip(*columns, strict=True)]
