"""Dropout with one mask for all time steps of a sequence.

Gal and Ghahramani, 2016: a feature is kept or dropped for a whole sentence, so that a recurrent network does not see
it flicker. B sentences, T tokens, D size.
"""

from torch import Tensor, nn

from elmore.errors import InputError


class VariationalDropout(nn.Module):
    """Drop each feature with this probability, at all tokens of a sentence alike; what is kept is scaled up.

    >>> import torch
    >>> dropped = VariationalDropout(0.5)(torch.ones(2, 3, 4))
    >>> torch.equal(dropped[:, 0], dropped[:, 2])
    True
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        if not 0 <= probability <= 1:
            raise InputError(f"the probability of dropout is {probability}; it must be from 0 to 1")
        self.probability = probability

    def extra_repr(self) -> str:
        return f"{self.probability:g}"

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        if not self.training or self.probability == 0:
            return x
        return x * nn.functional.dropout(x.new_ones(len(x), 1, x.shape[2]), self.probability)
