"""Losses and gradients of a choice among candidates by the native CPU kernels, for training in float32.

Logits are made, turned into exponentials and multiplied back while they are in the cache, without a pass that divides
them. `cross_entropy` says what is computed, `native/softmax_training.h` has the code.

G groups of positions (directions), N positions in each, P vector size, K candidates.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from elmore.kernels.cross_entropy import Choice, ChoiceGradients
from elmore.kernels.native_library import Number, Softmax, opened_native_library
from elmore.kernels.native_packing import fill, pack


def differentiate_natively(hidden: Tensor, choice: Choice) -> ChoiceGradients:
    """See `cross_entropy.ChoiceGradients`."""
    library = opened_native_library()
    lanes = library.lanes(Number.FLOAT32)
    groups, positions, vector_dim = hidden.shape
    classes = len(choice.offsets)
    # The product and its transpose, each as it is multiplied.
    weights = pack(choice.candidate_weight.t()[None], Number.FLOAT32, lanes).panels
    back_weights = pack(fill(choice.candidate_weight, 0, 4 * lanes)[None], Number.FLOAT32, lanes).panels
    offsets = pad(choice.offsets, (0, -classes % (4 * lanes)), value=float("-inf"))
    hidden = hidden.contiguous()
    target_logits = (hidden * choice.target_weight).sum(-1) + choice.target_offsets
    target_columns = choice.target_columns.contiguous()
    highest, sums = torch.empty_like(target_logits), torch.empty_like(target_logits)
    d_hidden, d_offsets = torch.empty_like(hidden), offsets.new_zeros(groups, len(offsets))
    d_weights = offsets.new_zeros(groups, *weights.shape[1:])  # (G, K / 4W, P, 4, W)
    for group in range(groups):
        rows = (hidden, target_logits, target_columns, highest, sums, d_hidden, d_weights, d_offsets)
        own_hidden, *own = (part[group].data_ptr() for part in rows)
        matrices = (part.data_ptr() for part in (weights, back_weights, offsets))
        library.run_softmax(Softmax(positions, vector_dim, classes, own_hidden, *matrices, *own))
    losses = highest + sums.log() - target_logits
    d_target = (-losses).exp() - 1
    d_candidates = d_weights.view(groups, -1, vector_dim, 4 * lanes).transpose(2, 3).flatten(1, 2)[:, :classes]
    return ChoiceGradients(
        losses.sum(1), d_hidden.addcmul_(d_target[..., None], choice.target_weight), d_target, d_candidates,
        d_offsets[:, :classes],
    )  # fmt: skip
