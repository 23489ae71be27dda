"""The pointwise part of a step, forth and back, against the equations and autograd in float64."""

import math

import pytest
import torch
from torch import Tensor

from elmore.nn.recurrence import LstmStep, cell_backward, cell_forward, clip_output, clip_output_backward
from triton_here import DEVICE, needs_triton

DIRECTIONS, ROWS, CELLS = 2, 3, 5

# The tightest holds most cells, so that its effect on the gradients shows.
CLIPS = [0.25, 0.7, 1.0, math.inf]


def products(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, r, the bias and the cells before."""
    random = torch.Generator().manual_seed(3)
    gates = (DIRECTIONS, ROWS, 4 * CELLS)
    shapes = (gates, gates, (DIRECTIONS, 4 * CELLS), (DIRECTIONS, ROWS, CELLS))
    x, r, bias, before = (torch.randn(shape, generator=random, dtype=dtype) for shape in shapes)
    return x, r, bias, before


def empty_step(before: Tensor, *, gates: torch.dtype) -> LstmStep:
    """As the recurrence keeps it: slices of tensors that hold all steps."""
    whole = LstmStep(
        torch.full((DIRECTIONS, 4, ROWS, 4 * CELLS), math.nan, dtype=gates, device=before.device),
        before.new_full((DIRECTIONS, 4, ROWS, CELLS), math.nan),
        before.new_full((DIRECTIONS, 4, ROWS, CELLS), math.nan),
        torch.full((DIRECTIONS, 4, ROWS, CELLS), math.nan, dtype=gates, device=before.device),
    )
    step = LstmStep(*(part[:, 2] for part in whole))
    step.c_before.copy_(before)
    return step


def equations(x: Tensor, r: Tensor, bias: Tensor, before: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    i, j, f, o = (x + r + bias[:, None]).chunk(4, dim=-1)
    after = (torch.sigmoid(f) * before + torch.sigmoid(i) * torch.tanh(j)).clamp(-clip, clip)
    return after, torch.sigmoid(o) * torch.tanh(after)


@pytest.mark.parametrize("clip", CLIPS)
def test_a_step_forth_is_as_the_equations_say(clip):
    x, r, bias, before = products()
    step = empty_step(before, gates=torch.float64)
    cell_forward(x, r, bias, step, clip=clip)
    after, m = equations(x, r, bias, before, clip)
    torch.testing.assert_close(step.c_after, after, rtol=1e-12, atol=0)
    torch.testing.assert_close(step.m, m, rtol=1e-12, atol=0)
    assert torch.equal(step.c_before, before)
    assert (step.c_after.abs() == clip).any() == (clip <= 1)


@pytest.mark.parametrize("clip", CLIPS)
def test_a_step_back_is_what_autograd_finds(clip):
    x, r, bias, before = (part.requires_grad_() for part in products())
    after, m = equations(x, r, bias, before, clip)
    d_m, d_after = torch.randn_like(m), torch.randn_like(after)
    d_x, d_before = torch.autograd.grad([m, after], [x, before], [d_m, d_after])

    step = empty_step(before.detach(), gates=torch.float64)
    cell_forward(x.detach(), r.detach(), bias.detach(), step, clip=clip)
    d_z, d_c = torch.full_like(x, math.nan).detach(), d_after.clone()
    cell_backward(d_m, d_c, step, d_z, clip=clip)
    torch.testing.assert_close(d_z, d_x, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(d_c, d_before, rtol=1e-10, atol=1e-14)


def test_with_rounded_products_the_cells_stay_exact():
    x, r, bias, before = products(torch.float32)
    step = empty_step(before, gates=torch.bfloat16)
    cell_forward(x.bfloat16(), r.bfloat16(), bias, step, clip=3.0)
    assert step.c_after.dtype == torch.float32
    after, m = equations(x.double(), r.double(), bias.double(), before.double(), 3.0)
    torch.testing.assert_close(step.c_after.double(), after, rtol=0, atol=0.02)
    torch.testing.assert_close(step.m.double(), m, rtol=0, atol=0.02)
    # More than bfloat16 could hold.
    assert not torch.equal(step.c_after, step.c_after.bfloat16().float())


@needs_triton
@pytest.mark.parametrize("block", [4, 1024])
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_triton_kernels_do_the_same_in_one_block_and_in_several(clip, dtype, block, monkeypatch):
    from elmore.nn import triton_training

    monkeypatch.setattr(triton_training, "BLOCK", block)
    x, r, bias, before = products(torch.float32)
    x, r = x.to(dtype), r.to(dtype)
    d_m, d_after = torch.randn(DIRECTIONS, ROWS, CELLS).to(dtype), torch.randn(DIRECTIONS, ROWS, CELLS)

    step, d_z, d_c = empty_step(before, gates=dtype), torch.zeros_like(x), d_after.clone()
    cell_forward(x, r, bias, step, clip=clip)
    cell_backward(d_m, d_c, step, d_z, clip=clip)

    twin = empty_step(before.to(DEVICE), gates=dtype)
    twin_d_z, twin_d_c = torch.zeros_like(x, device=DEVICE), d_after.to(DEVICE, copy=True)
    triton_training.cell_forward(x.to(DEVICE), r.to(DEVICE), bias.to(DEVICE), twin, clip=clip)
    triton_training.cell_backward(d_m.to(DEVICE), twin_d_c, twin, twin_d_z, clip=clip)

    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 0.02, "atol": 0.02}
    for ours, theirs in zip((*step, d_z, d_c), (*twin, twin_d_z, twin_d_c), strict=True):
        torch.testing.assert_close(theirs.cpu(), ours, **tolerance)


def outputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    """What is to be clipped, and two gradients: slices of something larger, as the recurrence has them."""
    random = torch.Generator().manual_seed(4)
    return tuple(torch.randn(DIRECTIONS, 4, ROWS, CELLS, generator=random).to(dtype)[:, 2] for _ in range(3))


@pytest.mark.parametrize("clip", CLIPS)
def test_the_clip_of_an_output_and_its_gradient_are_autograds(clip):
    projected, d_h, d_next = outputs()
    leaf = projected.clone().requires_grad_()
    expected = leaf.clamp(-clip, clip)
    h, d_projected = torch.full_like(projected, math.nan), torch.full_like(projected, math.nan)
    clip_output(projected, h, clip=clip)
    assert torch.equal(h, expected)
    clip_output_backward(d_h, d_next, h, d_projected, clip=clip)
    torch.testing.assert_close(d_projected, torch.autograd.grad(expected, leaf, d_h + d_next)[0], rtol=1e-12, atol=0)


@needs_triton
@pytest.mark.parametrize("block", [4, 1024])
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_triton_kernels_clip_alike(clip, dtype, block, monkeypatch):
    from elmore.nn import triton_training

    monkeypatch.setattr(triton_training, "BLOCK", block)
    here = outputs(dtype)
    there = tuple(part.to(DEVICE, copy=True) for part in here)
    h, d_projected, twin_h, twin_d_projected = (torch.zeros_like(part) for part in (*here[:2], *there[:2]))
    clip_output(here[0], h, clip=clip)
    clip_output_backward(here[1], here[2], h, d_projected, clip=clip)
    triton_training.clip_output(there[0], twin_h, clip=clip)
    triton_training.clip_output_backward(there[1], there[2], twin_h, twin_d_projected, clip=clip)
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 0.01, "atol": 0.01}
    torch.testing.assert_close(twin_h.cpu(), h, **tolerance)
    torch.testing.assert_close(twin_d_projected.cpu(), d_projected, **tolerance)
