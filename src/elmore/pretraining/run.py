"""A training run in a folder: from a prepared corpus and a beginning to a finished model, through any interruption.

The run yields events (see `events`); whoever runs it decides what to print. What lies in the folder, `run_folder` says.
"""

import math
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.parallel import DistributedDataParallel

from elmore.corpus.corpus import Corpus
from elmore.errors import ElmoreError, InputError
from elmore.formats import write_checkpoint
from elmore.formats.layouts.options import options_from_config
from elmore.pretraining.beginning import Beginning
from elmore.pretraining.capturing import capture, restore
from elmore.pretraining.cost import most_memory, seconds_per_update
from elmore.pretraining.evaluation import HeldOut, as_fact, evaluate
from elmore.pretraining.evaluations import Evaluations
from elmore.pretraining.events import Event, Finished, Progressed, RolledBack, Started, Stopped
from elmore.pretraining.finished import finished_model
from elmore.pretraining.loop import Update, train
from elmore.pretraining.run_folder import RunFolder
from elmore.pretraining.sampling import LogUniformSampler
from elmore.pretraining.stepping import Stepper
from elmore.pretraining.windows import WindowPlan, Windows
from elmore.training.checkpoints import Checkpoints, Snapshot
from elmore.training.distributed import Team
from elmore.training.log import Board, Log
from elmore.training.watching import LossWatch

MOST_ROLLBACKS = 3
SECONDS_TO_STOP = 5.0  # about how long a run trains before it looks whether it is to stop
SECONDS_OF_SILENCE = 10.0
WINDOWS_OF_A_SAMPLE = 64  # by which the time of an evaluation is measured


class TrainingFailed(ElmoreError):
    """The loss would not stay finite."""


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How often a run looks, speaks and saves; nothing here changes the numbers."""

    log_every: int = 50
    checkpoint_every: int = 1000
    evaluate_every: int = 0  # updates; 0 means after each epoch
    keep: int = 2
    hdf5: bool = False  # also write options.json and weights.hdf5
    tensorboard: bool = False


class Run:
    """One training run."""

    def __init__(
        self,
        corpus: Corpus,
        folder: RunFolder,
        beginning: Beginning,
        *,
        habits: Habits,
        device: torch.device,
        team: Team,
        commands: tuple[str, ...] = (),
    ) -> None:
        self.corpus, self.folder, self.beginning, self.recipe = corpus, folder, beginning, beginning.recipe
        self.habits, self.team, self.commands = habits, team, commands
        if habits.hdf5:
            # Told now rather than after the training, if it cannot be.
            options_from_config(self.recipe.model)
        training = self.recipe.training
        directions = self.recipe.model.direction_names
        self.plan = WindowPlan(rows=training.rows, steps=training.window, seed=training.seed, directions=directions)
        classes = len(beginning.vocabulary)
        self.sampler = LogUniformSampler(classes=classes, number=training.negatives) if training.negatives else None
        self.windows = Windows(
            corpus.train, corpus.classes, self.plan, sampler=self.sampler, rank=team.rank, processes=team.size
        )
        self.updates = training.steps or round(training.epochs * self.windows.per_epoch / training.accumulate)
        if self.updates < 1:
            raise InputError("the recipe asks for less than one update; give more epochs, or updates")
        self.updates += training.frozen_steps
        self.model = beginning.model.to(device)
        words = beginning.words(corpus)
        self.characters_needed = None
        if words.characters is not None:
            self.characters_needed = beginning.speller.characters_needed(words.characters).numpy()
            # No number of a character needs more than two bytes, and there may be millions of words.
            words = words._replace(characters=words.characters.short())
        self.words = words.to(device)
        self.stepper = self._new_stepper(0)
        self.checkpoints = Checkpoints(folder.checkpoints, keep=habits.keep)
        self.logs: list[Log | Board] = [Log(folder.log)] if team.leads else []
        if team.leads and habits.tensorboard:
            self.logs.append(Board(folder.board))
        self.done = 0
        self.skipped: set[int] = set()
        self.rate_share = 1.0
        self.watch = LossWatch()
        self.seconds = 0.0  # spent on updates
        self.evaluations = Evaluations(
            self._evaluated,
            corpus.heldout,
            every=habits.evaluate_every or max(self.windows.per_epoch // training.accumulate, 1),
            sample=WINDOWS_OF_A_SAMPLE * training.window,
            last=self.updates,
            before=self._untouched_at(),
        )
        self._stop_asked = False

    def stop(self) -> None:
        """Ask the run to save and end soon; may be called at any time, as by a signal."""
        self._stop_asked = True

    def events(self) -> Iterator[Event]:
        """Train to the end, from the newest checkpoint if there is one, and write the model."""
        try:
            yield from self._events()
        finally:
            for log in self.logs:
                log.close()

    def _events(self) -> Iterator[Event]:
        resumes = self.team.led(lambda: bool(self.checkpoints))
        if resumes:
            self._restore()
        else:
            self._save()
        started, pace = self._measured()
        for log in self.logs:
            log.rewind(self.done if resumes else -1)
        yield started
        yield from self._evaluate_if_due()
        rollbacks = 0
        while self.done < self.updates and not self.team.any(self._stop_asked):
            failed = yield from self._advance(self._next_stop(pace))
            if failed is not None:
                rollbacks += 1
                yield self._roll_back(failed, rollbacks)
                continue
            yield from self._evaluate_if_due()
            if self.done % self.habits.checkpoint_every == 0 or self.done == self.updates:
                self._save()
        if self.done < self.updates:
            self._save()
            yield Stopped(self.done)
        else:
            yield self._finish()

    def _advance(self, until: int) -> Generator[Event, None, int | None]:
        """Train up to an update; return the number of the first one that went wrong, if any."""
        first, last = self._phase()
        busy, before = 0.0, self.done
        began = spoke = time.monotonic()
        for own in train(
            self.stepper,
            self.windows,
            done=self.done,
            until=until,
            first=first,
            updates=last,
            skipped=self.skipped,
            rate_share=self.rate_share,
            rank=self.team.rank,
        ):
            means = self.team.mean(torch.tensor([*own.losses, own.norm])).tolist()
            update = own._replace(losses=tuple(means[:-1]), norm=means[-1])
            if not update.finite:
                return update.number
            if self.watch.leaps(update.losses):
                # Unlike a lone infinity, a leap comes of steps that are too long.
                self.rate_share /= 2
                return update.number
            now = time.monotonic()
            self.seconds += now - began
            busy, began = busy + now - began, now
            due = update.number % self.habits.log_every == 0 or update.number == self.updates
            if due or now - spoke > SECONDS_OF_SILENCE:
                progress = self._progress(update, busy / (update.number - before), logged=due)
                if due:
                    self._log(progress)
                yield progress
                busy, before = 0.0, update.number
                began = spoke = time.monotonic()
        self.done = until
        self._enter_phase()
        return None

    def _progress(self, update: Update, seconds: float, *, logged: bool) -> Progressed:
        accumulate = self.recipe.training.accumulate
        return Progressed(
            update,
            self.updates,
            epoch=update.number * accumulate / self.windows.per_epoch,
            tokens_per_second=self.plan.tokens * accumulate / seconds,
            seconds_left=(self.updates - update.number) * seconds,
            logged=logged,
        )

    def _log(self, progress: Progressed) -> None:
        update = progress.update
        losses = zip(self.plan.directions, update.losses, strict=True)
        perplexities = {direction: math.exp(min(loss, 700.0)) for direction, loss in losses}
        for log in self.logs:
            log.write(
                step=update.number,
                epoch=round(progress.epoch, 4),
                tokens=self._tokens_at(update.number),
                loss=update.loss,
                sampled_perplexities=perplexities,
                norm=update.norm,
                rate=update.rate,
                tokens_per_second=round(progress.tokens_per_second),
            )

    def _phase(self) -> tuple[int, int]:
        """Where the present phase begins and ends: first the softmax alone, if so asked, then everything."""
        frozen = self.recipe.training.frozen_steps
        return (0, frozen) if self.done < frozen else (frozen, self.updates)

    def _enter_phase(self) -> None:
        """Have the stepper that the present phase needs; a GPU's captured graphs are kept where it is the one there."""
        if self._frozen != (self.done < self.recipe.training.frozen_steps):
            state = self.stepper.state
            self.watch = LossWatch()
            self.stepper = self._new_stepper(self.done)
            self.stepper.state.h.copy_(state.h)
            self.stepper.state.c.copy_(state.c)

    def _new_stepper(self, done: int) -> Stepper:
        training = self.recipe.training
        self._frozen = done < training.frozen_steps
        self.model.network.requires_grad_(requires_grad=not self._frozen)
        return Stepper(
            self.model,
            self.words,
            training,
            rows=training.rows // self.team.size,
            characters_needed=self.characters_needed,
            class_probabilities=self.sampler.probabilities if self.sampler else None,
            module=DistributedDataParallel(self.model) if self.team.size > 1 else None,
        )

    def _next_stop(self, pace: float) -> int:
        """The next update after which something is saved or measured, or the run looks whether it is to stop."""
        every = self.habits.checkpoint_every
        stops = (self.done // every + 1) * every, self.evaluations.next_after(self.done)
        return min(self._phase()[1], self.done + max(int(SECONDS_TO_STOP / pace), 1), *stops)

    def _evaluate_if_due(self) -> Iterator[Event]:
        evaluated = self.evaluations.make_if_due(self.done)
        if evaluated is None:
            return
        for log in self.logs:
            log.write(
                step=self.done,
                tokens=self._tokens_at(self.done),
                heldout=evaluated.held_out.mean,
                heldout_each=evaluated.held_out.perplexities,
            )
        yield evaluated

    def _evaluated(self, stream: NDArray[np.uint32]) -> HeldOut | None:
        precision = getattr(torch, self.recipe.training.precision)
        return evaluate(self.model, self.words, stream, self.corpus.classes, self.plan, dtype=precision)

    def _untouched_at(self) -> int | None:
        """Of fine-tuning: when the model is as it came and can predict: at once, or after its softmax has learnt."""
        if self.beginning.init is None:
            return None
        return self.recipe.training.frozen_steps if self.beginning.init["softmax"] == "fresh" else 0

    def _tokens_at(self, update: int) -> int:
        return update * self.plan.tokens * self.recipe.training.accumulate

    def _measured(self) -> tuple[Started, float]:
        """What the run will take, from a few updates that are taken back; and the seconds of one update."""
        training = self.recipe.training
        seconds, pace, done = 0.0, 1.0, self.done
        while self.done < self.updates:
            last = self._phase()[1]
            self._enter_phase()
            left = last - self.done
            pace = seconds_per_update(self.stepper, self.windows, self.team, done=self.done, left=left)
            seconds += left * pace
            self.done = last
        if done < self.updates:
            self._restore()
            seconds += self.evaluations.seconds_after(self.done)
        part = self.corpus.manifest["parts"]["train"]
        softmax = self.model.softmax_weight.numel() + self.model.softmax_bias.numel()
        started = Started(
            tokens=part["tokens"],
            types=len(self.corpus.types) - 2,
            unknown_share=part["unknown_share"],
            sampled=self.sampler is not None,
            parameters=self.recipe.model.parameters,
            softmax_parameters=softmax,
            memory=most_memory(self.stepper.device),
            updates=self.updates,
            frozen_updates=training.frozen_steps,
            epochs=self.updates * training.accumulate / self.windows.per_epoch,
            seconds=seconds,
            processes=self.team.size,
            done=self.done,
        )
        return started, pace

    def _roll_back(self, failed: int, times: int) -> RolledBack:
        self._restore()
        if times > MOST_ROLLBACKS:
            raise TrainingFailed(
                f"update {failed}: the loss is not finite, or has leapt, for the {times}th time; "
                "the checkpoint of update "
                f"{self.done} is good. Go on from it with a lower rate: --training.learning_rate"
            )
        # The same windows would give the same again, so those in question are left out from now on.
        accumulate = self.recipe.training.accumulate
        self.skipped.update(range((failed - 1) * accumulate, failed * accumulate))
        for log in self.logs:
            log.rewind(self.done)
        return RolledBack(failed, self.done, self.rate_share)

    def _save(self) -> None:
        tensors = capture(self.stepper, self.team)
        progress = {
            "skipped": sorted(self.skipped),
            "rate_share": self.rate_share,
            "seconds": self.seconds,
            **self.evaluations.to_facts(),
        }
        self.team.led(lambda: self.checkpoints.save(self.done, Snapshot(tensors, progress)))

    def _restore(self) -> None:
        """Go back to the newest checkpoint, which only the leader can read."""
        found: list[Snapshot] = []

        def read() -> dict[str, Any]:
            found.append(self.checkpoints.newest())
            return dict(found[0].progress)

        progress = self.team.led(read)
        tensors = self.team.shared(found[0].tensors if found else {})
        self.done = progress["step"]
        self.skipped.update(progress["skipped"])
        # What was learnt since, in this process, about too long steps is not forgotten.
        self.rate_share = min(self.rate_share, progress.get("rate_share", 1.0))
        self.seconds = progress.get("seconds", 0.0)
        self.evaluations.restore(progress)
        self._enter_phase()
        restore(self.stepper, tensors, self.team)

    def _finish(self) -> Finished:
        """Write the model."""
        self.team.led(self._write_model)
        hdf5 = self.folder.hdf5 if self.habits.hdf5 else None
        return Finished(self.folder.model, hdf5, self.evaluations.found, self.evaluations.found_before)

    def _write_model(self) -> None:
        facts = {
            "commands": list(self.commands),
            "updates": self.done,
            "words_read": self._tokens_at(self.done),
            "seconds": round(self.seconds, 1),
            "skipped_windows": sorted(self.skipped),
            "rate_share": self.rate_share,
            "heldout_perplexity": as_fact(self.evaluations.found),
            "heldout_perplexity_before": as_fact(self.evaluations.found_before),
        }
        name = self.folder.path.resolve().name
        checkpoint = finished_model(self.model, self.beginning, self.corpus, name=name, facts=facts)
        write_checkpoint(checkpoint, self.folder.model)
        if self.habits.hdf5:
            # That format has no place for a softmax, as nobody needs to be told who has both.
            write_checkpoint(replace(checkpoint, softmax=None), self.folder.hdf5, format="hdf5")
