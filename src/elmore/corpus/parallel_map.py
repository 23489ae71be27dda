"""Map a function in several processes, with the results in the order of the items."""

import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context
from typing import TypeVar

from elmore.cpus import MOST_PROCESSES
from elmore.errors import ElmoreError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Items in work for each process: enough that no process waits, and few enough that memory is bounded.
LOOKAHEAD = 3


def parallel_map(function: Callable[[_Item], _Result], items: Iterable[_Item], *, workers: int) -> Iterator[_Result]:
    """Like `map`, in several processes; only a few items are read ahead of the results.

    The function must be importable by name. A single item starts no process. Where the system limits the
    number of processes that a pool can have (61 on Windows), `workers` is limited to that number.

    >>> list(parallel_map(str.upper, ["a", "b"], workers=1))
    ['A', 'B']
    """
    source = iter(items)
    first = list(islice(source, 2))
    if workers == 1 or len(first) < 2:
        yield from map(function, chain(first, source))
        return
    workers = min(workers, MOST_PROCESSES)
    waiting: deque[Future[_Result]] = deque()
    # Spawned, because a process that has threads (torch, a progress bar) must not be forked.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_initialize_worker)
    try:
        for item in chain(first, source):
            waiting.append(pool.submit(function, item))
            if len(waiting) >= LOOKAHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise ElmoreError(
            "a worker process died, perhaps because memory was exhausted; try fewer workers. "
            '(A Python script must call this under: if __name__ == "__main__":)'
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _initialize_worker() -> None:
    # Ctrl-C reaches every process of a terminal, and each process would print the same warnings.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
