"""A linear-chain conditional random field: the probability of a sequence of tags.

    score(tags) = start[tags[0]] + sum over t of emissions[t, tags[t]]
                + sum over t of transitions[tags[t], tags[t + 1]] + end[tags[-1]]
    p(tags)     = exp(score(tags)) / sum over all sequences of the same length of exp(score)

Lafferty et al., 2001; in a tagger, Lample et al., 2016. B sentences, T tokens, K tags.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.tasks.modules.ensembling import mean_scores

IMPOSSIBLE = -1e6  # log-probability of an impossible step
MAX_SCAN_NUMBERS = 2**28  # in the first step of `log_partition_by_scan`


class AllowedTransitions(NamedTuple):
    """The tags that may begin a sentence, follow each other, and end a sentence.

    In BIO, `I-X` follows `B-X` or `I-X` and never begins a sentence.
    """

    starts: Tensor  # (K,) bool
    pairs: Tensor  # (K, K) bool; [i, j] is true if tag j may follow tag i
    ends: Tensor  # (K,) bool


class LinearChainCrf(nn.Module):
    """Scores sequences of tags for training, and decodes the best sequence.

    `transitions_allowed` restricts decoding only; training normalizes over all sequences. An empty sentence has one
    sequence, the empty one, with probability 1. All sums are at least float32, also under autocast.

    >>> crf = LinearChainCrf(num_tags=2)
    >>> with torch.no_grad():
    ...     for parameter in crf.parameters():
    ...         _ = parameter.zero_()
    >>> emissions, mask = torch.tensor([[[3.0, 1.0], [0.0, 2.0], [9.0, 9.0]]]), torch.tensor([[True, True, False]])
    >>> crf.decode(emissions, mask)
    [[0, 1]]
    >>> crf.log_likelihood(emissions, torch.tensor([[0, 1, 0]]), mask).exp()  # sigmoid(2) for each of two tokens
    tensor([0.7758], grad_fn=<ExpBackward0>)
    """

    allowed_starts: Tensor
    allowed_pairs: Tensor
    allowed_ends: Tensor

    def __init__(self, num_tags: int, *, transitions_allowed: AllowedTransitions | None = None) -> None:
        super().__init__()
        self.num_tags = num_tags
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))  # (from, to)
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        # Near zero, so that the emissions decide at first.
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)
        shapes = ((num_tags,), (num_tags, num_tags), (num_tags,))
        allowed = transitions_allowed or AllowedTransitions(*(torch.ones(shape, dtype=torch.bool) for shape in shapes))
        for name, tensor, shape in zip(allowed._fields, allowed, shapes, strict=True):
            if tensor.shape != shape or tensor.dtype != torch.bool:
                raise InputError(
                    f"{name} of transitions_allowed is {tuple(tensor.shape)} of {tensor.dtype}; "
                    f"with {num_tags} tags it must be {shape} of torch.bool"
                )
            # Not saved: the tags determine them, and the tags are saved with the model.
            self.register_buffer(f"allowed_{name}", tensor, persistent=False)

    def log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:  # (B, T, K), 2 x (B, T) -> (B,)
        """The log-probability of each sentence's tags."""
        emissions = self._without_padding(emissions, mask)
        if emissions.shape[1] == 0:
            return emissions.sum(dim=(1, 2))  # zeros that are connected to the graph
        # Subtracting a constant from all tags of a token changes no probability; floats are most precise near zero.
        emissions = emissions - emissions.detach().amax(dim=2, keepdim=True)
        difference = self._score(emissions, tags, mask) - self._log_partition(emissions, mask)
        return difference.masked_fill(~mask[:, 0], 0)

    @torch.no_grad()
    def decode(
        self, emissions: Tensor, mask: Tensor, *, others: Sequence["LinearChainCrf"] = ()
    ) -> list[list[int]]:  # (B, T, K), (B, T)
        """The best allowed sequence of tags of each sentence; see `viterbi`.

        With `others`, the scores of all CRFs are averaged; the caller passes averaged emissions.
        """
        parameters = zip(*(crf._free_parameters() for crf in (self, *others)), strict=True)
        start, transitions, end = (mean_scores(tensors) for tensors in parameters)
        return viterbi(
            self._without_padding(emissions, mask),
            mask,
            start=start.masked_fill(~self.allowed_starts, -torch.inf),
            transitions=transitions.masked_fill(~self.allowed_pairs, -torch.inf),
            end=end.masked_fill(~self.allowed_ends, -torch.inf),
        )

    def extra_repr(self) -> str:
        return f"num_tags={self.num_tags}"

    def _without_padding(self, emissions: Tensor, mask: Tensor) -> Tensor:
        if emissions.shape[2] != self.num_tags:
            raise InputError(f"this CRF has {self.num_tags} tags; the emissions are for {emissions.shape[2]}")
        # No matrix product follows, so autocast leaves all sums in this type.
        emissions = emissions.to(torch.promote_types(emissions.dtype, torch.float32))
        # With zeros at padding, a sum over positions is a sum over tokens.
        return emissions.masked_fill(~mask.unsqueeze(2), 0)

    def _score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        tags = tags.masked_fill(~mask, 0)  # padding may have any number, such as -1 or -100
        last = _at_last(tags.unsqueeze(2), mask).squeeze(1)
        emitted = emissions.gather(2, tags.unsqueeze(2)).squeeze(2).sum(dim=1)
        moved = _rows(self.transitions, tags[:, :-1]).gather(2, tags[:, 1:].unsqueeze(2)).squeeze(2)
        moved = moved.masked_fill(~mask[:, 1:], 0).sum(dim=1)
        ends = _rows(
            torch.stack([self.start_transitions, self.end_transitions], dim=1), torch.stack([tags[:, 0], last])
        )
        return emitted + moved + ends[0, :, 0] + ends[1, :, 1]

    def _log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        batch, tokens, tags = emissions.shape
        # On a GPU a loop of small kernels is slow; on a CPU the scan's additional sums are.
        if emissions.is_cuda and batch * tokens * tags**3 <= MAX_SCAN_NUMBERS:
            return log_partition_by_scan(emissions, mask, *self._free_parameters())
        return log_partition(emissions, mask, *self._free_parameters())

    def _free_parameters(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.start_transitions, self.transitions, self.end_transitions


def log_partition(emissions: Tensor, mask: Tensor, start: Tensor, transitions: Tensor, end: Tensor) -> Tensor:
    """(B,) the logarithm of the sum over all sequences of exp(score), token by token."""
    by_time = emissions.unbind(dim=1)
    into = transitions.t()  # (to, from), so that the sum is over contiguous memory
    # prefixes[t][b, k]: the logarithm of the sum over all prefixes of t + 1 tags that end in k
    prefixes = [start + by_time[0]]
    for emission in by_time[1:]:
        prefixes.append(torch.logsumexp(prefixes[-1].unsqueeze(1) + into, dim=2) + emission)
    # Sums after a sentence's last token are not used.
    return torch.logsumexp(_at_last(torch.stack(prefixes, dim=1), mask) + end, dim=1)


def log_partition_by_scan(emissions: Tensor, mask: Tensor, start: Tensor, transitions: Tensor, end: Tensor) -> Tensor:
    """As `log_partition`, in log2(T) steps: neighboring tokens are joined, then pairs, then groups of four, and so on.

    steps[b, t, i, j] is the logarithm of the sum over all paths from tag i to tag j within a group of tokens. Two
    groups are joined by a matrix product in the (logsumexp, +) semiring. K times the work, in few kernels.
    """
    tags = emissions.shape[2]
    # The identity of the semiring, for padding. Not -inf: its gradients are NaN.
    stay = torch.full((tags, tags), IMPOSSIBLE, dtype=emissions.dtype, device=emissions.device).fill_diagonal_(0)
    steps = torch.where(mask[:, 1:, None, None], transitions + emissions[:, 1:].unsqueeze(2), stay)
    while steps.shape[1] > 1:
        if steps.shape[1] % 2:
            steps = torch.cat([steps, stay.expand(len(steps), 1, tags, tags)], dim=1)
        steps = torch.logsumexp(steps[:, 0::2].unsqueeze(4) + steps[:, 1::2].unsqueeze(2), dim=3)
    paths = start + emissions[:, 0]  # (B, K), by the first tag
    if steps.shape[1]:
        paths = torch.logsumexp(paths.unsqueeze(2) + steps[:, 0], dim=1)  # by the last
    return torch.logsumexp(paths + end, dim=1)


def viterbi(
    emissions: Tensor, mask: Tensor, *, start: Tensor, transitions: Tensor, end: Tensor
) -> list[list[int]]:  # (B, T, K), (B, T), (K,), (K, K), (K,)
    """The sequence of tags with the largest score for each sentence; forbidden steps have the score -inf.

    Ties go to the lowest last tag, then to the lowest tag before it, and so on.

    >>> free, zeros = torch.zeros(2), torch.zeros(2, 2)
    >>> viterbi(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[True]]), start=free, transitions=zeros, end=free)
    [[1]]
    """
    if emissions.shape[1] == 0:
        return [[] for _ in emissions]
    by_time = emissions.unbind(dim=1)
    into = transitions.t()
    # best[t][b, k]: the largest score of t + 1 tags that end in k; previous[t]: the tag before that k
    best, previous = [start + by_time[0]], []
    for emission in by_time[1:]:
        # On every device torch.max returns the first of equal scores.
        scores, tags = (best[-1].unsqueeze(1) + into).max(dim=2)
        best.append(scores + emission)
        previous.append(tags)
    scores, last = (_at_last(torch.stack(best, dim=1), mask) + end).max(dim=1)
    # The first wait for the device.
    lengths = mask.sum(dim=1).cpu().numpy()
    _check_scores(scores.cpu().numpy(), lengths)
    pointers = torch.stack(previous).cpu().numpy() if previous else np.empty((0, 0, 0), dtype=np.int64)
    paths = _follow(pointers, last.cpu().numpy(), lengths)
    return [path[:length].tolist() for path, length in zip(paths, lengths, strict=True)]


def _follow(pointers: np.ndarray, last: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """All paths (B, T) from their last tags (B,) back to their first, by pointers (T - 1, B, K)."""
    sentences = np.arange(len(last))
    paths, tags = [last], last
    for step in range(len(pointers), 0, -1):
        # The last tag is repeated at padding.
        tags = np.where(step < lengths, pointers[step - 1, sentences, tags], tags)
        paths.append(tags)
    return np.stack(paths[::-1], axis=1)


def _check_scores(scores: np.ndarray, lengths: np.ndarray) -> None:
    failed = np.flatnonzero(~np.isfinite(scores) & (lengths > 0))
    if len(failed):
        raise InputError(
            f"sentence {failed[0]} of the batch has no best sequence of {lengths[failed[0]]} tags: either the allowed "
            "transitions permit no sequence of that length, or its emissions are not finite numbers"
        )


def _at_last(x: Tensor, mask: Tensor) -> Tensor:  # (B, T, K), (B, T) -> (B, K)
    """The row at each sentence's last token; for an empty sentence, the first row."""
    last = (mask.sum(dim=1) - 1).clamp_min(0)
    return x.gather(1, last.view(-1, 1, 1).expand(-1, 1, x.shape[2])).squeeze(1)


def _rows(table: Tensor, numbers: Tensor) -> Tensor:
    # Not table[numbers]: its gradients are summed in no fixed order.
    return nn.functional.embedding(numbers, table)
