"""Sentences read in packed rows have the vectors that they have in batches."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore import Embedder
from elmore.embedding.layer_choice import LayerChoice
from elmore.embedding.packed_stream import packs, read_pack, take_layers
from elmore.embedding.word_table import GROUP, WordTable
from elmore.kernels.captured_reading import TORCH_READING_CELL, captured_recurrence
from elmore.kernels.selection import kernels_named
from elmore.model import Model

KERNELS = kernels_named("reference")._replace(recurrence=captured_recurrence(TORCH_READING_CELL))
some_sentences = st.lists(st.lists(st.sampled_from("ABCDEFGHIJ"), max_size=30), min_size=1, max_size=20)


@given(sentences=some_sentences, rows=st.integers(1, 8), choice=st.sampled_from(["average", "top", "all", 0, [2, 1]]))
def test_vectors_are_those_of_sentences_in_batches(tiny: Embedder, sentences, rows, choice):
    expected = tiny.encode(sentences, layers=choice)
    chosen = LayerChoice.parse(choice, num_layers=3)
    with torch.inference_mode():
        layers, lengths = read_pack(
            tiny.model, WordTable(tiny.model), sentences, rows=rows, depth=chosen.depth, kernels=KERNELS
        )
        vectors = take_layers(layers, chosen, torch.float32).split(lengths, dim=-2)
    for found, one in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(found.numpy(), one, rtol=1e-5, atol=5e-6)


def test_packs_are_small_at_first_and_lose_nothing():
    sentences = [["word"] * 998] * 200
    sizes = list(map(len, packs(iter(sentences), 100_000)))
    assert sum(sizes) == 200
    assert sizes[0] == 33
    assert max(sizes) == 100


def test_a_word_is_encoded_once_and_has_the_same_bits_whatever_it_comes_with(tiny_model: Model):
    table, other = WordTable(tiny_model), WordTable(tiny_model)
    words = [f"word{number}" for number in range(GROUP + 10)]
    with torch.inference_mode():
        first = table.read(words, len(words))
        assert len(table) == len(words) + 2
        assert torch.equal(table.read(words[::-1], len(words)).table, first.table)
        for some in (words[1000:1030], words[:1500:7]):
            numbered = other.read(some, len(some))
            places = [words.index(word) for word in some]
            assert torch.equal(numbered.table[numbered.numbers], first.table[first.numbers[places]])


def test_a_full_table_starts_anew_and_what_was_given_out_stays(tiny_model: Model):
    table = WordTable(tiny_model, largest=5)
    with torch.inference_mode():
        before = table.read(["a", "b", "c", "d"], 4)
        kept = before.table[before.numbers].clone()
        after = table.read(["e", "a"], 2)
    assert len(table) == 4
    assert torch.equal(before.table[before.numbers], kept)
    torch.testing.assert_close(after.table[after.numbers[1]], kept[0], atol=5e-6, rtol=0)


def test_a_stop_half_way_leaves_no_numbers_without_vectors(tiny_model: Model, monkeypatch: pytest.MonkeyPatch):
    table = WordTable(tiny_model)
    with torch.inference_mode():
        before = table.read(["a", "b"], 2)
        kept = before.table[before.numbers]
        with monkeypatch.context() as patched:
            patched.setattr(WordTable, "_encoded", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                table.read(["c"], 1)
        again = table.read(["c", "a", "b"], 3)
    torch.testing.assert_close(again.table[again.numbers[1:]], kept, atol=5e-6, rtol=0)
