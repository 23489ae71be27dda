"""What is read at a time: a window of the corpus for every row and direction, and the distinct words in it.

The stream of a corpus is cut into as many contiguous rows as are read side by side. Forwards a row is read from its
start, backwards from its end, so that the state left by one window is the right start for the next. Everything follows
from the number of the window and the seed: a run that goes on after a stop reads what it would have. A step of the
optimizer reads one window, or several whose gradients are added up.

G directions, T steps, R rows, W distinct words.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmore.config import Direction
from elmore.errors import InputError
from elmore.pretraining.sampling import LogUniformSampler, Negatives

THREADS, WINDOWS_AHEAD = 3, 8

# The first two types, <S> and </S>; in the stream every boundary is 0, whichever way it is read.
BEGIN_TYPE, END_TYPE = 0, 1


@dataclass(frozen=True)
class Window:
    """Inputs and targets, to be read in one go."""

    number: int  # from 0
    types: NDArray[np.int64]  # (W,) the distinct words, as rows of the table of types
    inputs: NDArray[np.int64]  # (G, T, R) which of them stands where
    targets: NDArray[np.int64]  # (G, T, R) the classes to predict
    negatives: Negatives | None


@dataclass(frozen=True, kw_only=True)
class WindowPlan:
    """How a stream is read."""

    batch_size: int  # rows, of all processes together
    length: int = 20  # words that a row reads in a window
    seed: int = 1
    directions: tuple[Direction, ...] = ("forward", "backward")

    @property
    def tokens(self) -> int:
        """How many places of the stream one window reads."""
        return self.batch_size * self.length


class Windows:
    """The windows of a stream, by their number."""

    def __init__(
        self,
        stream: NDArray[np.uint32],
        classes: NDArray[np.uint32],
        plan: WindowPlan,
        *,
        sampler: LogUniformSampler | None = None,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        if plan.batch_size % processes:
            raise InputError(f"{plan.batch_size} rows cannot be shared evenly by {processes} processes")
        # A pair of input and target spans two places, so there is one pair less than places.
        pairs = len(stream) - 1
        self.per_epoch = pairs // plan.tokens
        if self.per_epoch == 0:
            raise InputError(
                f"the corpus has {len(stream):,} tokens, too few for {plan.batch_size} rows of {plan.length} steps; "
                "take fewer rows, or a shorter window (training.batch_size, training.window)"
            )
        self.stream, self.classes, self.plan, self.sampler = stream, classes, plan, sampler
        self._stride = pairs // plan.batch_size
        self._span = self.per_epoch * plan.length  # of each row, the part that fills whole windows
        share = plan.batch_size // processes
        self._rows = np.arange(rank * share, (rank + 1) * share)

    def __getitem__(self, number: int) -> Window:
        epoch, place = divmod(number, self.per_epoch)
        # What does not fill a window is left out, at another place in each epoch.
        shift = np.random.default_rng([self.plan.seed, epoch]).integers(self._stride - self._span + 1)
        starts = self._rows * self._stride + shift  # (R,)
        read = place * self.plan.length + np.arange(self.plan.length)[:, None]  # (T, 1)
        pairs = [self._pair(direction, starts, read) for direction in self.plan.directions]
        inputs = np.stack([inputs for inputs, _ in pairs])
        types, where = _distinct(inputs, among=len(self.classes))
        negatives = self.sampler.draw([self.plan.seed, number]) if self.sampler else None
        return Window(number, types, where, np.stack([targets for _, targets in pairs]), negatives)

    def _pair(
        self, direction: Direction, starts: NDArray[np.int64], read: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        forward = direction == "forward"
        places = starts + read if forward else starts + self._span - read  # (T, R)
        inputs = self.stream[places].astype(np.int64)
        targets = self.stream[places + 1 if forward else places - 1].astype(np.int64)
        opens, closes = (BEGIN_TYPE, END_TYPE) if forward else (END_TYPE, BEGIN_TYPE)
        inputs[inputs == 0] = opens
        targets[targets == 0] = closes
        return inputs, self.classes[targets].astype(np.int64)

    def prefetch(self, first: int, last: int) -> Iterator[Window]:
        """The windows `first` to `last`, made by a few threads while others are being used."""
        with ThreadPoolExecutor(THREADS) as pool:
            waiting: deque[Future[Window]] = deque()
            try:
                for number in range(first, last):
                    waiting.append(pool.submit(self.__getitem__, number))
                    if len(waiting) > WINDOWS_AHEAD:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for window in waiting:
                    window.cancel()


def _distinct(numbers: NDArray[np.int64], *, among: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct numbers, rising, and for each number its place among them; np.unique would sort, and take longer."""
    present = np.zeros(among, dtype=bool)
    present[numbers] = True
    distinct = np.flatnonzero(present)
    places = np.empty(among, dtype=np.int64)
    places[distinct] = np.arange(len(distinct))
    return distinct, places[numbers]
