"""Variational dropout: one mask for all tokens of a sentence."""

import pytest
import torch

from elmore.errors import InputError
from elmore.tasks.modules.dropout import VariationalDropout


def test_a_feature_is_dropped_at_all_tokens_of_a_sentence_or_at_none() -> None:
    torch.manual_seed(0)
    dropped = VariationalDropout(0.25)(torch.ones(3, 4, 200))
    assert torch.equal(dropped, dropped[:, :1].expand(3, 4, 200))
    # What is kept makes up for what is not: 1 / (1 - 0.25).
    assert dropped.unique().tolist() == [0, pytest.approx(4 / 3)]
    assert not torch.equal(dropped[0], dropped[1])  # each sentence has a mask of its own
    # 600 draws: five standard deviations of the share kept are 0.09.
    assert (dropped[:, 0] > 0).double().mean().item() == pytest.approx(0.75, abs=0.09)


def test_draws_follow_from_torchs_generator_alone() -> None:
    dropout, x = VariationalDropout(0.5), torch.randn(2, 3, 50)
    torch.manual_seed(7)
    first = dropout(x)
    torch.randn(3)
    assert not torch.equal(dropout(x), first)
    torch.manual_seed(7)
    assert torch.equal(dropout(x), first)


def test_nothing_is_dropped_or_drawn_outside_of_training() -> None:
    x, state = torch.randn(2, 3, 5), torch.get_rng_state()
    assert VariationalDropout(0.5).eval()(x) is x
    assert VariationalDropout(0.0)(x) is x
    assert torch.equal(torch.get_rng_state(), state)
    assert not VariationalDropout(1.0)(x).any()


@pytest.mark.parametrize("shape", [(0, 3, 5), (2, 0, 5), (1, 1, 5)])
def test_a_batch_may_be_empty(shape: tuple[int, ...]) -> None:
    assert VariationalDropout(0.5)(torch.ones(shape)).shape == shape


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(probability: float) -> None:
    with pytest.raises(InputError, match="must be from 0 to 1"):
        VariationalDropout(probability)
