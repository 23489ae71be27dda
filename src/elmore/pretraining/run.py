"""A training run in a folder: from a prepared corpus and a recipe to a finished model, through any interruption.

    recipe.json       all settings, resolved
    log.jsonl         what happened, one object a line
    checkpoints/      the newest few, each whole
    model/            the finished model
    loss.png          the curve

The run yields events (see `events`); whoever runs it decides what to print.
"""

import math
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from elmore.errors import ElmoreError, InputError
from elmore.formats import Card, Checkpoint, write_checkpoint
from elmore.network.language_model import LanguageModel
from elmore.network.state import State
from elmore.pretraining.corpus import Corpus
from elmore.pretraining.evaluation import HeldOut, evaluate
from elmore.pretraining.events import Evaluated, Event, Finished, Logged, RolledBack, Started
from elmore.pretraining.initial import initialize
from elmore.pretraining.loop import train
from elmore.pretraining.sampling import LogUniformSampler
from elmore.pretraining.stepping import Stepper
from elmore.pretraining.windows import Direction, WindowPlan, Windows
from elmore.recipe import Recipe
from elmore.text.spelling import Speller
from elmore.training.checkpoints import Checkpoints, Snapshot
from elmore.training.distributed import Team
from elmore.training.log import Log

TRIAL_UPDATES = 4
MOST_ROLLBACKS = 3


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


class Run:
    """One training run."""

    def __init__(
        self,
        corpus: Corpus,
        folder: Path,
        recipe: Recipe,
        *,
        habits: Habits,
        device: torch.device,
        team: Team,
        command: str = "",
    ) -> None:
        self.corpus, self.folder, self.recipe, self.habits = corpus, folder, recipe, habits
        self.device, self.team, self.command = device, team, command
        training = recipe.training
        directions: tuple[Direction, ...] = ("forward", "backward") if recipe.model.bidirectional else ("forward",)
        self.plan = WindowPlan(rows=training.rows, steps=training.window, seed=training.seed, directions=directions)
        sampler = None
        if training.negatives:
            sampler = LogUniformSampler(classes=len(corpus.vocabulary), number=training.negatives)
        self.windows = Windows(
            corpus.train, corpus.classes, self.plan, sampler=sampler, rank=team.rank, processes=team.size
        )
        model = LanguageModel(recipe.model, classes=len(corpus.vocabulary))
        initialize(model, torch.Generator().manual_seed(training.seed))
        self.model = model.to(device)
        speller = Speller(recipe.model, vocabulary=corpus.vocabulary)
        self.words = speller.spell(corpus.types)
        needed = None
        if self.words.characters is not None:
            needed = speller.characters_needed(self.words.characters).numpy()
            # No number of a character needs more than two bytes, and there may be millions of words.
            self.words = self.words._replace(characters=self.words.characters.short())
        module = DistributedDataParallel(self.model) if team.size > 1 else None
        self.stepper = Stepper(
            self.model,
            self.words,
            training,
            rows=training.rows // team.size,
            characters_needed=needed,
            class_probabilities=sampler.probabilities if sampler else None,
            module=module,
        )
        self.words = self.words.to(device)
        self.checkpoints = Checkpoints(folder / "checkpoints", keep=habits.keep)
        self.done = 0
        self.skipped: set[int] = set()
        self.updates = training.updates or round(training.epochs * self.windows.per_epoch / training.accumulate)
        if self.updates < 1:
            raise InputError("the recipe asks for less than one update; give more epochs, or updates")

    def events(self) -> Iterator[Event]:
        """Train to the end, from the newest checkpoint if there is one, and write the model."""
        resumed = bool(self.checkpoints)
        if resumed:
            self._restore(self.checkpoints.newest())
        else:
            self._save()
        log = Log(self.folder / "log.jsonl", keep_until=self.done) if self.team.leads else None
        yield self._started()
        held_out = None
        rollbacks = 0
        while self.done < self.updates:
            until = self._next_stop()
            failed = yield from self._advance(until, log)
            if failed is None:
                self.done = until
                if self._evaluation_due():
                    held_out = self._evaluate(log)
                    if held_out is not None:
                        yield Evaluated(self.done, held_out)
                self._save()
                continue
            rollbacks += 1
            if rollbacks > MOST_ROLLBACKS:
                raise TrainingFailed(
                    f"update {failed}: the loss is not finite, for the {rollbacks}th time; the checkpoint of update "
                    f"{self.done} is good. Go on from it with a lower training.learning_rate"
                )
            # The same windows would give the same again, so the one in question is left out from now on.
            first = (failed - 1) * self.recipe.training.accumulate
            self.skipped.update(range(first, first + self.recipe.training.accumulate))
            self._restore(self.checkpoints.newest())
            yield RolledBack(failed, self.done)
        if log is not None:
            log.close()
        yield Finished(self._write_model(held_out), held_out)

    def _advance(self, until: int, log: Log | None) -> Generator[Event, None, int | None]:
        """Train up to an update; return the number of the first one that was not finite, if any."""
        training = self.recipe.training
        tokens = self.plan.tokens * training.accumulate
        began, before = time.monotonic(), self.done
        for update in train(
            self.stepper,
            self.windows,
            done=self.done,
            until=until,
            updates=self.updates,
            skipped=self.skipped,
            rank=self.team.rank,
        ):
            losses = self.team.mean(torch.tensor([*update.losses, update.norm])).tolist()
            update = update._replace(losses=tuple(losses[:-1]), norm=losses[-1])
            if not update.finite:
                return update.number
            if update.number % self.habits.log_every == 0 or update.number == self.updates:
                speed = tokens * (update.number - before) / (time.monotonic() - began)
                began, before = time.monotonic(), update.number
                epoch = update.number * training.accumulate / self.windows.per_epoch
                if log is not None:
                    perplexities = [math.exp(min(loss, 700.0)) for loss in update.losses]
                    log.write(
                        step=update.number,
                        epoch=round(epoch, 4),
                        tokens=update.number * tokens,
                        loss=update.loss,
                        sampled_perplexities=perplexities,
                        norm=update.norm,
                        rate=update.rate,
                        tokens_per_second=round(speed),
                    )
                left = (self.updates - update.number) * tokens / speed
                yield Logged(update, self.updates, epoch, speed, left)
        return None

    def _next_stop(self) -> int:
        """The next update after which something is saved or measured."""
        periods = (self.habits.checkpoint_every, self._evaluation_period())
        return min(self.updates, *((self.done // period + 1) * period for period in periods))

    def _evaluation_period(self) -> int:
        per_epoch = max(self.windows.per_epoch // self.recipe.training.accumulate, 1)
        return self.habits.evaluate_every or per_epoch

    def _evaluation_due(self) -> bool:
        return self.done == self.updates or self.done % self._evaluation_period() == 0

    def _evaluate(self, log: Log | None) -> HeldOut | None:
        held_out = evaluate(
            self.model,
            self.words,
            self.corpus.heldout,
            self.corpus.classes,
            self.plan,
            dtype=getattr(torch, self.recipe.training.precision),
        )
        if log is not None and held_out is not None:
            tokens = self.done * self.plan.tokens * self.recipe.training.accumulate
            log.write(step=self.done, tokens=tokens, heldout=held_out.mean, heldout_each=held_out.perplexities)
        return held_out

    def _started(self) -> Started:
        manifest = self.corpus.manifest
        training = self.recipe.training
        seconds = self._seconds_per_update() * (self.updates - self.done)
        softmax = self.model.softmax_weight.numel() + self.model.softmax_bias.numel()
        return Started(
            tokens=len(self.corpus.train),
            types=len(self.corpus.types),
            unknown_share=manifest["parts"]["train"]["unknown_share"],
            parameters=self.recipe.model.parameters,
            softmax_parameters=softmax,
            updates=self.updates,
            epochs=self.updates * training.accumulate / self.windows.per_epoch,
            seconds=seconds,
            done=self.done,
        )

    def _seconds_per_update(self) -> float:
        """Time a few updates, and take them back."""
        began = 0.0
        trial = min(TRIAL_UPDATES, self.updates - self.done)
        for count, _ in enumerate(
            train(self.stepper, self.windows, done=self.done, until=self.done + trial, updates=self.updates), start=1
        ):
            if count == 1:
                # The first pays for setting up.
                began = time.monotonic()
        seconds = (time.monotonic() - began) / max(trial - 1, 1)
        self._restore(self.checkpoints.newest())
        return seconds

    def _save(self) -> None:
        state = State(*(self.team.gather(part, dim=2) for part in (self.stepper.state.h, self.stepper.state.c)))
        if self.team.leads:
            tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
            for place, optimizer in enumerate(self.stepper.optimizers):
                for number, values in optimizer.state_dict()["state"].items():
                    named = ((f"optimizer.{place}.{number}.{name}", value) for name, value in values.items())
                    tensors.update((name, torch.as_tensor(value)) for name, value in named)
            tensors |= {"state.h": state.h, "state.c": state.c}
            progress = {"recipe": self.recipe.to_dict(), "skipped": sorted(self.skipped)}
            self.checkpoints.save(self.done, Snapshot({n: t.detach().cpu() for n, t in tensors.items()}, progress))
        self.team.wait()

    def _restore(self, snapshot: Snapshot) -> None:
        self.done = snapshot.progress["step"]
        self.skipped.update(snapshot.progress["skipped"])
        self.model.load_state_dict(_below("model.", snapshot.tensors))
        for place, optimizer in enumerate(self.stepper.optimizers):
            states: dict[int, dict[str, Tensor]] = {}
            for name, tensor in _below(f"optimizer.{place}.", snapshot.tensors).items():
                number, field = name.split(".", 1)
                states.setdefault(int(number), {})[field] = tensor
            optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
        share = self.recipe.training.rows // self.team.size
        own = slice(self.team.rank * share, (self.team.rank + 1) * share)
        # Into the tensors that are there: on a GPU they are part of captured graphs.
        self.stepper.state.h.copy_(snapshot.tensors["state.h"][:, :, own])
        self.stepper.state.c.copy_(snapshot.tensors["state.c"][:, :, own])

    def _write_model(self, held_out: HeldOut | None) -> Path:
        path = self.folder / "model"
        if self.team.leads:
            checkpoint = self._checkpoint(held_out)
            write_checkpoint(checkpoint, path)
            if self.habits.hdf5:
                write_checkpoint(checkpoint, self.folder / "hdf5", format="hdf5")
        self.team.wait()
        return path

    def _checkpoint(self, held_out: HeldOut | None) -> Checkpoint:
        softmax = {"weight": self.model.softmax_weight.detach().cpu(), "bias": self.model.softmax_bias.detach().cpu()}
        facts: dict[str, Any] = {
            "command": self.command,
            "recipe": self.recipe.to_dict(),
            "tokens": len(self.corpus.train),
            "updates": self.done,
            "words_read": self.done * self.plan.tokens * self.recipe.training.accumulate,
            "corpus": self.corpus.manifest["parts"],
        }
        if held_out is not None:
            facts["heldout_perplexity"] = {"mean": held_out.mean, "each": list(held_out.perplexities)}
        return Checkpoint(
            config=self.recipe.model,
            tensors={name: tensor.detach().cpu() for name, tensor in self.model.network.state_dict().items()},
            vocabulary=self.corpus.vocabulary,
            softmax=lambda: softmax,
            card=Card(
                name=self.folder.resolve().name,
                description="Trained with elmore pretrain.",
                text=self.corpus.style,
                extra={"training": facts},
            ),
        )


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
