"""Whatever happens to a model's files, the reader answers with a checkpoint or with our error, and lives.

The reading is done in child processes: a crash there is a failure here, and not the end of the tests.
"""

import multiprocessing
import os
import random
import signal
from pathlib import Path

import pytest

from elmore.errors import ElmoreError
from elmore.formats import read_checkpoint
from elmore.formats.storage.container import FileContainer

SOURCES = {
    "tensorflow": "bilm-tf-checkpoint/*",
    "elmoformanylangs, old torch layout": "elmoformanylangs/elmo_word_char/*",
    "elmoformanylangs, zip layout": "elmoformanylangs/elmo_word_only/*",
    "allennlp": "allennlp/simple_tagger_best.th",
}
Content = dict[str, bytes]


def damage(files: Content, chance: random.Random) -> Content:
    """Cut, flip, fill, exchange or remove; what describes is hit more often than what is described."""
    files = dict(files)
    name, other = chance.choice(sorted(files)), chance.choice(sorted(files))
    data = bytearray(files[name])
    match chance.choice(["cut", "flip", "flip", "flip", "fill", "exchange", "remove"]):
        case "cut":
            data = data[: chance.randrange(len(data) + 1)]
        case "flip":
            for _ in range(chance.choice([1, 1, 2, 5, 30])):
                reach = len(data) if chance.random() < 0.3 else min(len(data), 8000)
                data[chance.randrange(reach)] ^= 1 << chance.randrange(8)
        case "fill":
            start = chance.randrange(len(data))
            data[start : start + chance.randrange(1, 200)] = chance.randbytes(chance.randrange(200))
        case "exchange":
            data, files[other] = bytearray(files[other]), bytes(data)
        case "remove":
            del files[name]
            return files
    files[name] = bytes(data)
    return files


def read_many(files: Content, seeds: range, folder: Path) -> None:
    """Read as many damaged models; ends the process with an error at the first that ends otherwise."""
    for seed in seeds:
        signal.alarm(30)
        damaged = damage(files, random.Random(seed))
        for name, data in damaged.items():
            (folder / name).write_bytes(data)
        try:
            checkpoint = read_checkpoint(FileContainer({name: folder / name for name in damaged}))
            if checkpoint.softmax is not None:
                checkpoint.softmax()
        except ElmoreError as error:
            if not str(error):
                raise AssertionError(f"seed {seed}: an error without a word") from error


@pytest.mark.skipif(not hasattr(os, "fork"), reason="child processes are forked")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the child computes nothing, so threads do no harm
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("seeds", [range(150), pytest.param(range(150, 2000), marks=pytest.mark.slow)])
def test_a_damaged_model_is_read_or_refused_and_nothing_else(
    fixtures: Path, tmp_path: Path, source: str, seeds: range
) -> None:
    # Without what the original program is expected to make of the model, which no reader opens.
    found = [path for path in fixtures.glob(SOURCES[source]) if not path.name.startswith(("expected", "data.txt"))]
    child = multiprocessing.get_context("fork").Process(
        target=read_many, args=({path.name: path.read_bytes() for path in found}, seeds, tmp_path)
    )
    child.start()
    child.join()
    assert child.exitcode == 0  # a negative number is the signal that ended it; 14 is a hang
