"""When a run evaluates, and what it remembers of it."""

import numpy as np

from elmore.pretraining.evaluation import HeldOut
from elmore.pretraining.evaluations import Evaluations

STREAM = np.arange(1001, dtype=np.uint32)


class Measured:
    """Stands in for the evaluation of a model, and keeps what it was asked to read."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def __call__(self, stream: np.ndarray) -> HeldOut | None:
        self.lengths.append(len(stream))
        return HeldOut(len(stream) - 1, {"forward": 10.0 + len(self.lengths), "backward": 12.0})


def evaluations(measure: object, *, before: int | None = None) -> Evaluations:
    return Evaluations(measure, STREAM, every=4, sample=100, last=10, before=before)


def test_they_are_made_every_so_often_and_at_the_end_and_never_twice():
    measure = Measured()
    some = evaluations(measure)
    made = [done for done in (0, 1, 3, 4, 4, 5, 8, 10, 10) if some.make_if_due(done)]
    assert made == [4, 8, 10]
    assert measure.lengths == [1001] * 3
    assert [some.next_after(done) for done in (0, 3, 4, 9)] == [4, 4, 8, 12]


def test_the_model_as_it_came_is_measured_too():
    some = evaluations(Measured(), before=0)
    first = some.make_if_due(0)
    assert first.before
    assert some.found_before == first.held_out
    assert not some.make_if_due(4).before
    assert some.found != some.found_before == first.held_out


def test_what_a_checkpoint_keeps_comes_back():
    some = evaluations(Measured(), before=0)
    some.make_if_due(0)
    some.make_if_due(4)
    other = evaluations(Measured(), before=0)
    other.restore(some.to_facts())
    assert (other.found, other.found_before) == (some.found, some.found_before)
    assert other.make_if_due(4) is None


def test_the_time_is_that_of_a_sample_for_all_that_are_to_come(monkeypatch):
    clock = iter([0.0, 2.0])  # the second reading of the sample takes two seconds
    monkeypatch.setattr("elmore.pretraining.evaluations.time.monotonic", lambda: next(clock))
    measure = Measured()
    # After update 5: at 8 and at 10; the whole is ten times the sample.
    assert round(evaluations(measure).seconds_after(5) / (2.0 * len(STREAM) / 100), 6) == 2
    assert measure.lengths == [101, 101]


def test_with_nothing_held_out_there_is_nothing_to_make_and_no_time_to_spend():
    none = evaluations(lambda _: None)
    assert none.make_if_due(4) is None
    assert none.seconds_after(0) == 0.0
