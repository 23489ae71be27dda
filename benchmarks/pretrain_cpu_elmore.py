"""Updates of Elmore's trainer, some at a time, for `pretrain_cpu.py`.

    python benchmarks/pretrain_cpu_elmore.py PREPARED THREADS PRECISION

A line on standard input says how many updates to do; a JSON line on standard output, how long they took.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from elmore.corpus.corpus import Corpus
from elmore.network.initialization import initialize
from elmore.network.language_model import LanguageModel
from elmore.pretraining.loop import train
from elmore.pretraining.recipe import Recipe, Training
from elmore.pretraining.sampling import LogUniformSampler
from elmore.pretraining.stepping import Stepper
from elmore.pretraining.windows import WindowPlan, Windows
from elmore.recipe import read_recipe
from elmore.text.spelling import Speller

CONFIG = read_recipe("small", Recipe).model
# The rate never falls, as in the original.
TRAINING = Training(optimizer="adagrad", learning_rate=0.2, warmup=0, final_rate=1.0)


def main(prepared: Path, threads: int, precision: str) -> None:
    torch.set_num_threads(threads)
    training = replace(TRAINING, precision=precision)
    corpus = Corpus.open(prepared)
    sampler = LogUniformSampler(classes=len(corpus.vocabulary), number=TRAINING.negatives)
    windows = Windows(corpus.train, corpus.classes, WindowPlan(rows=TRAINING.rows), sampler=sampler)
    model = LanguageModel(CONFIG, classes=len(corpus.vocabulary))
    initialize(model, torch.Generator().manual_seed(1))
    speller = Speller(CONFIG)
    words = speller.spell(corpus.types)
    stepper = Stepper(
        model,
        words,
        training,
        rows=training.rows,
        characters_needed=speller.characters_needed(words.characters).numpy(),
        class_probabilities=sampler.probabilities,
    )
    _answer(ready=True)
    done = 0
    for line in sys.stdin:
        began = time.perf_counter()
        *_, last = train(stepper, windows, done=done, until=done + int(line), updates=windows.per_epoch)
        done = last.number
        _answer(seconds=time.perf_counter() - began, loss=last.loss)


def _answer(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
