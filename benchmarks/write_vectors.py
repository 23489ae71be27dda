"""How fast vectors reach the disk, relative to a sequential write of as many bytes with fsync.

    python benchmarks/write_vectors.py [--words N] [--rounds N] [--folder FOLDER] [--no-save]

Random float16 vectors of the original size (1024) are written as by `elmore embed`: batches of sentences with their
words go through the writer thread into a work folder, whose file of vectors gets its name at the end. One vector for
each word, and three layers. Each file is written right after a sequential write of the same bytes, and compared with
it; medians of all rounds go to results/write_vectors.json. Processor time counts all threads of the process.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import write_vectors_figures
from circumstances import circumstances

from elmore.embedding.embed_file import Appender
from elmore.embedding.spool import Spool
from elmore.embedding.vector_files import EmbeddedSentences, Layout, VectorType, writer_for
from elmore.embedding.writer_thread import WriterThread

DIM = 1024
WORDS_PER_SENTENCE = 20
BATCH_WORDS = 32_000
BLOCK_BYTES = 2**23

FILES: dict[str, tuple[str, Layout]] = {
    "HDF5": ("vectors.h5", "default"),
    "NumPy": ("vectors.npz", "default"),
    "Parquet": ("vectors.parquet", "default"),
    "HDF5, layout of AllenNLP": ("vectors.hdf5", "allennlp"),
}


def batches(words: int, layers: int | None) -> list[EmbeddedSentences]:
    """Sentences of 20 words. All batches share one array of vectors, so that memory does not limit their number."""
    random = np.random.default_rng(0)
    shape = (BATCH_WORDS, DIM) if layers is None else (layers, BATCH_WORDS, DIM)
    vectors = random.standard_normal(shape, dtype=np.float32).astype(np.float16)
    count = BATCH_WORDS // WORDS_PER_SENTENCE
    made = []
    for first in range(0, words // WORDS_PER_SENTENCE, count):
        numbers = random.zipf(1.3, size=(count, WORDS_PER_SENTENCE)) % 50_000
        sentences = [[f"word{number}" for number in sentence] for sentence in numbers.tolist()]
        digests = [f"{number:032x}" for number in range(first, first + count)]
        made.append(EmbeddedSentences(range(first, first + count), sentences, [None] * count, vectors, digests))
    return made


def write_file(folder: Path, name: str, layout: Layout, given: list[EmbeddedSentences]) -> None:
    """Write a file as `elmore embed` does."""
    target = folder / name
    layers = given[0].vectors.shape[0] if given[0].vectors.ndim == 3 else None
    with Spool(folder / "work", {}, writer_for(target, layout), VectorType(DIM, layers, "float16")) as spool:
        with WriterThread(Appender(spool).append) as writer:
            for batch in given:
                writer.put(batch, size=batch.vectors.nbytes)
        spool.finish(target)


def write_sequentially(folder: Path, given: list[EmbeddedSentences]) -> None:
    """Write the same vectors to a plain file, and put it on disk."""
    with (folder / "bytes").open("wb", buffering=0) as file:
        for batch in given:
            data = batch.vectors.reshape(-1).view(np.uint8).data
            for start in range(0, len(data), BLOCK_BYTES):
                file.write(data[start : start + BLOCK_BYTES])
        os.fsync(file.fileno())


def timed(write: Callable[[], None], folder: Path) -> tuple[float, float]:
    """Wall time and processor time in seconds; the files are deleted."""
    began, processor_began = time.perf_counter(), time.process_time()
    write()
    found = time.perf_counter() - began, time.process_time() - processor_began
    for path in folder.iterdir():
        path.unlink()
    return found


def measure(folder: Path, words: int, rounds: int, layers: int | None) -> dict[str, Any]:
    given = batches(words, layers)
    size = sum(batch.vectors.nbytes for batch in given)
    found: dict[str, Any] = {"words": sum(batch.vectors.shape[-2] for batch in given), "bytes": size}
    measured: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in FILES}
    for number in range(rounds + 1):
        for kind, times in measured.items():
            sequential, _ = timed(lambda: write_sequentially(folder, given), folder)
            seconds, processor = timed(lambda kind=kind: write_file(folder, *FILES[kind], given), folder)
            print(f"{layers or 1} x {DIM}, {kind}: {sequential / seconds:.2f} of sequential", flush=True)
            if number:  # the first round fills the page cache
                times.append((sequential, seconds, processor))
    for kind, times in measured.items():
        found[kind] = {
            "of_sequential": round(median(sequential / seconds for sequential, seconds, _ in times), 3),
            "gigabytes_per_second": round(size / median(seconds for _, seconds, _ in times) / 1e9, 3),
            "sequential_gigabytes_per_second": round(size / median(each for each, _, _ in times) / 1e9, 3),
            "processor_seconds_per_gigabyte": round(median(each for _, _, each in times) / size * 1e9, 3),
            "seconds": [[round(each, 3) for each in three] for three in times],
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=512_000, help="for one vector a word; with three, a third")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found = {
            name: measure(Path(folder), options.words // (layers or 1), options.rounds, layers)
            for name, layers in (("average", None), ("all", 3))
        }
    if not options.no_save:
        write_vectors_figures.RESULTS.write_text(
            json.dumps({**circumstances(), **found}, indent=1) + "\n", encoding="utf-8"
        )
    print(write_vectors_figures.report(found))


if __name__ == "__main__":
    main()
