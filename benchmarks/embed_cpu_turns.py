"""The side of a program that `embed_cpu.py` compares: it waits, reads some text when told, and says how long it took.

Needs nothing but Python, because every program has an environment of its own.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Batch = list[list[str]]  # sentences, as words
PROCESS = Path("/proc/self")


def serve(
    text: Path, read: Callable[[Batch], list[Any]], *, forget: Callable[[], None] = lambda: None, **versions: str
) -> None:
    """Take turns until standard input ends, with what gives an array for each sentence of a batch.

    `text` holds, by name, lists of batches. A turn names one of them, and may ask that words be forgotten before each
    batch (`"before": "forget"`) or known already (`"before": "read"`), neither of which is timed.
    """
    parts: dict[str, list[Batch]] = json.loads(text.read_text(encoding="utf-8"))
    answer(**versions, loading_mb=peak_mb())
    answer(ready=True)
    for line in sys.stdin:
        turn = json.loads(line)
        batches, before = parts[turn["part"]], turn.get("before")
        forget_peak()
        began = time.process_time()
        if before == "read":
            for batch in batches:
                read(batch)
        seconds: list[float] = []
        processor, first = 0.0, 0.0
        for batch in batches:
            if before == "forget":
                forget()
            wall, spent = time.perf_counter(), time.process_time()
            vectors = read(batch)
            seconds.append(time.perf_counter() - wall)
            processor += time.process_time() - spent
            assert len(vectors) == len(batch)
            if len(seconds) == 1:  # to see whether programs agree
                first = float(abs(vectors[0]).sum())
            del vectors
        tokens = sum(len(sentence) for batch in batches for sentence in batch)
        answer(
            seconds=seconds,
            processor=processor,
            processor_of_turn=time.process_time() - began,
            tokens=tokens,
            peak_mb=peak_mb(),
            first=first,
        )


def answer(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def peak_mb() -> float:
    """The most memory that this program had, since it began or since `forget_peak`."""
    status = (PROCESS / "status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6


def forget_peak() -> None:
    (PROCESS / "clear_refs").write_text("5")
