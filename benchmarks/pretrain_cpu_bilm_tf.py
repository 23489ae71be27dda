"""Updates of bilm-tf, some at a time, for `pretrain_cpu.py`, which starts this with an interpreter that has TensorFlow.

    python benchmarks/pretrain_cpu_bilm_tf.py CHECKOUT FOLDER

CHECKOUT is a plain checkout of github.com/allenai/bilm-tf, or an unpacked wheel of `bilm`. It was written for
TensorFlow 1: before its import, the name `tensorflow` is given to `tensorflow.compat.v1`, whose LSTM cells need
`tf_keras`. Nothing else is adapted. Graph, optimizer and loop are those of its own `bilm.training.train`, which asks
for its batches here, and so does a step whenever a batch is handed out.

FOLDER holds options.json, and the windows to read:

    characters.npy   (words, characters)
    inputs.npy       (windows, directions, places, rows) which of the words stands where
    targets.npy      (windows, directions, places, rows) the classes to predict

A line on standard input says how many steps to take; a JSON line on standard output, how long they took.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


class PerplexityKept:
    """Stands for a session and keeps the perplexity of its last step: the loop shows one in a hundred."""

    last = float("nan")

    def __init__(self, session: Any) -> None:
        self._session = session

    def __enter__(self) -> "PerplexityKept":
        self._session.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._session.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run(self, fetches: Any, **feeds: Any) -> Any:
        results = self._session.run(fetches, **feeds)
        if feeds and len(results) > 2 and np.ndim(results[2]) == 0:
            PerplexityKept.last = float(results[2])  # after the step itself and the summaries
        return results


class WindowsOnRequest:
    """What bilm-tf takes for its data: windows, as many as the other side asks for, each time it asks."""

    def __init__(self, folder: Path, *, requests: TextIO, answers: TextIO) -> None:
        self._characters = np.load(folder / "characters.npy")
        self._inputs = np.load(folder / "inputs.npy")
        self._targets = np.load(folder / "targets.npy")
        self._requests, self._answers = requests, answers

    def iter_batches(self, rows: int, steps: int) -> Iterator[dict[str, NDArray[Any]]]:
        assert self._inputs.shape[2:] == (steps, rows)
        number = 0
        self._answer(ready=True)
        for line in self._requests:
            began, processor = time.perf_counter(), time.process_time()
            for _ in range(int(line)):
                yield self._batch(number)
                number += 1
            processor = time.process_time() - processor
            loss = float(np.log(PerplexityKept.last))
            self._answer(seconds=time.perf_counter() - began, processor_seconds=processor, loss=loss)

    def _batch(self, number: int) -> dict[str, NDArray[Any]]:
        batch = {}
        for direction, suffix in enumerate(("", "_reverse")):
            batch[f"tokens_characters{suffix}"] = self._characters[self._inputs[number, direction].T]
            batch[f"next_token_id{suffix}"] = self._targets[number, direction].T
        return batch

    def _answer(self, **values: object) -> None:
        print(json.dumps(values), file=self._answers, flush=True)


def main(checkout: str, folder: Path) -> None:
    import tensorflow

    tf = tensorflow.compat.v1
    tf.disable_v2_behavior()
    sys.modules["tensorflow"] = tf
    sys.path.insert(0, checkout)
    from bilm import training

    options = json.loads((folder / "options.json").read_text())
    threads, session = options["threads"], tf.Session
    tf.Session = lambda config: PerplexityKept(session(config=_with_threads(config, threads)))
    windows = WindowsOnRequest(folder, requests=sys.stdin, answers=sys.stdout)
    windows._answer(tensorflow=tensorflow.__version__)
    with tempfile.TemporaryDirectory() as logs, redirect_stdout(sys.stderr):
        training.train(options, windows, 1, logs, logs)


def _with_threads(config: Any, threads: int) -> Any:
    config.intra_op_parallelism_threads = config.inter_op_parallelism_threads = threads
    return config


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
