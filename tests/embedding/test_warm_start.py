"""A warm start state is computed once, stored, and used for every sentence alike."""

from pathlib import Path

import numpy as np
import pytest

from elmore import Embedder, load
from elmore.embedding.warm_start import with_warm_start
from elmore.errors import InputError
from elmore.model import save

TEXT = [["some", "text"], ["to", "warm", "up", "on"], []]


def test_a_warm_model_starts_from_the_mean_of_its_states_and_keeps_that_when_saved(tmp_path: Path) -> None:
    cold = load("tiny-random")
    warm = with_warm_start(cold, TEXT, text_name="text.txt")
    network, state, states = cold.network, cold.start, []
    for words in TEXT:
        _, state = network(cold.batch([words]), state)
        states.append(state)
    np.testing.assert_allclose(warm.start.h, sum(s.h for s in states) / 3, atol=1e-6)
    np.testing.assert_allclose(warm.start.c, sum(s.c for s in states) / 3, atol=1e-6)
    save(warm, tmp_path / "warm")
    again = Embedder.from_pretrained(tmp_path / "warm")
    assert again.model.card.start_state == "warm"
    assert "3 sentences of text.txt" in again.model.card.start_state_from
    np.testing.assert_array_equal(again.encode([["a", "b"]])[0], Embedder(warm).encode([["a", "b"]])[0])


def test_a_warm_model_is_as_deterministic_as_a_cold_one() -> None:
    model = Embedder(with_warm_start(load("tiny-random"), TEXT, text_name="text.txt"))
    alone = model.encode([["a", "b"]], layers="top")[0]
    cold = Embedder.from_pretrained("tiny-random").encode([["a", "b"]], layers="top")[0]
    assert np.abs(alone - cold).max() > 1e-3
    among = model.encode([["x"] * 9, ["a", "b"], []], layers="top")[1]
    np.testing.assert_allclose(among, alone, atol=1e-6)


def test_a_text_without_sentences_is_refused() -> None:
    with pytest.raises(InputError, match=r"empty\.txt holds no sentence"):
        with_warm_start(load("tiny-random"), [], text_name="empty.txt")


def test_two_warm_states_are_two_models() -> None:
    cold = load("tiny-random")
    first, second = (with_warm_start(cold, text, text_name="text.txt") for text in (TEXT, TEXT[:1]))
    assert len({cold.fingerprint(), first.fingerprint(), second.fingerprint()}) == 3
