"""The batches of pre-training: a window of the corpus for every row and direction, and sampled negatives.

The stream of a corpus is divided into contiguous rows. Forward rows are read from their start, backward rows from their
end, so that the final LSTM state of one window is the initial state of the next. A window depends only on its number
and the seed, so that a resumed run reads the same windows. An optimizer step uses one window, or several with
accumulated gradients.

G directions, T steps, R rows, W distinct words, V classes.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.config import Direction
from elmore.errors import InputError
from elmore.text.vocabulary import log_uniform_probabilities

THREADS, WINDOWS_AHEAD = 3, 8

# The first two types, <S> and </S>. In the stream every sentence boundary is 0, for both directions.
BEGIN_TYPE, END_TYPE = 0, 1


class Negatives(NamedTuple):
    """Classes sampled for one window."""

    classes: NDArray[np.int64]  # (n,) distinct
    tries: int  # number of draws


@dataclass(frozen=True)
class Window:
    """Inputs and targets of one forward pass."""

    number: int  # from 0
    types: NDArray[np.int64]  # (W,) distinct words, as row numbers of the table of types
    inputs: NDArray[np.int64]  # (G, T, R) indexes into `types`
    targets: NDArray[np.int64]  # (G, T, R) classes
    negatives: Negatives | None


@dataclass(frozen=True, kw_only=True)
class WindowPlan:
    """The shape and order of windows."""

    batch_size: int  # rows, of all processes together
    length: int = 20  # words per row in a window
    seed: int = 1
    directions: tuple[Direction, ...] = ("forward", "backward")

    @property
    def tokens(self) -> int:
        """Tokens of the stream in one window."""
        return self.batch_size * self.length


class Windows:
    """The windows of a stream, by number."""

    def __init__(
        self,
        stream: NDArray[np.uint32],
        classes: NDArray[np.uint32],
        plan: WindowPlan,
        *,
        sampler: "LogUniformSampler | None" = None,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        if plan.batch_size % processes:
            raise InputError(f"{plan.batch_size} rows cannot be divided evenly among {processes} processes")
        # A pair of input and target has two tokens, so there is one pair less than tokens.
        pairs = len(stream) - 1
        self.per_epoch = pairs // plan.tokens
        if self.per_epoch == 0:
            raise InputError(
                f"the corpus has {len(stream):,} tokens, too few for {plan.batch_size} rows of {plan.length} steps; "
                "reduce training.batch_size or training.window"
            )
        self.stream, self.classes, self.plan, self.sampler = stream, classes, plan, sampler
        self._stride = pairs // plan.batch_size
        self._span = self.per_epoch * plan.length  # tokens of a row in complete windows
        rows = plan.batch_size // processes
        self._rows = np.arange(rank * rows, (rank + 1) * rows)

    def __getitem__(self, number: int) -> Window:
        epoch, index = divmod(number, self.per_epoch)
        # The tokens beyond the last complete window are different ones in each epoch.
        shift = np.random.default_rng([self.plan.seed, epoch]).integers(self._stride - self._span + 1)
        starts = self._rows * self._stride + shift  # (R,)
        offsets = index * self.plan.length + np.arange(self.plan.length)[:, None]  # (T, 1)
        pairs = [self._pair(direction, starts, offsets) for direction in self.plan.directions]
        inputs = np.stack([inputs for inputs, _ in pairs])
        types, indexes = _distinct(inputs, count=len(self.classes))
        negatives = self.sampler.sample([self.plan.seed, number]) if self.sampler else None
        return Window(number, types, indexes, np.stack([targets for _, targets in pairs]), negatives)

    def _pair(
        self, direction: Direction, starts: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        is_forward = direction == "forward"
        positions = starts + offsets if is_forward else starts + self._span - offsets  # (T, R)
        inputs = self.stream[positions].astype(np.int64)
        targets = self.stream[positions + 1 if is_forward else positions - 1].astype(np.int64)
        first, last = (BEGIN_TYPE, END_TYPE) if is_forward else (END_TYPE, BEGIN_TYPE)
        inputs[inputs == 0] = first
        targets[targets == 0] = last
        return inputs, self.classes[targets].astype(np.int64)

    def prefetch(self, first: int, last: int) -> Iterator[Window]:
        """The windows `first` to `last`, made by threads in advance."""
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


def _distinct(numbers: NDArray[np.int64], *, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct numbers in rising order, and the index of each number. Faster than np.unique, which sorts."""
    is_present = np.zeros(count, dtype=bool)
    is_present[numbers] = True
    distinct = np.flatnonzero(is_present)
    indexes = np.empty(count, dtype=np.int64)
    indexes[distinct] = np.arange(len(distinct))
    return distinct, indexes[numbers]


class LogUniformSampler:
    """Samples distinct classes, frequent ones more often.

    Classes are numbered by falling frequency. Class k is drawn with probability log((k + 2) / (k + 1)) / log(V + 1),
    until there are enough distinct classes. The number of draws determines how often each class was expected.

    >>> sampler = LogUniformSampler(classes=1000, num_sampled=10)
    >>> negatives = sampler.sample([1, 0])
    >>> len(set(negatives.classes.tolist())), negatives.tries >= 10
    (10, True)
    """

    def __init__(self, *, classes: int, num_sampled: int) -> None:
        if not 1 <= num_sampled <= classes // 2:
            raise InputError(
                f"{num_sampled} negatives cannot be drawn from a vocabulary of {classes} words; draw at most half of "
                f"them, --training.negatives {classes // 2}, or use the full softmax, --training.negatives 0"
            )
        self.classes = classes
        self.num_sampled = num_sampled
        self.probabilities = log_uniform_probabilities(classes)

    def sample(self, seed: Sequence[int]) -> Negatives:
        """Sample classes; the same seed gives the same classes."""
        random = np.random.default_rng(seed)
        draws = np.empty(0, dtype=np.int64)
        while True:
            more = np.exp(random.random(4 * self.num_sampled) * np.log(self.classes + 1.0)).astype(np.int64) - 1
            draws = np.concatenate([draws, np.clip(more, 0, self.classes - 1)])
            firsts = np.flatnonzero(self._is_first(draws))
            if len(firsts) >= self.num_sampled:
                chosen = firsts[: self.num_sampled]
                return Negatives(draws[chosen], tries=int(chosen[-1]) + 1)

    def _is_first(self, draws: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each draw is the first of its class."""
        order = np.arange(len(draws))
        first = np.empty(self.classes, dtype=np.int64)
        # Assigned from last to first, so that the first index remains.
        first[draws[::-1]] = order[::-1]
        is_first: NDArray[np.bool_] = first[draws] == order
        return is_first


def log_expected_counts(probabilities: Tensor, tries: int | Tensor) -> Tensor:
    """(V,) log(1 - (1 - p)^tries): the log of the expected count of each class among the distinct draws.

    `tries` may be a tensor, so that it does not have to be copied from a GPU.
    """
    return (-torch.expm1(tries * torch.log1p(-probabilities))).log()
