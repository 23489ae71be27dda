"""Torch's threads stay out of the way of the native kernels' ones in every pass, and are back after it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from elmore import Elmo, Embedder, perplexity
from elmore.kernels.native_library import NativeLibrary, Number, native_obstacle
from elmore.kernels.torch_threads import native_threads

pytestmark = pytest.mark.skipif(native_obstacle(Number.FLOAT32) is not None, reason="needs the native kernels")

SENTENCE = "I took a bow."
PASSES: dict[str, Callable[[], Any]] = {
    "an Embedder": lambda: Embedder.from_pretrained("tiny-random").encode(SENTENCE),
    "a frozen Elmo": lambda: Elmo.from_pretrained("tiny-random", device="cpu")([SENTENCE]),
    "scoring": lambda: perplexity(SENTENCE, model="elmore-en"),
}


@pytest.fixture
def seen(monkeypatch) -> Iterator[list[tuple[int, int]]]:
    """How many threads torch and the kernels have, at each call of the library, where torch had two before."""
    counts: list[tuple[int, int]] = []

    def counting(run: Callable[..., None]) -> Callable[..., None]:
        def counted(*given: Any) -> None:
            counts.append((torch.get_num_threads(), native_threads()))
            run(*given)

        return counted

    for name in ("run_lstm", "run_dense", "pool_characters"):
        monkeypatch.setattr(NativeLibrary, name, counting(getattr(NativeLibrary, name)))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield counts
    torch.set_num_threads(before)


@pytest.mark.parametrize("reader", PASSES)
def test_torch_has_one_thread_in_every_native_pass_and_all_of_them_after_it(reader: str, seen) -> None:
    PASSES[reader]()
    assert set(seen) == {(1, 2)}
    assert torch.get_num_threads() == 2
