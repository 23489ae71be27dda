"""Work is shared by processes, comes back in order, and is never taken far ahead."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from elmore.corpus import parallel_map as module
from elmore.corpus.parallel_map import LOOKAHEAD, parallel_map
from elmore.errors import ElmoreError


def test_results_come_in_order_and_items_are_taken_only_a_few_ahead():
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for taken in range(1, 41):
            yield -taken

    results = parallel_map(abs, items(), workers=2)
    for number in range(1, 41):
        assert next(results) == number
        assert taken <= number + 2 * LOOKAHEAD
    assert next(results, None) is None


def test_a_process_that_dies_is_told_in_a_sentence():
    with pytest.raises(ElmoreError, match=r"a worker process died.*try fewer workers"):
        list(parallel_map(os._exit, [1, 1, 1], workers=2))


@pytest.mark.parametrize(("items", "workers"), [([b"a"], 8), ([b"a", b"b"], 1)])
def test_no_process_is_started_for_one_item_or_one_worker(items, workers):
    here = {os.getpid()}
    assert set(parallel_map(_process, items, workers=workers)) == here


def test_parallel_map_starts_no_more_processes_than_system_allows(monkeypatch):
    class WindowsPool(ProcessPoolExecutor):
        def __init__(self, max_workers: int, **options: object) -> None:
            assert max_workers <= 2
            super().__init__(max_workers, **options)

    monkeypatch.setattr(module, "MOST_PROCESSES", 2)
    monkeypatch.setattr(module, "ProcessPoolExecutor", WindowsPool)
    assert list(parallel_map(abs, [-1, -2, -3], workers=100)) == [1, 2, 3]


def _process(_: bytes) -> int:
    return os.getpid()
