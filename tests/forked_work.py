"""A program that uses torch's threads, forks, and lets each child do one piece of work with Elmore.

    python forked_work.py inherited|loaded|unprepared WORK...

`inherited`: the child uses models that the parent has loaded and used. `loaded`: the child loads the models, and the
parent has imported Elmore and used torch. `unprepared`: the parent has not imported Elmore; multiprocessing forks.
Prints the names of the pieces of work that ended with the parent's results.
"""

import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

SECONDS = 60  # for one child, which takes less than one second
TEXTS = [f"I took a bow with word{number} , " + "and a dog , " * 20 for number in range(40)]


def use_torch() -> None:
    """Operations that torch divides among its threads."""
    torch.set_num_threads(4)
    matrix = torch.randn(600, 600)
    (matrix @ matrix).exp().sum().item()
    torch.randn(1_000_000).exp().sum().item()


def embedder() -> list[Callable[[], object]]:
    from elmore import Embedder

    model = Embedder.from_pretrained("tiny-random", device="cpu")
    return [lambda: as_list(model.encode(TEXTS)[7]), lambda: as_list(model.encode(TEXTS, layers=1)[3])]


def elmo() -> list[Callable[[], object]]:
    from elmore import Elmo

    frozen, trained = (Elmo.from_pretrained("tiny-random", dropout=0.0, requires_grad=value) for value in (False, True))

    def train() -> object:
        trained.zero_grad()
        trained(TEXTS).mixed[0].square().sum().backward()
        return trained.network.lstm[0].input.grad.tolist()

    return [lambda: as_list(frozen(TEXTS).mixed[0]), train]


def scoring() -> list[Callable[[], object]]:
    from elmore import perplexity, substitutes, surprisal
    from elmore.scoring.scorer import LanguageModelScorer

    model = LanguageModelScorer.from_pretrained("elmore-en", device="cpu")
    return [
        lambda: perplexity(TEXTS, model=model).mean,
        lambda: [scores.both.tolist() for scores in surprisal(TEXTS, model=model)],
        lambda: [candidate.probability for candidate in substitutes("I took a [bow] .", model=model).both],
    ]


def task() -> list[Callable[[], object]]:
    from elmore.tasks import load

    model = load("pos", device="cpu")
    return [lambda: list(map(str, model.predict(TEXTS)))]


def training() -> list[Callable[[], object]]:
    from elmore.tasks import train

    folder = Path(tempfile.mkdtemp())
    data = folder / "data.txt"
    data.write_text("__label__good a great film\n__label__bad so bad\n" * 20)
    recipe = {"training.epochs": 1, "elmo.model": "tiny-random", "training.seed": 3}

    def run() -> float:
        events = train("classify", folder / str(os.getpid()), train=data, dev=data, recipe=recipe, device="cpu")
        return list(events)[-1].score.value

    return [run]


def allennlp() -> list[Callable[[], object]]:
    from elmore.compat.allennlp import Elmo, ElmoEmbedder, batch_to_ids
    from elmore.formats import write_checkpoint
    from elmore.sources.tiny_random import tiny_checkpoint

    folder = Path(tempfile.mkdtemp())
    write_checkpoint(tiny_checkpoint(), folder / "model", format="hdf5")
    files = folder / "model" / "options.json", folder / "model" / "weights.hdf5"
    words = [text.split() for text in TEXTS]

    def embed() -> object:
        return ElmoEmbedder(*files).embed_batch(words)[7].tolist()

    # Its state goes on from call to call, so that its numbers differ.
    module = Elmo(*files, num_output_representations=1, dropout=0.0)
    module.eval()
    return [embed, lambda: list(module(batch_to_ids(words))["elmo_representations"][0].shape)]


WORK = {one.__name__: one for one in (embedder, elmo, scoring, task, training, allennlp)}


def as_list(values: Any) -> list:
    """The numbers of an array or a tensor."""
    return values.tolist()


def equal(one: object, other: object) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return abs(one - other) <= 1e-4 * max(1, abs(one)) if isinstance(one, float) else one == other


def fork(work: Callable[[], None]) -> int:
    """The exit code of a child that does the work."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1]


def fork_by_multiprocessing(work: Callable[[], None]) -> int:
    child = get_context("fork").Process(target=work)
    child.start()
    child.join(SECONDS)
    child.kill()
    return child.exitcode if child.exitcode is not None else 1


def results(work: Sequence[Callable[[], object]]) -> list[object]:
    return [one() for one in work]


def main(mode: str, names: list[str]) -> None:
    warnings.simplefilter("ignore")  # Python's own, about threads and forks
    use_torch()
    for name in names:
        if mode == "unprepared":
            code = fork_by_multiprocessing(lambda make=WORK[name]: results(make()))
        elif mode == "loaded":
            code = fork(lambda make=WORK[name]: results(make()))
        else:
            code = fork_with_results(WORK[name]())
        if code == 0:
            print(name, flush=True)


def fork_with_results(work: Sequence[Callable[[], object]]) -> int:
    """As `fork`; the child's results must be those of this process."""
    expected = results(work)
    return fork(lambda: None if equal(results(work), expected) else os._exit(3))


if __name__ == "__main__":
    if sys.argv[1] != "unprepared":
        import elmore  # noqa: F401
    main(sys.argv[1], sys.argv[2:])
