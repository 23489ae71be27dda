"""What a training looks like: a bar on a terminal, plain lines elsewhere, both on stderr."""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from elmore.cli.verbosity import Verbosity

if TYPE_CHECKING:
    from elmore.pretraining.evaluation import HeldOut
    from elmore.pretraining.events import Event, Progressed, Started


class Display:
    """Shows events as they come."""

    def __init__(self, verbosity: Verbosity, *, bar: Any = None) -> None:
        self.verbosity = verbosity
        self._bar = bar  # rich's, on a terminal
        self._task: Any = None
        self._sampled = True

    def show(self, event: "Event") -> None:
        """Say what happened; that nobody listens any more is no reason to end a training."""
        try:
            self._show(event)
        except BrokenPipeError:
            _silence()

    def _show(self, event: "Event") -> None:
        from elmore.pretraining import events

        match event:
            case events.Started():
                self._say(_beginning(event))
                self._sampled = event.sampled
                if self._bar is not None and event.done < event.updates:
                    self._task = self._bar.add_task("", total=event.updates, completed=event.done)
            case events.Progressed():
                line, left = _line(event, sampled=self._sampled), f"{_duration(event.seconds_left)} left"
                if self._bar is not None:
                    # What is left first: a narrow terminal cuts the end off.
                    self._bar.update(self._task, completed=event.update.number, description=f"{left}  {line}")
                else:
                    self._say(f"update {event.update.number:,}/{event.updates:,}  {line}  {left}")
            case events.Evaluated(number, held_out, before):
                untouched = ", before fine-tuning" if before else ""
                self._say(f"update {number:,}  held-out perplexity{untouched}: {_perplexities(held_out)}")
            case events.RolledBack(number, to, share):
                slower = f", at {share:.3g} of the rate" if share < 1 else ""
                self._say(
                    f"update {number:,}: the loss is not finite, or has leapt; back to update {to:,}, "
                    f"leaving its windows out{slower}"
                )
            case events.Stopped():
                pass  # told with the command that goes on, by whoever knows it
            case events.Finished(model, hdf5, held_out, before):
                if before is not None and held_out is not None:
                    self._say(f"held-out perplexity: {before.mean:.2f} before fine-tuning, {held_out.mean:.2f} after")
                self._say(f"wrote {model}" + (f" and {hdf5}" if hdf5 else ""))

    def _say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            self.verbosity.info(text)


@contextmanager
def training_display(verbosity: Verbosity) -> Iterator[Display]:
    """A display for the time of a training; its bar is gone afterwards."""
    if verbosity.quiet or not sys.stderr.isatty():
        yield Display(verbosity)
        return
    # Imported here: rich takes a while.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=10), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Display(verbosity, bar=bar)


def _beginning(start: "Started") -> str:
    memory = "" if start.memory is None else f"; {start.memory / 2**30:.1f} GiB of memory"
    processes = f" in each of {start.processes} processes" if start.processes > 1 and memory else ""
    lines = [
        f"{start.tokens:,} tokens, {start.types:,} distinct words, {start.unknown_share:.1%} of tokens are <UNK>",
        f"{start.parameters:,} parameters, and {start.softmax_parameters:,} in the softmax{memory}{processes}",
    ]
    if start.done == start.updates:
        return "\n".join([*lines, f"this run is finished, after {start.updates:,} updates; its model is written again"])
    frozen = f", the first {start.frozen_updates:,} for the softmax alone" if start.frozen_updates else ""
    lines.append(
        f"{start.updates:,} updates{frozen}, {start.epochs:.2f} epochs; "
        f"about {_duration(start.seconds)} {'left ' if start.done else ''}on this machine"
    )
    if start.done:
        lines.append(f"going on after update {start.done:,}")
    return "\n".join(lines)


def _line(event: "Progressed", *, sampled: bool) -> str:
    update = event.update
    perplexities = " ".join(f"{math.exp(min(loss, 700.0)):.1f}" for loss in update.losses)
    return (
        f"epoch {event.epoch:.2f}  loss {update.loss:.4f}  {'sampled ' if sampled else ''}perplexities {perplexities}  "
        f"{event.tokens_per_second:,.0f} tokens/s"
    )


def _perplexities(held_out: "HeldOut") -> str:
    each = ", ".join(f"{direction} {value:.2f}" for direction, value in held_out.perplexities.items())
    return f"{held_out.mean:.2f} by the full softmax ({each})"


def _duration(seconds: float) -> str:
    """In words a person plans with.

    >>> _duration(75), _duration(7300)
    ('1 min 15 s', '2 h 1 min')
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _silence() -> None:
    """Let everything that is still to be said go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stderr.fileno())
    os.close(nowhere)
