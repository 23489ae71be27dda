"""Check that many threads can share one Embedder: identical bits, no growth of memory, torch's threads unchanged.

    python benchmarks/stress.py [--minutes 10] [--threads 8] [--compute float32 int8]

Encodes 400 batches of mixed sizes on one thread and stores a digest of each result. Then the threads encode batches in
random order, until the time is over, and compare digests. Meanwhile the number of native threads changes, and words are
dropped from the cache. Each `compute` setting gets an equal part of the time. Exits with an error at the first
difference. Results are not stored.
"""

import argparse
import hashlib
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np

from elmore import Embedder
from elmore.defaults import ComputeName
from elmore.engine.threads import set_threads

MODEL = "elmore-en"
BATCHES = 400
# One sentence, a few, and more than the rows of one piece of work.
BATCH_SIZES = (1, 1, 1, 2, 2, 3, 7, 16, 70)
SENTENCE_LENGTHS = (0, 1, 2, 4, 8, 12, 20, 50)
DISTINCT_WORDS = 3000
NATIVE_THREADS = (1, 2, 3, 8)
# Buffers and caches grow until each thread has encoded this many batches; memory must not grow afterwards.
WARM_UP_BATCHES = 100
ALLOWED_GROWTH_MB = 64

Batch = list[list[str]]


class Difference(Exception):
    """A result that must not differ, differs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--compute", nargs="+", default=["float32", "int8"])
    arguments = parser.parse_args()
    torch_threads = count_torch_threads()
    batches = make_batches(random.Random(1))
    for compute in arguments.compute:
        try:
            print(stress(compute, batches, arguments.threads, 60 * arguments.minutes / len(arguments.compute)))
        except Difference as difference:
            sys.exit(f"{compute}: {difference}")
    if count_torch_threads() != torch_threads:
        sys.exit(f"torch has {count_torch_threads()} threads; it had {torch_threads} before")
    print(f"threads of torch: {'torch is not installed' if torch_threads is None else f'{torch_threads}, unchanged'}")


def make_batches(draw: random.Random) -> list[Batch]:
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(1, 14))) for _ in range(DISTINCT_WORDS)]
    words += [word.title() for word in words[::10]]
    return [
        [draw.choices(words, k=draw.choice(SENTENCE_LENGTHS)) for _ in range(draw.choice(BATCH_SIZES))]
        for _ in range(BATCHES)
    ]


def stress(compute: ComputeName, batches: Sequence[Batch], threads: int, seconds: float) -> str:
    """Encode batches on many threads for some time. Returns a summary; raises Difference."""
    embedder = Embedder.from_pretrained(MODEL, device="cpu", compute=compute)
    set_threads(1)
    expected = [digest(embedder, batch) for batch in batches]
    together = Barrier(threads)
    start = time.monotonic()

    def work(thread: int) -> tuple[int, int]:
        """How many batches this thread encoded, and the memory of the process after the warm-up; 0 without one."""
        draw = random.Random(thread)
        done, memory = 0, 0
        together.wait()
        while time.monotonic() < start + seconds:
            if thread == 0:
                set_threads(draw.choice(NATIVE_THREADS))
            if thread == 1 and draw.random() < 0.05:
                embedder.clear_words()
            number = draw.randrange(len(batches))
            if digest(embedder, batches[number]) != expected[number]:
                raise Difference(f"batch {number} ({len(batches[number])} sentences) has other bits on thread {thread}")
            done += 1
            if done == WARM_UP_BATCHES:
                memory = used_mb()
        return done, memory

    try:
        with ThreadPoolExecutor(threads) as pool:
            results = list(pool.map(work, range(threads)))
    finally:
        set_threads(None)
    done = sum(count for count, _ in results)
    before, after = max(memory for _, memory in results), used_mb()
    if before and after - before > ALLOWED_GROWTH_MB:
        raise Difference(f"memory grew from {before} MB after the warm-up to {after} MB")
    memory = f"memory {before} MB, at the end {after} MB" if before else "memory not compared: choose more --minutes"
    return f"{compute}: {done} batches on {threads} threads, identical bits; {memory}"


def digest(embedder: Embedder, batch: Batch) -> bytes:
    """A digest of all layers of a batch."""
    whole = hashlib.blake2b(digest_size=16)
    for vectors in embedder.encode(batch, layers="all"):
        whole.update(np.ascontiguousarray(vectors).data)
    return whole.digest()


def used_mb() -> int:
    """Resident memory of this process; 0 where the system does not show it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * 4096 // 2**20


def count_torch_threads() -> int | None:
    """The number of threads of torch; None if torch is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch.get_num_threads()


if __name__ == "__main__":
    main()
