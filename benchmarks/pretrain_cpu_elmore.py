"""Steps of Elmore's trainer, some at a time, for `pretrain_cpu.py`.

    python benchmarks/pretrain_cpu_elmore.py PREPARED THREADS PRECISION

A line on standard input says how many steps to take; a JSON line on standard output, how long they took.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from elmore.corpus.corpus import Corpus
from elmore.engine.threads import set_threads
from elmore.pretraining.initial_model import new_model
from elmore.pretraining.language_model_training import LanguageModelTraining
from elmore.pretraining.recipe import Recipe, Training
from elmore.recipe import read_recipe

CONFIG = read_recipe("small", Recipe).model
# The rate never falls, as in the original.
TRAINING = Training(optimizer="adagrad", learning_rate=0.2, warmup_steps=0, final_rate=1.0)


def main(prepared: Path, threads: int, precision: str) -> None:
    torch.set_num_threads(threads)
    set_threads(threads)
    corpus = Corpus.open(prepared)
    initial = new_model(Recipe(model=CONFIG, training=replace(TRAINING, precision=precision)), corpus)
    training = LanguageModelTraining(corpus, initial, device=torch.device("cpu"))
    _answer(ready=True)
    done = 0
    for line in sys.stdin:
        began, processor = time.perf_counter(), time.process_time()
        *_, last = training.train(done, done + int(line))
        done = last.number
        processor = time.process_time() - processor
        _answer(seconds=time.perf_counter() - began, processor_seconds=processor, loss=last.loss)


def _answer(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
