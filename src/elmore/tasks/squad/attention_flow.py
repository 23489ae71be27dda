"""The attention of a reader of paragraphs: from a paragraph to a question and back, and from a paragraph to itself.

Seo et al., 2017, and Clark and Gardner, 2017. B paragraphs, S tokens of one, T of its question, D size.
"""

import torch
from torch import Tensor, nn

from elmore.tasks.modules.attention import TrilinearSimilarity, attend, masked_softmax
from elmore.tasks.modules.dropout import VariationalDropout
from elmore.tasks.modules.feed_forward import FeedForward
from elmore.tasks.modules.rnn import BiGru


class AttentionFlow(nn.Module):
    """What each token of a paragraph has to do with a question.

        A_ij = trilinear similarity of c_i and q_j
        c~_i = softmax over j of A_i @ Q,   q2c = softmax over i of (max over j of A_ij) @ C
        [c; c~; c * c~; c * q2c]

    >>> c, q = torch.ones(2, 5, 3), torch.ones(2, 4, 3)
    >>> AttentionFlow(3)(c, q, torch.ones(2, 5, dtype=torch.bool), torch.ones(2, 4, dtype=torch.bool)).shape
    torch.Size([2, 5, 12])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = TrilinearSimilarity(dim)
        self.output_dim = 4 * dim

    def forward(self, c: Tensor, q: Tensor, c_mask: Tensor, q_mask: Tensor) -> Tensor:  # (B, S, D), (B, T, D), masks
        scores = self.similarity(c, q)  # (B, S, T)
        attended = attend(scores, q, q_mask)
        smallest = torch.finfo(scores.dtype).min
        largest = scores.masked_fill(~q_mask.unsqueeze(1), smallest).amax(dim=2)  # (B, S)
        summary = torch.bmm(masked_softmax(largest, c_mask).unsqueeze(1).to(c.dtype), c)  # (B, 1, D)
        return torch.cat([c, attended, c * attended, c * summary], dim=2)


class SelfAttention(nn.Module):
    """What each token of a paragraph has to do with the others; it may be nothing.

        w_ij = exp(A_ij) / (exp(b) + sum over k != i of exp(A_ik)),   w_ii = 0,   b learnt
        x~ = w @ X

    >>> SelfAttention(3)(torch.ones(2, 5, 3), torch.ones(2, 5, dtype=torch.bool)).shape
    torch.Size([2, 5, 3])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = TrilinearSimilarity(dim)
        self.nothing = nn.Parameter(torch.tensor(-1.0))  # b

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # (B, S, D), (B, S) -> (B, S, D)
        scores = self.similarity(x, x)  # (B, S, S)
        allowed = mask.unsqueeze(1) & ~torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        # One more place to look at, where nothing is.
        nothing = self.nothing.to(scores.dtype).expand(*scores.shape[:2], 1)
        weights = torch.cat([scores, nothing], dim=2).softmax(dim=2)[..., :-1].masked_fill(~allowed, 0)
        return torch.bmm(weights.to(x.dtype), x)


class ResidualSelfAttention(nn.Module):
    """A paragraph read once more beside itself, added to what came in: x + relu(W [z~; z; z~ * z]), z = biGRU(x).

    >>> block = ResidualSelfAttention(6, hidden=4, dropout=0.2)
    >>> block(torch.ones(2, 5, 6), torch.ones(2, 5, dtype=torch.bool), [5, 5]).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, dim: int, *, hidden: int, dropout: float) -> None:
        super().__init__()
        self.encoder = BiGru(dim, hidden, input_dropout=dropout)
        self.dropout = VariationalDropout(dropout)
        self.attention = SelfAttention(self.encoder.output_dim)
        self.projection = FeedForward(3 * self.encoder.output_dim, (dim,))

    def forward(self, x: Tensor, mask: Tensor, lengths: tuple[int, ...]) -> Tensor:  # (B, S, D) -> (B, S, D)
        z = self.dropout(self.encoder(x, lengths))
        attended = self.attention(z, mask)
        added: Tensor = self.projection(torch.cat([attended, z, attended * z], dim=2))
        return x + added
