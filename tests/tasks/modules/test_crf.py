"""The CRF, against enumeration of all sequences of tags."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from elmore.errors import InputError
from elmore.tasks.modules.crf import AllowedTransitions, LinearChainCrf, log_partition, log_partition_by_scan
from ragged_batches import ragged_mask, random_tensor, some_lengths
from reference.strategies import patiently, seeds

some_tags = st.integers(1, 3)
Sequence = tuple[int, ...]


def random_crf(seed: int, tags: int, allowed: AllowedTransitions | None = None) -> LinearChainCrf:
    """In float64, with transitions as large as the emissions."""
    crf = LinearChainCrf(tags, transitions_allowed=allowed).double()
    with torch.no_grad():
        for number, parameter in enumerate(crf.parameters()):
            parameter.copy_(random_tensor(seed + number + 1, *parameter.shape))
    return crf


def random_allowed(seed: int, tags: int) -> AllowedTransitions:
    return AllowedTransitions(*(random_tensor(seed + 9, *shape) > -0.5 for shape in ((tags,), (tags, tags), (tags,))))


def enumerated(crf: LinearChainCrf, emissions: Tensor) -> dict[Sequence, float]:
    """The score of every sequence of tags of one sentence (T, K), term by term."""
    start, pairs, end = (
        part.detach().numpy() for part in (crf.start_transitions, crf.transitions, crf.end_transitions)
    )
    e = emissions.detach().numpy()
    scores = {}
    for path in itertools.product(range(crf.num_tags), repeat=len(e)):
        scores[path] = sum(e[place, tag] for place, tag in enumerate(path))
        scores[path] += sum(pairs[before, after] for before, after in itertools.pairwise(path))
        if path:
            scores[path] += start[path[0]] + end[path[-1]]
    return scores


def is_allowed(path: Sequence, allowed: AllowedTransitions) -> bool:
    inside = all(allowed.pairs[before, after] for before, after in itertools.pairwise(path))
    return not path or bool(allowed.starts[path[0]] and inside and allowed.ends[path[-1]])


def best_of(scores: dict[Sequence, float]) -> Sequence:
    """Of equally good sequences, the one with the lowest last tag, then the lowest before it, and so on."""
    best = max(scores.values())
    return min((path for path, score in scores.items() if score == best), key=lambda path: path[::-1])


@patiently
@given(seeds, some_lengths, some_tags)
def test_the_likelihood_is_that_of_all_sequences_enumerated(seed: int, lengths: list[int], tags: int) -> None:
    crf, mask = random_crf(seed, tags), ragged_mask(lengths)
    emissions = 3 * random_tensor(seed, *mask.shape, tags)
    gold = torch.randint(0, tags, mask.shape, generator=torch.Generator().manual_seed(seed))
    # Padding is numbered as people number it.
    found = crf.log_likelihood(emissions, gold.masked_fill(~mask, -100), mask).detach()
    for row, length in enumerate(lengths):
        scores = enumerated(crf, emissions[row, :length])
        partition = np.log(np.sum(np.exp(list(scores.values()))))
        assert found[row].item() == pytest.approx(scores[tuple(gold[row, :length].tolist())] - partition, abs=1e-9)


@patiently
@given(seeds, some_lengths.filter(any), some_tags)
def test_joined_pair_by_pair_the_sum_and_its_gradients_are_those_of_the_loop(
    seed: int, lengths: list[int], tags: int
) -> None:
    mask = ragged_mask(lengths)
    parameters = tuple(random_crf(seed, tags)._free_parameters())
    emissions = (3 * random_tensor(seed, *mask.shape, tags)).masked_fill(~mask.unsqueeze(2), 0).requires_grad_()
    values, gradients = [], []
    for function in (log_partition, log_partition_by_scan):
        found = function(emissions, mask, *parameters)[mask[:, 0]]
        values.append(found.detach())
        weights = torch.arange(1, len(found) + 1, dtype=torch.float64)
        gradients.append(torch.autograd.grad((found * weights).sum(), (emissions, *parameters), materialize_grads=True))
    torch.testing.assert_close(*values)
    for of_loop, of_scan in zip(*gradients, strict=True):
        torch.testing.assert_close(of_scan, of_loop)


def test_the_probabilities_of_all_sequences_of_a_length_sum_to_one() -> None:
    crf, emissions = random_crf(3, 3), random_tensor(3, 4, 3)
    paths = torch.tensor(list(itertools.product(range(3), repeat=4)))
    likelihoods = crf.log_likelihood(emissions.expand(len(paths), 4, 3), paths, torch.ones(len(paths), 4).bool())
    assert likelihoods.exp().sum().item() == pytest.approx(1, abs=1e-12)


class _Likelihood(torch.nn.Module):
    def __init__(self, crf: LinearChainCrf) -> None:
        super().__init__()
        self.crf = crf

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        return self.crf.log_likelihood(emissions, tags, mask)


@pytest.mark.parametrize("lengths", [[3, 1, 0, 2], [1], [4], [0]])
def test_gradients_are_those_of_differences(lengths: list[int]) -> None:
    crf, mask = random_crf(5, 3), ragged_mask(lengths, places=4)
    gold = torch.randint(0, 3, mask.shape, generator=torch.Generator().manual_seed(5))

    def likelihood(emissions: Tensor, *parameters: Tensor) -> Tensor:
        names = [f"crf.{name}" for name, _ in crf.named_parameters()]
        weights = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(_Likelihood(crf), weights, (emissions, gold, mask))

    inputs = [random_tensor(6, *mask.shape, 3), *crf.parameters()]
    assert torch.autograd.gradcheck(likelihood, [one.detach().requires_grad_() for one in inputs])


@patiently
@given(seeds, some_lengths, some_tags)
def test_what_is_decoded_is_the_best_allowed_sequence_enumerated(seed: int, lengths: list[int], tags: int) -> None:
    allowed = random_allowed(seed, tags)
    crf, mask = random_crf(seed, tags, allowed), ragged_mask(lengths)
    emissions = random_tensor(seed, *mask.shape, tags)
    expected = []
    for row, length in enumerate(lengths):
        scores = enumerated(crf, emissions[row, :length])
        scores = {path: score for path, score in scores.items() if is_allowed(path, allowed)}
        expected.append(list(best_of(scores)) if scores else None)
    if None in expected:
        with pytest.raises(InputError, match=f"sentence {expected.index(None)} of the batch has no best sequence"):
            crf.decode(emissions, mask)
    else:
        assert crf.decode(emissions, mask) == expected


def test_of_equally_good_sequences_always_the_same_one_is_decoded() -> None:
    crf, mask = random_crf(0, 3), torch.ones(50, 3).bool()
    for parameter in crf.parameters():
        parameter.detach().sign_()
    emissions = random_tensor(0, 50, 3, 3).sign()  # sums of ones, which are exact, and often equal
    emissions[0] = 0
    scores = [enumerated(crf, sentence) for sentence in emissions]
    assert sum(list(one.values()).count(max(one.values())) > 1 for one in scores) > 20
    assert crf.decode(emissions, mask) == [list(best_of(one)) for one in scores]


# O, B-X, I-X: I-X never first, and only behind B-X or I-X.
BIO = AllowedTransitions(
    starts=torch.tensor([True, True, False]),
    pairs=torch.tensor([[True, True, False], [True, True, True], [True, True, True]]),
    ends=torch.tensor([True, True, True]),
)


def test_forbidden_tags_never_come_out_however_much_better_they_are() -> None:
    crf = LinearChainCrf(3, transitions_allowed=BIO)
    emissions = torch.tensor([[[0.0, -1e6, 1e6], [1e5, 0.0, 0.0], [0.0, -1e3, 1e6]]])
    # Without the rules I O I. With them O B I, though O costs 1e6 and B 1e5; B I I would cost 2e6.
    assert LinearChainCrf(3).decode(emissions, torch.ones(1, 3).bool()) == [[2, 0, 2]]
    assert crf.decode(emissions, torch.ones(1, 3).bool()) == [[0, 1, 2]]
    no_end_in_i = BIO._replace(ends=torch.tensor([True, True, False]))
    assert LinearChainCrf(3, transitions_allowed=no_end_in_i).decode(emissions, torch.ones(1, 3).bool()) == [[0, 0, 0]]


def test_the_rules_of_decoding_do_not_change_what_is_trained() -> None:
    torch.manual_seed(0)
    free = LinearChainCrf(3)
    bound = LinearChainCrf(3, transitions_allowed=BIO)
    bound.load_state_dict(free.state_dict())
    emissions, gold, mask = torch.randn(2, 4, 3), torch.randint(0, 3, (2, 4)), ragged_mask([4, 2])
    assert torch.equal(free.log_likelihood(emissions, gold, mask), bound.log_likelihood(emissions, gold, mask))


@pytest.mark.parametrize("lengths", [[5, 3, 1, 0], [1], [2, 2]])
def test_a_sentence_is_scored_and_decoded_alike_alone_and_padded_with_anything(lengths: list[int]) -> None:
    crf = random_crf(1, 4)
    mask = ragged_mask(lengths, places=7)
    emissions, gold = random_tensor(1, len(lengths), 7, 4), torch.randint(0, 4, mask.shape)
    emissions = emissions.masked_fill(~mask[..., None], 1e6)
    together, paths = crf.log_likelihood(emissions, gold, mask), crf.decode(emissions, mask)
    for row, length in enumerate(lengths):
        one = (slice(row, row + 1), slice(0, length))
        alone = crf.log_likelihood(emissions[one], gold[one], mask[one])
        torch.testing.assert_close(together[row : row + 1], alone, rtol=0, atol=1e-12)
        assert crf.decode(emissions[one], mask[one]) == [paths[row]]
        assert len(paths[row]) == length


def test_an_empty_sentence_is_certain_and_can_be_trained_on() -> None:
    crf, emissions = LinearChainCrf(3), torch.randn(2, 0, 3, requires_grad=True)
    likelihood = crf.log_likelihood(emissions, torch.zeros(2, 0).long(), torch.zeros(2, 0).bool())
    assert likelihood.tolist() == [0, 0]
    likelihood.sum().backward()
    assert crf.decode(emissions, torch.zeros(2, 0).bool()) == [[], []]


def test_under_autocast_all_is_in_float32() -> None:
    torch.manual_seed(2)
    crf, mask = LinearChainCrf(5), ragged_mask([30, 7])
    emissions = (4 * torch.randn(2, 30, 5)).bfloat16()
    gold = torch.randint(0, 5, mask.shape)
    expected = crf.log_likelihood(emissions.float(), gold, mask)
    with torch.autocast("cpu", torch.bfloat16):
        found, paths = crf.log_likelihood(emissions, gold, mask), crf.decode(emissions, mask)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)
    assert paths == crf.decode(emissions.float(), mask)


def test_a_long_sentence_of_large_emissions_is_scored_to_four_digits_in_float32() -> None:
    crf, mask = random_crf(4, 5), torch.ones(1, 400).bool()
    emissions = random_tensor(4, 1, 400, 5) + 1000
    gold = crf.decode(emissions, mask)
    expected = crf.log_likelihood(emissions, torch.tensor(gold), mask).item()
    assert expected < -1  # so that there is something to lose
    found = crf.float().log_likelihood(emissions.float(), torch.tensor(gold), mask).item()
    # The emissions themselves are rounded to 2**-15 each, and differ by some 1e-3 after 400.
    assert found == pytest.approx(expected, abs=1e-2)


class _ReadsOfNumbers(TorchDispatchMode):
    """Counts what would have the host wait for a GPU: numbers read, and shapes that depend on them."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        waiting = ("_local_scalar_dense", "nonzero", "masked_select", "unique")
        self.count += any(name in str(function) for name in waiting)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("work", ["log_likelihood", "decode"])
def test_no_number_is_asked_of_the_device_in_between(work: str) -> None:
    crf, mask = LinearChainCrf(3), ragged_mask([6, 2, 0])
    emissions, gold = torch.randn(3, 6, 3), torch.zeros(3, 6).long()
    calls: dict[str, Callable[[], Any]] = {
        "log_likelihood": lambda: crf.log_likelihood(emissions, gold, mask).sum().backward(),
        "decode": lambda: crf.decode(emissions, mask),
    }
    with _ReadsOfNumbers() as reads:
        calls[work]()
    assert reads.count == 0
    with _ReadsOfNumbers() as reads:
        emissions.sum().item()
    assert reads.count == 1  # and it would have been seen


def test_what_is_saved_is_what_was_learned() -> None:
    shapes = {name: tuple(one.shape) for name, one in LinearChainCrf(3, transitions_allowed=BIO).state_dict().items()}
    assert shapes == {"start_transitions": (3,), "transitions": (3, 3), "end_transitions": (3,)}


def test_rules_and_emissions_of_another_number_of_tags_are_refused() -> None:
    with pytest.raises(InputError, match=r"starts of transitions_allowed is \(3,\) of torch.bool; with 4 tags"):
        LinearChainCrf(4, transitions_allowed=BIO)
    with pytest.raises(InputError, match="this CRF has 3 tags"):
        LinearChainCrf(3).decode(torch.zeros(1, 2, 1), torch.ones(1, 2).bool())


def test_emissions_that_are_no_numbers_are_refused_and_not_decoded() -> None:
    emissions = torch.zeros(2, 3, 3)
    emissions[1, 1, 0] = torch.nan
    with pytest.raises(InputError, match=r"sentence 1 of the batch .* 3 tags: .* not finite"):
        LinearChainCrf(3, transitions_allowed=BIO).decode(emissions, torch.ones(2, 3).bool())


@pytest.mark.usefixtures("two_threads")
def test_gradients_have_the_same_bits_every_time() -> None:
    torch.manual_seed(6)
    crf, mask = LinearChainCrf(17), torch.ones(2000, 5).bool()
    emissions, gold = torch.randn(2000, 5, 17), torch.randint(0, 17, (2000, 5))
    seen = []
    for _ in range(5):
        crf.zero_grad()
        crf.log_likelihood(emissions, gold, mask).square().sum().backward()
        seen.append(torch.cat([parameter.grad.flatten() for parameter in crf.parameters()]))
    assert all(torch.equal(one, seen[0]) for one in seen)
