"""The Embedder: shapes, order, sameness, and what it says to bad input."""

import random
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore import Embedder, load
from elmore.defaults import ComputeName
from elmore.embedding.encode_options import EncodeOptions
from elmore.embedding.word_cache import WORD_BYTES, WordCache
from elmore.errors import InputError, InputWarning, OutOfMemory
from elmore.kernels.native_library import Number, native_obstacle

WORDS = st.text(min_size=0, max_size=8)
SENTENCES = st.lists(st.lists(WORDS, max_size=7), max_size=6)

# design.md, "How equal is equal": another batch, order or process, on tiny models.
SAME = 1e-6


@pytest.fixture
def model() -> Embedder:
    """A fresh one, with nothing remembered."""
    return Embedder.from_pretrained("tiny-random")


@pytest.mark.filterwarnings("ignore::elmore.errors.InputWarning")  # what is drawn may well look odd
@given(SENTENCES, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_a_sentence_has_the_same_vectors_alone_in_any_batch_and_in_any_order(
    tiny: Embedder, sentences: list[list[str]], shuffler: random.Random
) -> None:
    alone = [tiny.encode([sentence], layers="all")[0] for sentence in sentences]
    order = list(range(len(sentences)))
    shuffler.shuffle(order)
    together = tiny.encode([sentences[i] for i in order], layers="all", batch_tokens=20)
    for place, i in enumerate(order):
        np.testing.assert_allclose(together[place], alone[i], atol=SAME, rtol=0)


def test_the_same_call_twice_gives_the_same_bits(model: Embedder) -> None:
    sentences = [["a", "b"], ["c"] * 30, [], ["d", "a"]]
    first = model.encode(sentences, layers="all")
    model.encode([["other", "words"], ["in", "between"]])
    for before, after in zip(first, model.encode(sentences, layers="all"), strict=True):
        assert np.array_equal(before, after)


def test_a_word_has_the_same_bits_whatever_the_cache_has_forgotten(model: Embedder) -> None:
    sentences = [[f"Word{n}" for n in range(start, start + 23)] for start in range(0, 230, 23)]
    remembered = model.encode(sentences, layers=0)
    model._cache = WordCache(model.model, max_bytes=5 * (4 * 16 + WORD_BYTES))
    for _ in range(2):
        for before, after in zip(remembered, model.encode(sentences, layers=0), strict=True):
            assert np.array_equal(before, after)
    assert len(model._cache) == 5


def test_another_number_of_threads_changes_nothing_that_matters(model: Embedder) -> None:
    one = model.encode([["a", "b", "c"]] * 3, layers="all")[1]
    torch.set_num_threads(2)
    try:
        two = Embedder.from_pretrained("tiny-random").encode([["a", "b", "c"]] * 3, layers="all")[1]
    finally:
        torch.set_num_threads(1)
    np.testing.assert_allclose(two, one, atol=SAME, rtol=0)


def test_shapes_follow_the_layers_that_were_asked_for(tiny: Embedder) -> None:
    sentence = ["three", "small", "words"]
    everything = tiny.encode([sentence], layers="all")[0]
    assert everything.shape == (3, 3, tiny.dim)
    np.testing.assert_allclose(tiny.encode([sentence])[0], everything.mean(axis=0), atol=SAME)
    np.testing.assert_allclose(tiny.encode([sentence], layers="top")[0], everything[2], atol=SAME)
    np.testing.assert_allclose(tiny.encode([sentence], layers=1)[0], everything[1], atol=SAME)
    np.testing.assert_allclose(tiny.encode([sentence], layers=[2, 0])[0], everything[[2, 0]], atol=SAME)


def test_one_string_gives_one_array_and_a_list_gives_a_list(tiny: Embedder) -> None:
    single = tiny.encode("I took a bow.")
    assert isinstance(single, np.ndarray)
    assert single.shape == (5, tiny.dim)
    assert isinstance(tiny.encode(["I took a bow."]), list)
    assert tiny.encode([]) == []


def test_results_come_as_float16_when_asked(tiny: Embedder) -> None:
    half = tiny.encode("I took a bow.", dtype="float16")
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, tiny.encode("I took a bow."), atol=2e-3)


def test_carrying_the_state_depends_on_what_came_before_and_the_fixed_state_does_not(tiny: Embedder) -> None:
    sentences = [["a", "b"], ["c", "d"], ["a", "b"]]
    carried = tiny.encode(sentences, state="carry", batch_size=1, layers="top")
    assert np.abs(carried[0] - carried[2]).max() > 1e-3
    fixed = tiny.encode(sentences, layers="top")
    np.testing.assert_allclose(fixed[0], fixed[2], atol=SAME)
    again = tiny.encode(sentences, state="carry", batch_size=1, layers="top")
    np.testing.assert_array_equal(carried[2], again[2])


def test_rows_carry_on_from_the_same_row_of_the_batch_before(tiny: Embedder) -> None:
    first, second = ["x"] * 4, ["y"]
    both = tiny.encode([first, second, first, second], state="carry", batch_size=2, layers="top")
    row0 = tiny.encode([first, first], state="carry", batch_size=1, layers="top")
    row1 = tiny.encode([second, second], state="carry", batch_size=1, layers="top")
    np.testing.assert_allclose(both[2], row0[1], atol=SAME)
    np.testing.assert_allclose(both[3], row1[1], atol=SAME)


def test_sentence_vectors_pool_over_real_words_only(tiny: Embedder) -> None:
    texts = [["one"], ["one", "two", "three", "four"], []]
    mean = tiny.encode_sentences(texts)
    np.testing.assert_allclose(mean[1], tiny.encode([texts[1]])[0].mean(axis=0), atol=SAME)
    np.testing.assert_allclose(mean[0], tiny.encode([texts[0]])[0][0], atol=SAME)
    assert not mean[2].any()
    highest = tiny.encode_sentences(texts, pool="max", layers="top")
    np.testing.assert_allclose(highest[1], tiny.encode([texts[1]], layers="top")[0].max(axis=0), atol=SAME)


def test_the_vector_of_a_marked_word_is_its_row(tiny: Embedder) -> None:
    row = tiny.encode("He was wielding a bow and arrow .", layers="top")[4]
    np.testing.assert_allclose(tiny.word_vector("He was wielding a [bow] and arrow .", layers="top"), row, atol=SAME)
    listed = ["He", "was", "wielding", "a", "[bow]", "and", "arrow", "."]
    np.testing.assert_allclose(tiny.word_vector(listed, layers="top"), row, atol=SAME)
    assert tiny.word_vector("a [bow] and", layers="all").shape == (3, tiny.dim)


def test_several_marked_words_give_their_mean(tiny: Embedder) -> None:
    rows = tiny.encode("I love New York .")
    np.testing.assert_allclose(tiny.word_vector("I love [New York] ."), rows[2:4].mean(axis=0), atol=SAME)


@pytest.mark.parametrize("sentence", ["no mark", "[two] [marks]", "empty []", ["no", "mark"]])
def test_a_sentence_without_one_mark_is_refused(tiny: Embedder, sentence: str | list[str]) -> None:
    with pytest.raises(InputError, match=r"exactly one place|hold no word"):
        tiny.word_vector(sentence)


def test_similarity_is_the_cosine_and_nothing_is_like_nothing(tiny: Embedder) -> None:
    a = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(tiny.similarity(a, [[6.0, 8.0], [4.0, -3.0]]), [[1, 0], [0, 0]], atol=1e-6)
    assert tiny.similarity(a[0], a[0]).shape == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"layers": "middle"}, "layers is 'middle'"),
        ({"layers": 3}, "layers is 3"),
        ({"layers": -4}, "layers is -4"),
        ({"layers": []}, "layers is"),
        ({"layers": True}, "layers is True"),
        ({"layers": [True, False, True]}, "layers is"),
        ({"layers": slice(3, None)}, "layers is slice"),
        ({"layers": 1.0}, "layers is 1.0"),
        ({"state": "warm"}, "state is 'warm'"),
        ({"dtype": "int8"}, "dtype is 'int8'"),
        ({"dtype": torch.bfloat16}, "dtype is torch.bfloat16"),
        ({"dtype": np.float64}, "dtype is <class"),
        ({"batch_tokens": 0}, "batch_tokens is 0"),
        ({"batch_size": -3}, "batch_size is -3"),
    ],
)
def test_a_wrong_argument_is_named(tiny: Embedder, arguments: dict, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        tiny.encode(["a b"], **arguments)


@pytest.mark.parametrize(
    ("sentences", "complaint"),
    [
        ([["fine"], [1, 2]], "sentence 1, word 0 is int"),
        ([["fine"], 7], "sentence 1 is int"),
        ([b"bytes"], "sentence 0 is bytes"),
        ([["fine", None]], "sentence 0, word 1 is NoneType"),
    ],
)
def test_a_wrong_sentence_is_named_by_number_and_word(tiny: Embedder, sentences: list, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        tiny.encode(sentences)


def test_input_that_looks_untokenised_is_remarked_upon_once(model: Embedder) -> None:
    sentences = [f"This is sentence {n}, split by hand.".split() for n in range(50)]
    with pytest.warns(InputWarning, match="tokenis"):
        model.encode(sentences)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.encode(sentences)


def test_a_batch_that_does_not_fit_is_halved_with_a_word(model: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"], ["i", "j"]]
    expected = model.encode(sentences, layers="all")
    carried = model.encode(sentences * 2, layers="all", state="carry", batch_size=5)
    read = model.model.network.read

    def read_two_rows_at_most(vectors, batch, state, **options):
        if len(batch) > 2:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: 1 TiB")
        return read(vectors, batch, state, **options)

    monkeypatch.setattr(model.model.network, "read", read_two_rows_at_most)
    with pytest.warns(InputWarning, match="halves"):
        halved = model.encode(sentences, layers="all")
    with pytest.warns(InputWarning, match="halves"):
        carried_in_halves = model.encode(sentences * 2, layers="all", state="carry", batch_size=5)
    for a, b in zip(expected + carried, halved + carried_in_halves, strict=True):
        np.testing.assert_allclose(b, a, atol=SAME)


def test_one_sentence_that_does_not_fit_is_given_up_with_a_clear_error(
    model: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(model.model.network, "read", refuse)
    with pytest.raises(OutOfMemory, match="one sentence of 3 words"):
        model.encode([["a", "b", "c"]])


def test_other_errors_of_the_network_are_not_taken_for_a_lack_of_memory(
    model: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(model.model.network, "read", fail)
    with pytest.raises(RuntimeError, match="something else"):
        model.encode([["a"], ["b"]])


def test_words_are_encoded_anew_after_the_weights_changed(model: Embedder) -> None:
    before = model.encode([["a"]], layers=0)[0]
    with torch.no_grad():
        model.model.network.words.characters.add_(1.0)
    assert np.abs(model.encode([["a"]], layers=0)[0] - before).max() > 1e-3


def test_layers_of_a_batch_stay_tensors_in_the_callers_order(tiny: Embedder) -> None:
    layers = tiny.layers(tiny.batch(["I took a bow.", ["short"]]))
    assert layers.stack().shape == (3, 2, 5, tiny.dim)
    assert layers.lengths == [5, 1]
    np.testing.assert_allclose(layers.layer(2)[0].numpy(), tiny.encode("I took a bow.", layers=2), atol=SAME)


@pytest.mark.parametrize(("compute", "least"), [("bfloat16", 0.9995), ("int8", 0.998)])
def test_rounded_numbers_stay_close(tiny: Embedder, compute: ComputeName, least: float) -> None:
    if compute == "int8" and (obstacle := native_obstacle(Number.INT8)):
        pytest.skip(f"native kernels: {obstacle}")
    fast = Embedder.from_pretrained("tiny-random", compute=compute)
    exact, rough = (m.encode("I took a bow before the curtain .", layers="all") for m in (tiny, fast))
    cosines = (exact * rough).sum(-1) / np.linalg.norm(exact, axis=-1) / np.linalg.norm(rough, axis=-1)
    assert cosines.min() > least
    assert not np.array_equal(exact, rough)


def test_what_cannot_be_computed_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmore.embedding.compute.native_obstacle", lambda number: "not built")
    with pytest.raises(InputError, match="compute='int8' is done by the native CPU kernels: not built; there are"):
        Embedder.from_pretrained("tiny-random", compute="int8")
    # By torch, then.
    assert Embedder.from_pretrained("tiny-random", compute="bfloat16").encode("I took a bow.").shape == (5, 32)
    with pytest.raises(InputError, match="compute is 'int4'"):
        Embedder.from_pretrained("tiny-random", compute="int4")


class TestHardInput:
    def test_every_unicode_plane_nul_and_lone_surrogates_have_vectors(self, tiny: Embedder) -> None:
        words = [chr(plane * 0x10000 + 0x41) for plane in range(17)] + ["\x00", "a\x00b", "\ud800", "\u200b", " "]
        vectors = tiny.encode([words])[0]
        assert vectors.shape == (len(words), tiny.dim)
        assert np.isfinite(vectors).all()

    def test_words_over_the_character_limit_are_cut_by_bytes(self, tiny: Embedder) -> None:
        long = tiny.encode([["x" * 48], ["x" * 5000], ["x" * 47 + "é"]], layers=0)
        np.testing.assert_array_equal(long[0], long[1])
        assert np.abs(long[0] - long[2]).max() > 0

    def test_a_sentence_of_ten_thousand_words_and_one_of_none(self, tiny: Embedder) -> None:
        long, empty, single = tiny.encode([["Word"] * 10_000, [], ["one"]])
        assert (long.shape, empty.shape, single.shape) == ((10_000, 32), (0, 32), (1, 32))
        assert tiny.encode([[]], layers="all")[0].shape == (3, 0, 32)

    def test_boundary_marks_may_stand_in_the_text(self, tiny: Embedder) -> None:
        vectors = tiny.encode([["<S>", "a", "</S>", "<S>"]], layers=0)[0]
        np.testing.assert_array_equal(vectors[0], vectors[3])
        assert vectors.shape == (4, 32)

    def test_tens_of_thousands_of_distinct_words(self, tiny: Embedder) -> None:
        sentences = [[f"{n}-{i}" for i in range(20)] for n in range(1500)]
        vectors = tiny.encode(sentences, layers=0)
        np.testing.assert_allclose(vectors[700], tiny.encode([sentences[700]], layers=0)[0], atol=SAME)

    def test_duplicates_are_kept(self, tiny: Embedder) -> None:
        vectors = tiny.encode([["same"]] * 5)
        assert len(vectors) == 5
        for vector in vectors:
            np.testing.assert_allclose(vector, vectors[0], atol=SAME)


@pytest.mark.parametrize("nothing", [5, None])
def test_what_is_no_text_is_refused(tiny: Embedder, nothing: object) -> None:
    with pytest.raises(InputError, match=f"a string or a list of sentences; given was {nothing}"):
        tiny.encode(nothing)


def test_it_says_what_it_is(tiny: Embedder) -> None:
    assert repr(tiny) == "Embedder('tiny-random', dim=32, layers=3)"


def test_brackets_around_nothing_but_blanks_are_refused(tiny: Embedder) -> None:
    with pytest.raises(InputError, match=r"exactly one place|hold no word"):
        tiny.word_vector("a [ ] bow")


def test_computing_in_bfloat16_leaves_the_callers_model_as_it_was() -> None:
    model = load("tiny-random")
    before = model.fingerprint()
    Embedder(model, compute="bfloat16").encode("I took a bow.")
    assert model.fingerprint() == before
    assert next(model.network.parameters()).dtype == torch.float32
    assert model.network.kernel_name is model.network.words.kernel_name is None


@pytest.mark.parametrize("compute", [number.name.lower() for number in Number if native_obstacle(number) is None])
def test_a_sentence_has_the_same_bits_in_every_batch_and_with_any_number_of_threads(compute: ComputeName) -> None:
    sentences = [["A", "bow", "and", f"{n}", *["arrow"] * (n % 9)] for n in range(40)]
    model = Embedder.from_pretrained("tiny-random", compute=compute)
    together = model.encode(sentences, layers="all")
    before = torch.get_num_threads()
    try:
        for threads, batch_tokens in ((1, 64), (3, 2048)):
            torch.set_num_threads(threads)
            fresh = Embedder.from_pretrained("tiny-random", compute=compute)
            again = fresh.encode(sentences[::-1], layers="all", batch_tokens=batch_tokens)[::-1]
            assert all(np.array_equal(one, other) for one, other in zip(together, again, strict=True))
            assert np.array_equal(fresh.encode([sentences[7]], layers="all")[0], together[7])
    finally:
        torch.set_num_threads(before)


def test_a_model_loaded_in_inference_mode_can_be_used(tiny: Embedder) -> None:
    with torch.inference_mode():
        model = Embedder.from_pretrained("tiny-random")
    assert np.array_equal(model.encode("I took a bow."), tiny.encode("I took a bow."))


def test_moving_an_embedder_leaves_the_callers_model_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    # Torch's own stand-in for a device that is not there.
    monkeypatch.setattr("elmore.embedding.embedder.choose_device", torch.device)
    monkeypatch.setattr("elmore.model.choose_device", torch.device)
    model = load("tiny-random")
    embedder = Embedder(model)
    assert embedder.to("meta") is embedder
    assert embedder.device == embedder.model.start.h.device == torch.device("meta")
    assert model.device == model.start.h.device == torch.device("cpu")


def test_staying_where_it_is_costs_nothing(model: Embedder) -> None:
    network = model.model.network
    assert model.to("cpu").model.network is network


def test_words_where_sentences_are_meant_are_remarked_upon_once(model: Embedder) -> None:
    with pytest.warns(InputWarning, match=r"4 strings \('I', 'took', ...\) is read as a sentence of one word"):
        vectors = model.encode(["I", "took", "a", "bow"])
    assert [len(array) for array in vectors] == [1, 1, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.encode(["I", "took", "a", "bow"])


@pytest.mark.parametrize(
    "sentences",
    [
        ["Yes.", "No.", "Why?", "Never."],
        [["I"], ["took"], ["a"], ["bow"]],
        ["I took a bow.", "Why", "Never", "No"],
        ["Yes", "No"],
        "bow",
    ],
)
def test_short_sentences_are_nothing_odd(model: Embedder, sentences) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.encode(sentences)


@pytest.mark.parametrize("dtype", [np.float16, np.dtype("float16"), torch.float16, "float16"])
def test_a_type_of_numbers_has_many_names(tiny: Embedder, dtype) -> None:
    assert tiny.encode("I took a bow.", dtype=dtype).dtype == np.float16
    assert tiny.encode_tensors(["I took a bow."], dtype=dtype)[0].dtype == torch.float16


@pytest.mark.parametrize("options", [{}, {"layers": "all"}, {"state": "carry", "batch_size": 2}])
def test_tensors_are_the_same_numbers_and_may_be_trained_on(tiny: Embedder, options: dict) -> None:
    sentences = ["I took a bow.", [], ["Me", "too"]]
    tensors = tiny.encode_tensors(sentences, **options)
    for tensor, array in zip(tensors, tiny.encode(sentences, **options), strict=True):
        assert tensor.device == tiny.device
        np.testing.assert_array_equal(tensor.numpy(), array)
    weight = torch.ones(32, requires_grad=True)
    (tensors[0] * weight).sum().backward()
    assert weight.grad is not None
    with pytest.raises(InputError, match="put the string into a list"):
        tiny.encode_tensors("I took a bow.")


def test_a_kept_sentence_does_not_keep_its_batch(tiny: Embedder) -> None:
    for vectors in tiny.encode_tensors([["a"], ["b"] * 100, ["c"] * 3], layers="all"):
        assert vectors.untyped_storage().nbytes() == 4 * vectors.numel()


def test_what_comes_along_comes_back_in_order(tiny: Embedder) -> None:
    sentences = [([f"w{n}"] * (n % 5), n) for n in range(200)]
    chunks = list(tiny.encode_chunks(iter(sentences), EncodeOptions(batch_tokens=20)))
    assert [payload for chunk in chunks for payload in chunk.payloads] == list(range(200))
    assert [len(vectors) for chunk in chunks for vectors in chunk.vectors] == [n % 5 for n in range(200)]
    assert len(chunks[0].vectors) < len(chunks[1].vectors) < len(chunks[2].vectors)


def test_in_a_notebook_it_is_a_table(tiny: Embedder) -> None:
    shown = tiny._repr_html_()
    assert shown.startswith("<table>")
    for part in ("tiny-random", "3 of 32", "36,936", "cpu"):
        assert part in shown


def test_a_list_is_neither_split_nor_tokenised(tiny: Embedder) -> None:
    with pytest.raises(InputError, match="a text is to be a string, and this is a list; split one at a time"):
        tiny.split(["One. Two."])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a sentence to be cut into words is a string, and this is a list"):
        tiny.tokenize(["One."])  # type: ignore[arg-type]
