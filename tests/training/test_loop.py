"""The training loop, with linear regression as the model."""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.training.checkpoints import joint_state_dict, load_joint_state_dict
from elmore.training.events import Estimated, Evaluated, Progressed, RolledBack, Started, Stopped
from elmore.training.log import read_log
from elmore.training.loop import RunState, StepTimer, TrainingLoop
from elmore.training.memory import training_state_bytes
from elmore.training.run_folder import RunFolder, RunSettings
from elmore.training.trainable import Evaluation, Step, Trainable

STEPS = 12


class Line:
    """Learns y = 2 x by gradient descent, first its slope alone, then its offset too."""

    steps_per_epoch, tokens_per_step, baseline_at = 4.0, 8.0, None

    def __init__(
        self,
        *,
        phase_ends: tuple[int, ...] = (STEPS,),
        poisoned: Collection[int] = (),
        spikes: Collection[int] = (),
        enough: int = 1_000,
    ) -> None:
        self.phase_ends, self.poisoned, self.spikes = phase_ends, poisoned, spikes
        self.enough, self.evaluations = enough, torch.tensor(0)  # after so many evaluations it has converged
        self.model = nn.Linear(1, 1)
        nn.init.zeros_(self.model.weight)
        nn.init.zeros_(self.model.bias)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.asked: list[tuple[int, int]] = []
        self.restored: list[int] = []

    @property
    def should_stop(self) -> bool:
        return self.evaluations.item() >= self.enough

    def train(self, done: int, until: int, *, skipped: Collection[int], lr_scale: float) -> Iterator[Step]:
        self.asked.append((done, until))
        for number in range(done + 1, until + 1):
            if number in skipped:
                continue
            x = torch.randn(8, 1, generator=torch.Generator().manual_seed(number))
            loss = (self.model(x) - 2 * x).square().mean() * (float("nan") if number in self.poisoned else 1.0)
            self.optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.param_groups[0]["lr"] = rate = 0.1 * lr_scale
            self.optimizer.step()
            yield Step(number, (loss.item(),), norm.item(), rate)

    def is_loss_spike(self, step: Step) -> bool:
        return step.number in self.spikes

    def metrics(self, step: Step) -> Mapping[str, Mapping[str, float]]:
        return {"errors": {"root": step.loss**0.5}}

    def evaluate(self) -> Evaluation:
        self.evaluations = self.evaluations + 1
        x = torch.linspace(-1, 1, 9)[:, None]
        error = (self.model(x) - 2 * x).abs().mean().item()
        return Evaluation("mean error", error, {}, tokens=9)

    def state_dict(self) -> dict[str, Tensor]:
        return {**joint_state_dict(self.model, [self.optimizer]), "evaluations": self.evaluations}

    def load_state_dict(self, tensors: Mapping[str, Tensor], *, done: int) -> None:
        self.restored.append(done)
        self.evaluations = tensors["evaluations"]
        load_joint_state_dict(self.model, [self.optimizer], tensors)

    def memory_bytes(self) -> int:
        return training_state_bytes(self.model, [self.optimizer])


def run_of(line: Trainable, folder: Path, **settings: int) -> TrainingLoop:
    folder.mkdir(exist_ok=True)
    return TrainingLoop(line, RunFolder(folder), RunSettings(**{"log_every": 1, "checkpoint_every": 5, **settings}))


def losses(folder: Path) -> dict[int, float]:
    return {entry["step"]: entry["loss"] for entry in read_log(folder / "log.jsonl") if "loss" in entry}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[int, float]:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    list(run_of(Line(), folder).events())
    return losses(folder)


def test_a_run_tells_all_there_is_to_tell_and_logs_it(tmp_path):
    events = list(run_of(Line(), tmp_path, evaluate_every=6).events())
    assert events[0] == Started(STEPS, 0, epochs=3.0, processes=1)
    assert str(events[0]) == "12 steps, 3.00 epochs"
    steps = [event for event in events if isinstance(event, Progressed)]
    assert [event.step.number for event in steps] == list(range(1, STEPS + 1))
    assert str(steps[0]).startswith(f"step 1/12  epoch 0.25  loss {steps[0].step.loss:.4f}  errors ")
    evaluated = [event for event in events if isinstance(event, Evaluated)]
    assert [event.number for event in evaluated] == [6, 12]
    assert evaluated[1].evaluation.score < evaluated[0].evaluation.score
    assert str(evaluated[1]) == f"step 12  mean error: {evaluated[1].evaluation.score:.2f}"
    first, *_ = read_log(tmp_path / "log.jsonl")
    assert (first["step"], first["tokens"], first["errors"]) == (1, 8, {"root": pytest.approx(first["loss"] ** 0.5)})


@pytest.mark.parametrize("stop_after", [1, 5, 8])
def test_another_run_goes_on_from_the_checkpoint_of_the_first(tmp_path, whole, stop_after):
    for event in run_of(Line(), tmp_path).events():
        if isinstance(event, Progressed) and event.step.number == stop_after:
            break
    line = Line()
    list(run_of(line, tmp_path).events())
    assert line.restored == [(stop_after - 1) // 5 * 5]
    assert losses(tmp_path) == whole


def test_a_run_that_is_asked_to_stop_saves_where_it_is(tmp_path, whole):
    asked = iter([False, False, True])
    *_, last = run_of(Line(), tmp_path).events(lambda: next(asked))
    # After a pause at 1 step, and 2 more.
    assert last == Stopped(3)
    line = Line()
    list(run_of(line, tmp_path).events())
    assert line.restored == [3]
    assert losses(tmp_path) == whole


def test_a_run_goes_back_and_leaves_out_the_step_whose_loss_was_not_finite(tmp_path, whole):
    line = Line(poisoned={8})
    events = list(run_of(line, tmp_path).events())
    assert [event for event in events if isinstance(event, RolledBack)] == [RolledBack(8, 5, 1.0)]
    assert line.restored == [5]
    found = losses(tmp_path)
    assert found.keys() == whole.keys() - {8}
    assert all(found[number] == whole[number] for number in range(1, 8))


def test_loss_spike_rolls_back_and_halves_the_rate(tmp_path):
    events = run_of(Line(spikes={8}), tmp_path).events()
    assert [event for event in events if isinstance(event, RolledBack)] == [RolledBack(8, 5, 0.5)]
    assert {entry["step"]: entry["learning_rate"] for entry in read_log(tmp_path / "log.jsonl") if "loss" in entry} == {
        number: 0.05 if number > 5 else 0.1 for number in range(1, STEPS + 1) if number != 8
    }


def test_no_stretch_crosses_from_one_phase_to_the_next_nor_passes_a_checkpoint(tmp_path):
    line = Line(phase_ends=(4, STEPS))
    list(run_of(line, tmp_path, checkpoint_every=7).events())
    firsts, lasts = zip(*line.asked, strict=True)
    assert (*firsts, STEPS) == (0, *lasts)
    assert {4, 7, 12} <= set(lasts)
    # Each phase is paced by itself: 1, then 2, then as far as it goes; and again.
    assert [last - first for first, last in line.asked][:5] == [1, 2, 1, 1, 2]


def test_what_the_rest_will_take_is_told_once_a_phase_from_its_own_steps(tmp_path, monkeypatch):
    monkeypatch.setattr("elmore.training.loop.ENOUGH_STEPS", 4)
    clock = iter(range(10**6))
    monkeypatch.setattr("elmore.training.loop.monotonic", lambda: float(next(clock)))
    line = Line(phase_ends=(30, 100))
    events = list(run_of(line, tmp_path, evaluate_every=1000, log_every=1000, checkpoint_every=1000).events())
    estimates = [event for event in events if isinstance(event, Estimated)]
    assert [event.until for event in estimates] == [30, 100]
    # A tick a step, and 7 steps of each phase were made: 1, 2, 4.
    assert [event.seconds for event in estimates] == [23.0, 63.0]
    # Two parameters and their gradients, two moments and a count of each.
    assert {event.memory for event in estimates} == {4 * (2 + 2 + 4 + 2)}
    assert str(estimates[0]) == "about 23 s to step 30 on this machine; 0.0 GiB of memory"


def test_a_run_is_not_silent_for_long_however_rarely_it_logs(tmp_path, monkeypatch):
    clock = iter(range(0, 10**6, 4))
    monkeypatch.setattr("elmore.training.loop.monotonic", lambda: float(next(clock)))
    events = list(run_of(Line(), tmp_path, evaluate_every=1000, log_every=1000, checkpoint_every=1000).events())
    told = [event for event in events if isinstance(event, Progressed)]
    # At 4 seconds a step a run pauses after each, and after three of them more than 10 seconds have passed.
    assert [(event.step.number, event.logged) for event in told] == [(3, False), (6, False), (9, False), (12, True)]
    # 8 tokens a step.
    assert {event.tokens_per_second for event in told} == {2.0}
    assert list(losses(tmp_path)) == [12]


def test_stretches_grow_until_a_pause_comes_every_few_seconds():
    timer = StepTimer()
    stretches = []
    for _ in range(8):
        stretches.append(timer.steps_to_next_pause())
        timer.add(steps=stretches[-1], seconds=0.25 * stretches[-1])
    assert stretches == [1, 2, 4, 8, 16, 20, 20, 20]


def test_a_state_goes_back_without_forgetting_what_went_wrong_since():
    state = RunState(done=9, skipped={8}, lr_scale=0.5, seconds=3.0)
    state.restore({"step": 5, "seconds": 2.0, "skipped_steps": [2], "lr_scale": 1.0})
    assert state == RunState(done=5, skipped={2, 8}, lr_scale=0.5, seconds=2.0)
    fresh = RunState()
    fresh.restore({"step": 9, **state.to_dict()})
    assert fresh == RunState(done=9, skipped={2, 8}, lr_scale=0.5, seconds=2.0)


def test_the_first_checkpoint_is_there_before_the_first_step(tmp_path):
    list(islice(run_of(Line(), tmp_path).events(), 1))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000000"]


def test_a_run_ends_when_what_it_trains_has_converged_and_stays_ended(tmp_path):
    run = run_of(Line(enough=2), tmp_path, evaluate_every=3)
    events = list(run.events())
    assert isinstance(events[-1], Evaluated)
    assert (events[-1].number, run.is_finished) == (6, True)
    again = list(run_of(Line(enough=2), tmp_path, evaluate_every=3).events())
    assert [str(event) for event in again] == ["the run is finished after 6 steps; its model is written again"]


@pytest.mark.parametrize(("seconds", "written"), [(0.0, 4), (3600.0, 2)])
def test_checkpoints_that_are_due_too_soon_wait_but_the_last_one_is_written(
    seconds: float, written: int, tmp_path: Path
) -> None:
    settings = RunSettings(checkpoint_every=4, checkpoint_seconds=seconds, keep=9)
    for _ in TrainingLoop(Line(), RunFolder(tmp_path), settings).events():
        pass
    steps = sorted(path.name for path in RunFolder(tmp_path).checkpoints.iterdir())
    assert len(steps) == written
    assert (steps[0], steps[-1]) == ("step-00000000", f"step-{STEPS:08d}")


def test_a_file_is_no_place_for_a_run(tmp_path):
    (tmp_path / "notes.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"notes\.txt: is a file; name a folder"):
        RunFolder(tmp_path / "notes.txt")
