"""When a run evaluates, and what it remembers of it."""

from elmore.training.evaluation_schedule import EvaluationSchedule
from elmore.training.trainable import Evaluation


class Measured:
    """Stands in for the evaluation of a model; every score is another."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Evaluation:
        self.times += 1
        return Evaluation("perplexity", 10.0 + self.times, {"forward": 10.0, "backward": 12.0}, tokens=1000)


def schedule(evaluate: object, *, baseline_at: int | None = None) -> EvaluationSchedule:
    return EvaluationSchedule(evaluate, every=4, last=10, baseline_at=baseline_at)


def test_evaluations_are_made_every_so_often_and_at_the_end_and_never_twice():
    evaluate = Measured()
    some = schedule(evaluate)
    made = [done for done in (0, 1, 3, 4, 4, 5, 8, 10, 10) if some.evaluate_if_due(done)]
    assert made == [4, 8, 10]
    assert evaluate.times == 3
    assert [some.next_after(done) for done in (0, 3, 4, 9)] == [4, 4, 8, 12]


def test_the_model_as_it_came_is_measured_too():
    some = schedule(Measured(), baseline_at=0)
    first = some.evaluate_if_due(0)
    assert first.is_baseline
    assert some.baseline == first.evaluation
    assert not some.evaluate_if_due(4).is_baseline
    assert some.latest != some.baseline == first.evaluation


def test_what_a_checkpoint_keeps_comes_back():
    some = schedule(Measured(), baseline_at=0)
    some.evaluate_if_due(0)
    some.evaluate_if_due(4)
    other = schedule(Measured(), baseline_at=0)
    other.restore(some.to_dict())
    assert (other.latest, other.baseline) == (some.latest, some.baseline)
    assert other.evaluate_if_due(4) is None


def test_the_time_of_those_to_come_is_that_of_the_latest(monkeypatch):
    clock = iter([0.0, 2.0])
    monkeypatch.setattr("elmore.training.evaluation_schedule.time.monotonic", lambda: next(clock))
    some = schedule(Measured())
    assert some.seconds_between(0, 10) == 0.0
    some.evaluate_if_due(4)
    # At 8, and at 10, which is the last step but none of every fourth.
    assert [some.seconds_between(done, 10) for done in (3, 4, 7, 8, 10)] == [6.0, 4.0, 4.0, 2.0, 2.0]
    assert some.seconds_between(4, 9) == 2.0


def test_with_nothing_held_out_there_is_nothing_to_make():
    none = schedule(lambda: None)
    assert none.evaluate_if_due(4) is None
    assert none.latest is None
