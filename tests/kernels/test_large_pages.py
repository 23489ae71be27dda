"""Memory in large pages: as any other to whoever uses it."""

import mmap
import re
from pathlib import Path

import pytest
import torch

from elmore.kernels.large_pages import LARGE_PAGE, empty_in_large_pages
from elmore.kernels.native_library import Number
from elmore.kernels.native_packing import pack, unpack

THERE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def asks_for_large_pages(address: int) -> bool:
    """Whether the memory at an address is of those for which large pages were asked."""
    for area in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
        start, end = (int(border, 16) for border in area.split(" ", 1)[0].split("-"))
        if start <= address < end:
            return " hg" in area[area.index("VmFlags:") :]
    raise AssertionError("the address is nowhere")


@pytest.mark.skipif(not THERE.exists(), reason="needs a system with large pages")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_a_large_tensor_lies_at_the_start_of_a_large_page(dtype: torch.dtype) -> None:
    tensor = empty_in_large_pages((3, LARGE_PAGE), dtype)
    assert tensor.shape == (3, LARGE_PAGE)
    assert tensor.dtype == dtype
    assert tensor.is_contiguous()
    assert tensor.data_ptr() % LARGE_PAGE == 0
    assert asks_for_large_pages(tensor.data_ptr())


@pytest.mark.skipif(not THERE.exists(), reason="needs a system with large pages")
def test_a_small_tensor_is_an_ordinary_one() -> None:
    assert not asks_for_large_pages(empty_in_large_pages((3, 5), torch.float32).data_ptr())


def test_without_large_pages_memory_is_ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(mmap.mmap):
        def madvise(self, *_given: int) -> None:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Refusing)
    assert empty_in_large_pages((LARGE_PAGE,), torch.float32).fill_(1).sum() == LARGE_PAGE


def test_a_matrix_of_many_pages_comes_back_to_the_bit() -> None:
    weights = torch.randn(2, 1000, 777)
    packed = pack(weights, Number.FLOAT32, lanes=16)
    assert packed.panels.nbytes > LARGE_PAGE
    assert torch.equal(unpack(packed, 1000, 777), weights)
