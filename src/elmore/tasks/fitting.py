"""Models that need no gradients are fitted: examples are read once, and something is told now and then."""

from collections.abc import Callable, Generator, Iterator, Sequence
from time import monotonic
from typing import Generic, TypeVar

from elmore.tasks.batch_maker import BatchMaker
from elmore.tasks.events import Fitted, Fitting
from elmore.tasks.new_model import AssembledModel
from elmore.tasks.task import Batch, Fit, FittedModel
from elmore.training.events import Stopped
from elmore.training.progress_reports import SECONDS_OF_SILENCE

E = TypeVar("E")
P = TypeVar("P")


def fit_model(
    assembled: AssembledModel[E, P],
    train: Sequence[E],
    dev: Sequence[E],
    stop_asked: Callable[[], bool],
    *,
    keep_layers: bool = False,
) -> Generator[Fitting | Fitted | Stopped, None, Fit | None]:
    """Fit a model; None if it was stopped, after which it begins anew: there is nothing to save on the way.

    With `keep_layers`, what is read stays in the model's cache of layers.
    """
    model = assembled.model
    assert isinstance(model, FittedModel)
    model.eval()
    if keep_layers and not assembled.maker.read_ahead([*train, *dev], stop_asked):
        yield Stopped(0)
        return None
    reading = _Reading(assembled.maker)
    fitting = model.fit(reading.batches(train), reading.batches(dev), assembled.task.score)
    spoke = monotonic()
    while True:
        try:
            next(fitting)
        except StopIteration as end:
            fit: Fit = end.value
            yield Fitted(fit)
            return fit
        if stop_asked():
            yield Stopped(0)
            return None
        if monotonic() - spoke > SECONDS_OF_SILENCE:
            yield reading.progress()
            spoke = monotonic()


class _Reading(Generic[E]):
    """Makes batches as they are asked for, and counts what was read."""

    def __init__(self, maker: BatchMaker[E]) -> None:
        self._maker = maker
        self._began = monotonic()
        self._done = self._tokens = 0

    def batches(self, examples: Sequence[E]) -> Iterator[Batch[E]]:
        lengths = [sum(map(len, self._maker.task.sentences(example))) for example in examples]
        # Only once they are asked for: examples that are never read do not count.
        self._tokens += sum(lengths)
        for numbers in self._maker.groups(examples):
            batch = self._maker.batch([examples[number] for number in numbers])
            self._done += sum(lengths[number] for number in numbers)
            yield batch

    def progress(self) -> Fitting:
        seconds = monotonic() - self._began
        return Fitting(self._done, self._tokens, seconds * (self._tokens - self._done) / max(self._done, 1))
