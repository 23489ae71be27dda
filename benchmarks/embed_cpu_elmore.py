"""Elmore in turns with other programs, for `embed_cpu.py`.

python benchmarks/embed_cpu_elmore.py TEXT MODEL THREADS COMPUTE
"""

import sys
from pathlib import Path
from typing import Any, cast

from embed_cpu_turns import Batch, serve

from elmore import Embedder, __version__
from elmore.defaults import ComputeName
from elmore.engine.threads import set_threads


def main(text: Path, model: Path, threads: int, compute: ComputeName) -> None:
    set_threads(threads)
    embedder = Embedder.from_pretrained(model, device="cpu", compute=compute)

    def read(batch: Batch) -> list[Any]:
        # The other programs read no more than a batch at a time, and keep nothing of the one before. Here all of the
        # text is a batch: of what comes out the first is kept, to be compared, and the rest let go.
        vectors = embedder.encode_iter(batch, layers="all")
        first = next(vectors)
        return [first, *(None for _ in vectors)]

    serve(text, read, forget=embedder.clear_words, elmore=__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), cast("ComputeName", sys.argv[4]))
