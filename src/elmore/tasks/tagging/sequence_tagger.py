"""The body of a sequence tagger: layers of biLSTMs, or none, and a linear layer to the scores of each token's tags.

Lample et al., 2016, with a CRF; without one, and without a biLSTM, a linear probe.
B sentences, T tokens, K tags, D and E sizes of what comes in.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.tasks.modules.crf import LinearChainCrf
from elmore.tasks.modules.dropout import VariationalDropout
from elmore.tasks.modules.ensembling import mean_of_probabilities, mean_scores
from elmore.tasks.modules.rnn import BiLstm


class SequenceTagger(nn.Module):
    """Scores of tags for each token, the loss of given tags, and the best tags.

    `hidden` has the units of each biLSTM in each direction, from the lowest on; `()` is a linear probe. `extra_dim` is
    the size of vectors that stand beside the last one's output; 0 for none. `dropout` is on the input of every biLSTM,
    `output_dropout` on that of the linear layer, both variational.

    >>> tagger = SequenceTagger(8, num_tags=3, hidden=(4, 2), crf=LinearChainCrf(3))
    >>> mask = torch.tensor([[True, True, True], [True, False, False]])
    >>> emissions = tagger(torch.ones(2, 3, 8), [3, 1])
    >>> emissions.shape, tagger.loss(emissions, torch.zeros(2, 3, dtype=torch.int64), mask).shape
    (torch.Size([2, 3, 3]), torch.Size([2]))
    >>> [len(tags) for tags in tagger.decode(emissions, mask)]
    [3, 1]
    """

    def __init__(
        self,
        input_dim: int,
        num_tags: int,
        *,
        hidden: Sequence[int] = (200, 200),
        extra_dim: int = 0,
        dropout: float = 0.5,
        output_dropout: float = 0.0,
        crf: LinearChainCrf | None = None,
    ) -> None:
        super().__init__()
        if crf is not None and crf.num_tags != num_tags:
            raise InputError(f"the tagger has {num_tags} tags and its CRF {crf.num_tags}; give both the same number")
        self.extra_dim = extra_dim
        self.encoders = nn.ModuleList()
        size = input_dim
        for units in hidden:
            self.encoders.append(BiLstm(size, units, input_dropout=dropout))
            size = 2 * units
        self.output_dropout = VariationalDropout(output_dropout)
        self.emissions = nn.Linear(size + extra_dim, num_tags)
        nn.init.xavier_uniform_(self.emissions.weight)
        nn.init.zeros_(self.emissions.bias)
        self.crf = crf

    def forward(
        self, x: Tensor, lengths: Sequence[int] | Tensor, extra: Tensor | None = None
    ) -> Tensor:  # (B, T, D), B on the CPU, (B, T, E) -> (B, T, K)
        """The score of each tag at each token; before any softmax."""
        given = 0 if extra is None else extra.shape[2]
        if given != self.extra_dim:
            raise InputError(f"this tagger takes extra vectors of size {self.extra_dim} and was given size {given}")
        for encoder in self.encoders:
            x = encoder(x, lengths)
        if extra is not None:
            x = torch.cat([x, extra.to(x.dtype)], dim=2)
        emissions: Tensor = self.emissions(self.output_dropout(x))
        return emissions

    def loss(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:  # (B, T, K), 2 x (B, T) -> (B,)
        """For each sentence, minus the logarithm of the probability of its tags: of all of them together.

        Without a CRF that is the sum over its tokens.
        """
        if self.crf is not None:
            return -self.crf.log_likelihood(emissions, tags, mask)
        chances = emissions.to(torch.promote_types(emissions.dtype, torch.float32)).log_softmax(dim=2)
        chosen = chances.gather(2, tags.masked_fill(~mask, 0).unsqueeze(2)).squeeze(2)
        return -chosen.masked_fill(~mask, 0).sum(dim=1)

    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:  # (B, T, K), (B, T)
        """The best tags of each sentence: by the CRF, or without one token by token; of equals the lowest."""
        return decode_together([self], [emissions], mask)


@torch.no_grad()
def decode_together(
    taggers: Sequence[SequenceTagger], emissions: Sequence[Tensor], mask: Tensor
) -> list[list[int]]:  # (B, T, K) of each, (B, T)
    """The best tags by several taggers: by the mean of all scores of their CRFs, or of their tokens' probabilities."""
    crfs = [tagger.crf for tagger in taggers if tagger.crf is not None]
    if len(crfs) == len(taggers):
        return crfs[0].decode(mean_scores(emissions), mask, others=crfs[1:])
    if crfs:
        raise InputError("some of the taggers have a CRF and others none; their scores cannot be put together")
    best = mean_of_probabilities(emissions).argmax(dim=2).cpu()
    return [tags[:length].tolist() for tags, length in zip(best, mask.sum(dim=1).tolist(), strict=True)]
