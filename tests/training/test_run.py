"""The run object that pretrain, train and compare return."""

import pytest

from elmore.errors import InputError, InputWarning
from elmore.training.run import Run


def test_run_returns_last_event() -> None:
    run = Run(lambda _: iter(["started", "finished"]))
    assert run.run() == "finished"
    with pytest.raises(InputError, match="this run has ended before"):
        run.run()


def test_run_warns_if_it_was_never_started() -> None:
    run = Run(lambda _: iter([1]))
    with pytest.warns(InputWarning, match=r"never started: iterate over its events, or call run\(\)"):
        run.__del__()
    run.close()


def test_stop_ends_events() -> None:
    run = Run(lambda stop_requested: (number for number in range(9) if not stop_requested()))
    assert next(run) == 0
    run.stop()
    assert list(run) == []
