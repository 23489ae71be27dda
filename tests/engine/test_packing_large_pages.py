"""Memory in large pages."""

import mmap
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmore.engine import packing
from elmore.engine.packing import LARGE_PAGE, empty_in_large_pages

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
needs_large_pages = pytest.mark.skipif(not SETTING.exists(), reason="needs a system with large pages")


def has_advice_for_large_pages(address: int) -> bool:
    """Whether the mapping at an address has the flag of madvise(MADV_HUGEPAGE)."""
    for area in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
        start, end = (int(border, 16) for border in area.split(" ", 1)[0].split("-"))
        if start <= address < end:
            return " hg" in area[area.index("VmFlags:") :]
    raise AssertionError("no mapping contains the address")


@needs_large_pages
@pytest.mark.parametrize("dtype", [np.float32, np.uint16, np.int8])
def test_empty_in_large_pages_starts_large_array_at_large_page(dtype: Any) -> None:
    array = empty_in_large_pages((3, LARGE_PAGE), dtype)
    assert array.shape == (3, LARGE_PAGE)
    assert array.dtype == dtype
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.ctypes.data % LARGE_PAGE == 0
    assert has_advice_for_large_pages(array.ctypes.data)


@needs_large_pages
def test_empty_in_large_pages_starts_at_a_page_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    # Many systems start each mapping at a large page, but not at a page of this size.
    monkeypatch.setattr(packing, "LARGE_PAGE", 2**28)
    array = empty_in_large_pages((2**28,), np.uint8)
    assert array.ctypes.data % 2**28 == 0
    assert len(array) == 2**28


def test_empty_in_large_pages_returns_ordinary_small_array() -> None:
    # Not a check of the flag: NumPy may place a small array in memory that has it.
    assert empty_in_large_pages((3, 5), np.float32).base is None
    assert empty_in_large_pages((3, LARGE_PAGE), np.float32).base is not None or not SETTING.exists()


def test_empty_in_large_pages_works_where_madvise_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(mmap.mmap):
        def madvise(self, *_given: int) -> None:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Refusing)
    array = empty_in_large_pages((LARGE_PAGE,), np.float32)
    array.fill(1)
    assert array.sum() == LARGE_PAGE
