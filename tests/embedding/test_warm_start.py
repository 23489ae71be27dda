"""A warm start state is computed once, stored with the model, and used for every sentence."""

from pathlib import Path

import numpy as np
import pytest

from elmore import Embedder, Model, load
from elmore.embedding.warm_start import compute_warm_start, embed_vocabulary
from elmore.engine import open_engine
from elmore.engine.rows import PackedRows
from elmore.engine.state import State
from elmore.errors import InputError
from elmore.model import save
from elmore.text.vocabulary import Vocabulary

TEXT = [["some", "text"], ["to", "warm", "up", "on"], []]


def test_warm_start_is_the_mean_of_states_after_sentences(tiny_model: Model) -> None:
    warm = compute_warm_start(tiny_model, TEXT, text_name="text.txt", device="cpu")
    engine = open_engine(tiny_model.checkpoint, device="cpu", engine="numpy")
    state, states = State.zeros(tiny_model.config), []
    for words in TEXT:
        table = engine.encode_words(tiny_model.word_indexer.index(["<S>", "</S>", *words]))
        numbers, lengths = np.arange(2, 2 + len(words)), np.array([len(words)])
        _, state = engine.run(table, PackedRows.one_per_row(numbers, lengths, boundaries=(0, 1)), state)
        states.append(state)
    np.testing.assert_allclose(warm.start.h, sum(s.h for s in states) / 3, atol=5e-6)
    np.testing.assert_allclose(warm.start.c, sum(s.c for s in states) / 3, atol=5e-6)
    assert warm.start.h.dtype == warm.start.c.dtype == np.float32


def test_warm_start_is_saved_with_the_model(tmp_path: Path, tiny_model: Model) -> None:
    warm = compute_warm_start(tiny_model, TEXT, text_name="text.txt")
    save(warm, tmp_path / "warm")
    again = Embedder.from_pretrained(tmp_path / "warm")
    assert again.card.start_state == "warm"
    assert again.card.start_state_source == "the mean state after each of 3 sentences of text.txt"
    np.testing.assert_array_equal(again.encode([["a", "b"]])[0], Embedder(warm).encode([["a", "b"]])[0])


def test_warm_embedder_returns_same_vectors_in_any_batch(tiny_model: Model) -> None:
    model = Embedder(compute_warm_start(tiny_model, TEXT, text_name="text.txt"))
    alone = model.encode([["a", "b"]], layers="top")[0]
    cold = Embedder.from_pretrained("tiny-random").encode([["a", "b"]], layers="top")[0]
    assert np.abs(alone - cold).max() > 1e-3
    among = model.encode([["x"] * 9, ["a", "b"], []], layers="top")[1]
    np.testing.assert_allclose(among, alone, atol=1e-6)


def test_warm_start_rejects_a_text_without_sentences(tiny_model: Model) -> None:
    with pytest.raises(InputError, match=r"empty\.txt contains no sentence"):
        compute_warm_start(tiny_model, [], text_name="empty.txt")


def test_fingerprint_depends_on_the_warm_start(tiny_model: Model) -> None:
    first, second = (compute_warm_start(tiny_model, text, text_name="text.txt") for text in (TEXT, TEXT[:1]))
    assert len({tiny_model.fingerprint(), first.fingerprint(), second.fingerprint()}) == 3


def test_embed_vocabulary_returns_a_vector_for_each_word(tmp_path: Path) -> None:
    words = [f"word{number}" + "x" * (number % 20) for number in range(1500)]
    (tmp_path / "words.txt").write_text("\n".join(words) + "\n")
    model = load("tiny-random", vocabulary=tmp_path / "words.txt")
    vectors = embed_vocabulary(model, device="cpu")
    assert (vectors.shape, vectors.dtype) == ((1500, 16), np.float32)
    assert model.vocabulary == Vocabulary.read(tmp_path / "words.txt")
    context_free = Embedder(model, device="cpu").encode([words], layers=0)[0]
    np.testing.assert_allclose(np.concatenate([vectors, vectors], axis=1), context_free, rtol=0, atol=1e-6)


def test_embed_vocabulary_requires_a_vocabulary(tiny_model: Model) -> None:
    with pytest.raises(InputError, match="give a vocabulary file with one word per line"):
        embed_vocabulary(tiny_model)
