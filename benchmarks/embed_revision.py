"""Embed a text in turns with another revision, for `compare_revisions.py`.

python benchmarks/embed_revision.py SOURCES TEXT WORDS MODEL COMPUTE THREADS
"""

import json
import os
import sys
import time
from pathlib import Path


def main(sources: str, text: str, words: int, model: str, compute: str, threads: str) -> None:
    sys.path.insert(0, sources)
    os.environ["ELMORE_THREADS"] = threads
    os.environ["OMP_NUM_THREADS"] = threads  # revisions before `set_threads` use the setting of torch
    from elmore import Embedder

    assert Path(sys.modules["elmore"].__file__ or "").is_relative_to(sources)
    embedder = Embedder.from_pretrained(model, device="cpu", compute=compute)  # type: ignore[arg-type]
    inputs: dict[str, list[object]] = {"raw": [], "tokens": []}
    count = 0
    for sentence in embedder.split(Path(text).read_text(encoding="utf-8")[: 10 * words], paragraphs="line"):
        if count < words:
            inputs["raw"].append(sentence)
            inputs["tokens"].append(embedder.tokenize(sentence).words)
            count += len(embedder.tokenize(sentence).words)
    print(json.dumps({"ready": True}), flush=True)
    for turn in sys.stdin:
        start = time.perf_counter()
        found = sum(array.shape[-2] for array in embedder.encode_iter(inputs[turn.strip()]))  # type: ignore[arg-type]
        print(json.dumps({"seconds": time.perf_counter() - start, "words": found}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
