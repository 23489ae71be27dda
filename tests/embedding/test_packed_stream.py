"""Sentences read in packed rows have the vectors that they have in batches."""

import gc
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore import Embedder
from elmore.config import ORIGINAL, SMALL
from elmore.embedding import packed_stream
from elmore.embedding.encode_options import EncodeOptions
from elmore.embedding.layer_choice import LayerChoice
from elmore.embedding.packed_stream import (
    LONG_STEPS,
    NumberedPack,
    apart_by_length,
    pack_size,
    packs,
    read_pack,
    take_layers,
)
from elmore.embedding.stream import SentenceGroup
from elmore.embedding.word_table import GROUP, TableWords, WordTable
from elmore.errors import InputError, InputWarning, OutOfMemory
from elmore.kernels.selection import kernels_named
from elmore.model import Model

KERNELS = kernels_named("packed")
some_sentences = st.lists(st.lists(st.sampled_from("ABCDEFGHIJ"), max_size=30), min_size=1, max_size=20)


@given(sentences=some_sentences, rows=st.integers(1, 8), choice=st.sampled_from(["average", "top", "all", 0, [2, 1]]))
def test_vectors_are_those_of_sentences_in_batches(tiny: Embedder, sentences, rows, choice):
    expected = tiny.encode(sentences, layers=choice)
    chosen = LayerChoice.parse(choice, num_layers=3)
    with torch.inference_mode():
        ((_, pack),) = packs([SentenceGroup(sentences, sentences)], WordTable(tiny.model), lambda: 10_000)
        layers, lengths = read_pack(tiny.model, pack, rows=rows, depth=chosen.depth, kernels=KERNELS)
        vectors = take_layers(layers, chosen, torch.float32).split(lengths, dim=-2)
    for found, one in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(found.numpy(), one, rtol=1e-5, atol=5e-6)


def test_packs_are_small_at_first_and_lose_nothing(tiny_model: Model):
    sentences = [[f"word{number}"] * 998 for number in range(200)]
    groups = [SentenceGroup(sentences[at : at + 70], range(at, min(at + 70, 200))) for at in (0, 70, 140)]
    found = list(packs(groups, WordTable(tiny_model), lambda: 100_000))
    assert [payload for payloads, _ in found for payload in payloads] == list(range(200))
    assert [len(payloads) for payloads, _ in found] == [33, 100, 67]
    for payloads, pack in found:
        assert pack.lengths.tolist() == [998] * len(payloads)
        assert pack.numbers.tolist() == [number + 2 for number in payloads for _ in range(998)]


@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=30), size=st.integers(1, 40), drawn=st.integers(1, 9))
def test_a_pack_is_full_with_the_sentence_that_fills_it(tiny: Embedder, lengths, size, drawn):
    groups = [
        SentenceGroup([["a"] * length for length in lengths[at : at + drawn]], lengths[at : at + drawn])
        for at in range(0, len(lengths), drawn)
    ]
    found = [pack.lengths for _, pack in packs(groups, WordTable(tiny.model), lambda: size)]
    assert np.concatenate(found).tolist() == lengths
    for own in found[:-1]:
        assert (own + 2).sum() >= size
    for own in found:
        assert (own + 2)[:-1].sum() < size


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
            patched.setattr(TableWords, "_encoded", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                table.read(["c"], 1)
        again = table.read(["c", "a", "b"], 3)
    torch.testing.assert_close(again.table[again.numbers[1:]], kept, atol=5e-6, rtol=0)


@pytest.fixture(params=[False, True], ids=["as it comes", "batch-invariant"])
def packed(request: pytest.FixtureRequest) -> Embedder:
    """Reads as on a GPU, in plain torch."""
    embedder = Embedder.from_pretrained("tiny-random", device="cpu", batch_invariant=request.param)
    embedder.model.network.use_kernels("packed")
    return embedder


SENTENCES: list[Any] = ["I took a bow.", ["pre", "tokenised"], [], "Me too.", ["a"] * 40]


@pytest.mark.parametrize("choice", ["average", "all", "top", 0])
def test_an_embedder_gives_the_same_vectors_in_the_same_order(tiny: Embedder, packed: Embedder, choice: str) -> None:
    expected = tiny.encode(SENTENCES, layers=choice)
    for options in ({}, {"batch_tokens": 10}, {"batch_size": 2}):
        found = packed.encode(SENTENCES, layers=choice, **options)  # type: ignore[arg-type]
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=5e-6)
    for tensor, other in zip(packed.encode_tensors(SENTENCES, layers=choice), expected, strict=True):
        np.testing.assert_allclose(tensor.numpy(), other, rtol=1e-5, atol=5e-6)


def test_payloads_and_token_styles_come_along(tiny: Embedder, packed: Embedder) -> None:
    items = [(["I", "did", "n't"], "first"), ([], "second"), (["Ca", "n't"], "third")]
    chunks = list(packed.encode_chunks(iter(items), EncodeOptions(batch_tokens=4, token_style="penn", dtype="float16")))
    assert [payload for chunk in chunks for payload in chunk.payloads] == ["first", "second", "third"]
    expected = tiny.encode([words for words, _ in items], token_style="penn")
    for vectors, other in zip((own for chunk in chunks for own in chunk.vectors), expected, strict=True):
        assert vectors.dtype == torch.float16
        np.testing.assert_allclose(vectors.numpy(), other, atol=2e-3)


@pytest.mark.parametrize("kernels", ["packed", None])
def test_sentences_are_copied_before_the_next_is_drawn(tiny: Embedder, packed: Embedder, kernels: str | None) -> None:
    words = [["A", "b"], ["C"], ["D", "e", "f"]] * 100

    def refilled() -> Iterator[list[str]]:
        one: list[str] = []
        for sentence in words:
            one[:] = sentence
            yield one

    lines = [(number, word) for number, sentence in enumerate(words) for word in sentence]
    grouped = ((word for _, word in own) for _, own in groupby(lines, key=lambda line: line[0]))
    packed.model.network.use_kernels(kernels)
    expected = tiny.encode(words)
    for sentences in (refilled(), grouped):
        for one, other in zip(packed.encode_iter(sentences), expected, strict=True):  # type: ignore[arg-type]
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=5e-6)


def test_a_carried_state_is_carried(tiny: Embedder, packed: Embedder) -> None:
    sentences = [["to", "be"], ["or"], ["not", "to", "be"], ["a"]]
    expected = tiny.encode(sentences, state="carry", batch_size=2)
    for one, other in zip(packed.encode(sentences, state="carry", batch_size=2), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=5e-6)


def test_vectors_may_stand_in_a_training_and_own_their_memory(packed: Embedder) -> None:
    first, _ = packed.encode_tensors([["a", "b"], ["c"]])
    assert first.untyped_storage().nbytes() == first.nbytes
    weight = torch.ones(first.shape[1], requires_grad=True)
    (first @ weight).sum().backward()
    assert weight.grad is not None


def failing_above(words: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have no memory for packs of more words; which were tried is noted."""
    tried: list[int] = []
    read: Callable[..., Any] = packed_stream.read_pack

    def reading(model: Model, pack: NumberedPack, **options: Any) -> Any:
        tried.append(len(pack.numbers))
        if tried[-1] > words:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return read(model, pack, **options)

    monkeypatch.setattr(packed_stream, "read_pack", reading)
    return tried


def test_a_pack_that_does_not_fit_is_read_in_halves_and_the_next_is_smaller(
    tiny: Embedder, packed: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = [["a", "b", "c", "d"], ["e", "f"]] * 6
    tried = failing_above(10, monkeypatch)
    with pytest.warns(InputWarning, match="a batch of 5 sentences did not fit into memory; trying it in halves"):
        found = packed.encode(sentences, batch_tokens=25)
    for one, other in zip(found, tiny.encode(sentences), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=5e-6)
    assert tried[0] == 16
    assert max(tried[3:]) <= 10


def test_a_few_long_sentences_are_read_apart_and_come_in_their_order(
    tiny: Embedder, packed: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = [["a"] * length for length in (3, 700, 0, 2, 5000, 1)] + [["b", "c"]] * 200
    tried = failing_above(10_000, monkeypatch)
    for one, other in zip(packed.encode(sentences), tiny.encode(sentences), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=5e-6)
    assert tried == [1106, 5000]


@given(lengths=st.lists(st.integers(0, 3000), min_size=1, max_size=50), rows=st.integers(1, 60))
def test_rows_of_a_part_are_never_far_longer_than_the_others(tiny: Embedder, lengths, rows):
    words = TableWords(tiny.model, fixed_width=False)
    whole = NumberedPack(words, np.arange(sum(lengths)), np.array(lengths), np.arange(len(lengths)))
    positions = whole.positions
    parts, done = [whole], []
    while parts:
        part = parts.pop()
        if (apart := apart_by_length(part, rows, positions)) is not None:
            parts.extend(apart)
            continue
        done.append(part)
        longest = int(part.lengths.max()) + 2
        assert longest <= LONG_STEPS or longest * min(rows, len(part.lengths)) <= 2 * positions
    assert sorted(place for part in done for place in part.places) == list(range(len(lengths)))
    starts = np.cumsum(lengths) - lengths
    for part in done:
        expected = [np.arange(starts[place], starts[place] + lengths[place]) for place in part.places]
        assert np.array_equal(part.numbers, np.concatenate(expected))


def test_a_sentence_that_does_not_fit_is_an_error(packed: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_above(2, monkeypatch)
    with pytest.raises(OutOfMemory, match="one sentence of 3 words does not fit into memory; cut it"):
        packed.encode([["a", "b", "c"]])


def test_what_is_no_word_is_refused_by_its_place(packed: Embedder) -> None:
    with pytest.raises(InputError, match="sentence 1, word 1 is int; it must be a string"):
        packed.encode([["a"], ["b", 3]])  # type: ignore[list-item]


def test_a_smaller_gpu_has_smaller_packs() -> None:
    large = pack_size(ORIGINAL, memory=141 * 2**30, bytes_per_number=4)
    small = pack_size(ORIGINAL, memory=8 * 2**30, bytes_per_number=4)
    assert small.positions < large.positions
    assert small.rows < large.rows == 2048
    assert pack_size(SMALL, memory=141 * 2**30, bytes_per_number=2).rows == 4096


def test_a_stream_that_is_left_half_way_is_let_go(packed: Embedder) -> None:
    stream = packed.encode_iter((["a"] for _ in range(10**9)), batch_tokens=10)
    assert next(stream).shape == (1, 32)
    del stream
    gc.collect()


def test_tf32_is_refused_where_there_is_no_nvidia_gpu() -> None:
    with pytest.raises(InputError, match="compute='tf32' is how NVIDIA GPUs multiply, and the model is on cpu"):
        Embedder.from_pretrained("tiny-random", device="cpu", compute="tf32")
