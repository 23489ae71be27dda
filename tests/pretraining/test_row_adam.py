"""Adam by rows is Adam for the rows an update touches, and nothing for the others."""

import pytest
import torch
from torch import Tensor, nn

from elmore.pretraining.row_adam import RowAdam
from triton_here import DEVICE, needs_triton


def gradients(shape: tuple[int, ...], *, steps: int = 6, share: float = 1.0) -> list[Tensor]:
    """Random ones, of which each row is zero with the probability that is left of `share`."""
    random = torch.Generator().manual_seed(1)
    rows = (shape[0], *(1 for _ in shape[1:]))
    return [torch.randn(shape, generator=random) * (torch.rand(rows, generator=random) < share) for _ in range(steps)]


def moved(optimizer: type[torch.optim.Optimizer], slopes: list[Tensor], **options: object) -> Tensor:
    parameter = nn.Parameter(torch.linspace(-1, 1, slopes[0].numel()).view(slopes[0].shape))
    steps = optimizer([parameter], **options)
    for slope in slopes:
        parameter.grad = slope.clone()
        steps.step()
    return parameter.detach()


@pytest.mark.parametrize("shape", [(4, 3), (7,), (2, 3, 4)])
@pytest.mark.parametrize("options", [{"lr": 0.1}, {"lr": 0.01, "betas": (0.5, 0.9), "eps": 1e-3}])
def test_with_all_rows_touched_it_is_the_adam_of_torch(shape, options):
    slopes = gradients(shape)
    torch.testing.assert_close(moved(RowAdam, slopes, **options), moved(torch.optim.Adam, slopes, **options))


def test_a_row_goes_the_way_it_would_go_alone():
    slopes = gradients((5, 3), steps=12, share=0.4)
    together = moved(RowAdam, slopes, lr=0.1)
    start = torch.linspace(-1, 1, 15).view(5, 3)
    for row in range(5):
        own = [slope[row : row + 1] for slope in slopes if slope[row].any()]
        assert 0 < len(own) < 12
        alone = nn.Parameter(start[row : row + 1].clone())
        optimizer = torch.optim.Adam([alone], lr=0.1)
        for slope in own:
            alone.grad = slope
            optimizer.step()
        torch.testing.assert_close(together[row], alone.detach()[0])


def test_an_untouched_row_and_its_averages_stay_bit_for_bit():
    table = nn.Parameter(torch.randn(6, 4))
    optimizer = RowAdam([table], lr=0.1)
    table.grad = torch.randn(6, 4)
    optimizer.step()
    state = optimizer.state[table]
    before = [part.clone() for part in (table.detach(), state["mean"], state["square"], state["steps"])]
    slope = torch.zeros(6, 4)
    slope[2, 3], slope[4] = 1e-20, 1.0
    table.grad = slope
    optimizer.step()
    for was, now in zip(before, (table.detach(), state["mean"], state["square"], state["steps"]), strict=True):
        untouched = [0, 1, 3, 5]
        assert torch.equal(now[untouched], was[untouched])
        assert not torch.equal(now[2], was[2])
        assert not torch.equal(now[4], was[4])
    assert state["steps"].tolist() == [1, 1, 2, 1, 2, 1]


def test_a_parameter_without_gradient_is_left_alone():
    table = nn.Parameter(torch.ones(2, 2))
    optimizer = RowAdam([table], lr=0.1)
    optimizer.step()
    assert (table == 1).all()
    assert not optimizer.state


def test_it_goes_on_from_its_state_as_if_it_had_not_stopped():
    slopes = gradients((5, 3), steps=8, share=0.5)
    through = moved(RowAdam, slopes, lr=0.1)

    table = nn.Parameter(torch.linspace(-1, 1, 15).view(5, 3))
    first = RowAdam([table], lr=0.1)
    for slope in slopes[:4]:
        table.grad = slope
        first.step()
    second = RowAdam([table], lr=0.7)
    second.load_state_dict(first.state_dict())
    for slope in slopes[4:]:
        table.grad = slope
        second.step()
    assert torch.equal(table.detach(), through)


@needs_triton
@pytest.mark.parametrize("shape", [(7, 5), (9, 1)])
def test_the_triton_kernel_moves_the_same_rows_as_far(shape):
    from elmore.pretraining import triton_row_adam

    slopes = gradients(shape, steps=8, share=0.5)
    table = torch.linspace(-1, 1, slopes[0].numel()).view(shape).to(DEVICE)
    mean, square, steps = torch.zeros_like(table), torch.zeros_like(table), torch.zeros(len(table), device=DEVICE)
    for slope in slopes:
        triton_row_adam.update(table, slope.to(DEVICE), mean, square, steps, lr=0.1, betas=(0.9, 0.999), eps=1e-8)
    torch.testing.assert_close(table.cpu(), moved(RowAdam, slopes, lr=0.1), rtol=1e-6, atol=1e-6)
    assert steps.tolist() == [sum(bool(slope[row].any()) for slope in slopes) for row in range(len(table))]


class TestTheFirstStepsOfARow:
    """Where 1 - beta ** steps is next to nothing, and most of it would be rounding."""

    BETAS = (0.9, 0.999)

    def moves(self, counts: Tensor) -> Tensor:
        """How far rows with so many steps behind them, and averages of zero, go for a gradient of one."""
        (beta1, beta2), steps = self.BETAS, counts.double() + 1
        mean, square = (1 - beta1) / (1 - beta1**steps), (1 - beta2) / (1 - beta2**steps)
        return -mean / square.sqrt()

    def test_are_as_far_as_they_should_be(self):
        counts = torch.arange(100.0)
        table = nn.Parameter(torch.zeros(100, 1))
        optimizer = RowAdam([table], lr=1.0, betas=self.BETAS, eps=0.0)
        zeros = torch.zeros(100, 1)
        optimizer.state[table] = {"mean": zeros.clone(), "square": zeros.clone(), "steps": counts.clone()}
        table.grad = torch.ones(100, 1)
        optimizer.step()
        torch.testing.assert_close(table.detach()[:, 0].double(), self.moves(counts), rtol=5e-7, atol=0)

    @needs_triton
    def test_are_as_far_by_the_triton_kernel(self):
        from elmore.pretraining import triton_row_adam

        counts = torch.arange(100.0)
        table, mean, square = (torch.zeros(100, 1, device=DEVICE) for _ in range(3))
        slope, steps = torch.ones(100, 1, device=DEVICE), counts.to(DEVICE, copy=True)
        triton_row_adam.update(table, slope, mean, square, steps, lr=1.0, betas=self.BETAS, eps=0.0)
        torch.testing.assert_close(table.cpu()[:, 0].double(), self.moves(counts), rtol=1e-6, atol=0)
