"""The Embedder: shapes, order, equal vectors in every batch, and errors for wrong input."""

import random
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore import Embedder, Model, load
from elmore.defaults import ComputeName
from elmore.embedding.options import InferenceOptions
from elmore.embedding.sentences import SENTENCES_PER_READ
from elmore.engine import open_engine
from elmore.engine.native_library import Precision, why_unavailable
from elmore.engine.word_store import WORD_BYTES, WordStore
from elmore.errors import InputError, InputWarning
from elmore.text.word_ids import ByteAlphabet
from engine_proxy import EngineProxy
from thread_count import using_threads

WORDS = st.text(min_size=0, max_size=8)
SENTENCES = st.lists(st.lists(WORDS, max_size=7), max_size=6)
PRECISIONS: list[Any] = [number.name.lower() for number in Precision if why_unavailable(number) is None]

# Another batch or another order, on tiny models, by engines that are not bit-identical.
SAME = 1e-6


@pytest.fixture
def model() -> Embedder:
    """A new Embedder without cached words."""
    return Embedder.from_pretrained("tiny-random", device="cpu")


def assert_same(found: Any, expected: Any, embedder: Embedder) -> None:
    """Bit-identical with the native engine, close with others."""
    if embedder.engine.name == "native":
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found, expected, atol=SAME, rtol=0)


@pytest.mark.filterwarnings("ignore::elmore.errors.InputWarning")  # random words may look like a mistake
@given(SENTENCES, st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_encode_returns_same_vectors_in_any_batch_and_order(
    tiny: Embedder, sentences: list[list[str]], shuffler: random.Random
) -> None:
    alone = [tiny.encode([sentence], layers="all")[0] for sentence in sentences]
    order = list(range(len(sentences)))
    shuffler.shuffle(order)
    together = tiny.encode([sentences[i] for i in order], layers="all", batch_tokens=20)
    for place, i in enumerate(order):
        assert_same(together[place], alone[i], tiny)


@pytest.mark.parametrize("compute", PRECISIONS)
def test_native_encode_returns_same_bits_in_any_batch_and_threads(compute: ComputeName) -> None:
    sentences = [["A", "bow", "and", f"{n}", *["arrow"] * (n % 9)] for n in range(40)]
    model = Embedder.from_pretrained("tiny-random", device="cpu", compute=compute)
    together = model.encode(sentences, layers="all")
    for threads, batch_tokens in ((1, 64), (3, 2048)):
        with using_threads(threads):
            fresh = Embedder.from_pretrained("tiny-random", device="cpu", compute=compute)
            again = fresh.encode(sentences[::-1], layers="all", batch_tokens=batch_tokens)[::-1]
            assert all(np.array_equal(one, other) for one, other in zip(together, again, strict=True))
            assert np.array_equal(fresh.encode([sentences[7]], layers="all")[0], together[7])


def test_encode_twice_returns_same_bits(model: Embedder) -> None:
    sentences = [["a", "b"], ["c"] * 30, [], ["d", "a"]]
    first = model.encode(sentences, layers="all")
    model.encode([["other", "words"], ["in", "between"]])
    for before, after in zip(first, model.encode(sentences, layers="all"), strict=True):
        assert np.array_equal(before, after)


def test_encode_returns_same_vectors_with_a_full_word_store(model: Embedder) -> None:
    sentences = [[f"Word{n}" for n in range(start, start + 23)] for start in range(0, 230, 23)]
    expected = model.encode(sentences, layers=0)
    small = WordStore(model.engine, model._model.word_indexer, max_bytes=5 * (4 * 16 + WORD_BYTES))
    model._running = model._running._replace(store=small)
    for _ in range(2):
        for before, after in zip(expected, model.encode(sentences, layers=0, batch_tokens=20), strict=True):
            assert_same(after, before, model)
    assert len(small) < 60


def test_encode_shape_follows_layers(tiny: Embedder) -> None:
    sentence = ["three", "small", "words"]
    everything = tiny.encode([sentence], layers="all")[0]
    assert everything.shape == (3, 3, tiny.dim)
    np.testing.assert_allclose(tiny.encode([sentence])[0], everything.mean(axis=0), atol=SAME)
    np.testing.assert_allclose(tiny.encode([sentence], layers="top")[0], everything[2], atol=SAME)
    np.testing.assert_allclose(tiny.encode([sentence], layers=1)[0], everything[1], atol=SAME)
    np.testing.assert_allclose(tiny.encode([sentence], layers=[2, 0])[0], everything[[2, 0]], atol=SAME)


def test_encode_of_one_string_returns_one_array(tiny: Embedder) -> None:
    single = tiny.encode("I took a bow.")
    assert isinstance(single, np.ndarray)
    assert single.shape == (5, tiny.dim)
    assert isinstance(tiny.encode(["I took a bow."]), list)
    assert tiny.encode([]) == []


@pytest.mark.parametrize("dtype", [np.float16, np.dtype("float16"), torch.float16, "float16"])
def test_encode_returns_float16_on_request(tiny: Embedder, dtype: Any) -> None:
    half = tiny.encode("I took a bow.", dtype=dtype)
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, tiny.encode("I took a bow."), atol=2e-3)
    assert tiny.encode_tensors(["I took a bow."], dtype=dtype)[0].dtype == torch.float16


def test_encode_depends_on_earlier_sentences_only_with_carried_state(tiny: Embedder) -> None:
    sentences = [["a", "b"], ["c", "d"], ["a", "b"]]
    carried = tiny.encode(sentences, state="carry", batch_size=1, layers="top")
    assert np.abs(carried[0] - carried[2]).max() > 1e-3
    fixed = tiny.encode(sentences, layers="top")
    np.testing.assert_allclose(fixed[0], fixed[2], atol=SAME)
    again = tiny.encode(sentences, state="carry", batch_size=1, layers="top")
    np.testing.assert_array_equal(carried[2], again[2])


def test_encode_with_carried_state_continues_each_row(tiny: Embedder) -> None:
    first, second = ["x"] * 4, ["y"]
    both = tiny.encode([first, second, first, second], state="carry", batch_size=2, layers="top")
    row0 = tiny.encode([first, first], state="carry", batch_size=1, layers="top")
    row1 = tiny.encode([second, second], state="carry", batch_size=1, layers="top")
    np.testing.assert_allclose(both[2], row0[1], atol=SAME)
    np.testing.assert_allclose(both[3], row1[1], atol=SAME)


def test_encode_sentences_pools_over_words(tiny: Embedder) -> None:
    texts = [["one"], ["one", "two", "three", "four"], []]
    mean = tiny.encode_sentences(texts)
    np.testing.assert_allclose(mean[1], tiny.encode([texts[1]])[0].mean(axis=0), atol=SAME)
    np.testing.assert_allclose(mean[0], tiny.encode([texts[0]])[0][0], atol=SAME)
    assert not mean[2].any()
    highest = tiny.encode_sentences(texts, pool="max", layers="top")
    np.testing.assert_allclose(highest[1], tiny.encode([texts[1]], layers="top")[0].max(axis=0), atol=SAME)
    assert tiny.encode_sentences(texts, dtype="float16").dtype == np.float16


@pytest.mark.parametrize("layers", ["all", [0, 1]])
def test_encode_sentences_rejects_several_layers(tiny: Embedder, layers: Any) -> None:
    with pytest.raises(InputError, match="a sentence vector takes 'average', 'top' or one number"):
        tiny.encode_sentences([["a"]], layers=layers)


def test_word_vector_is_the_row_of_the_bracketed_word(tiny: Embedder) -> None:
    row = tiny.encode("He was wielding a bow and arrow .", layers="top")[4]
    np.testing.assert_allclose(tiny.word_vector("He was wielding a [bow] and arrow .", layers="top"), row, atol=SAME)
    listed = ["He", "was", "wielding", "a", "[bow]", "and", "arrow", "."]
    np.testing.assert_allclose(tiny.word_vector(listed, layers="top"), row, atol=SAME)
    assert tiny.word_vector("a [bow] and", layers="all").shape == (3, tiny.dim)


def test_word_vector_of_several_words_is_their_mean(tiny: Embedder) -> None:
    rows = tiny.encode("I love New York .")
    np.testing.assert_allclose(tiny.word_vector("I love [New York] ."), rows[2:4].mean(axis=0), atol=SAME)


@pytest.mark.parametrize("sentence", ["no mark", "[two] [marks]", "empty []", "a [ ] bow", ["no", "mark"]])
def test_word_vector_rejects_sentences_without_one_bracketed_word(tiny: Embedder, sentence: str | list[str]) -> None:
    with pytest.raises(InputError, match=r"exactly one position|contain no word"):
        tiny.word_vector(sentence)


def test_similarity_is_the_cosine_and_zero_for_zero_vectors(tiny: Embedder) -> None:
    a = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(tiny.similarity(a, [[6.0, 8.0], [4.0, -3.0]]), [[1, 0], [0, 0]], atol=1e-6)
    assert tiny.similarity(a[0], a[0]).shape == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": "middle"}, "layers is 'middle'"),
        ({"layers": 3}, "layers is 3"),
        ({"layers": []}, "layers is"),
        ({"layers": [True, False, True]}, "layers is"),
        ({"state": "warm"}, "state is 'warm'"),
        ({"dtype": "int8"}, "dtype is 'int8'"),
        ({"batch_tokens": 0}, "batch_tokens is 0"),
        ({"batch_size": -3}, "batch_size is -3"),
        ({"token_style": "spacy"}, "token_style is 'spacy'"),
    ],
)
def test_encode_names_a_wrong_option(tiny: Embedder, arguments: dict[str, Any], message: str) -> None:
    for encode in (tiny.encode, tiny.encode_iter, tiny.encode_tensors, tiny.encode_sentences):
        with pytest.raises(InputError, match=message):
            encode(["a b"], **arguments)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([["fine"], [1, 2]], "sentence 1, word 0 is int"),
        ([["fine"], 7], "sentence 1 is int"),
        ([b"bytes"], "sentence 0 is bytes"),
        ([["fine", None]], "sentence 0, word 1 is NoneType"),
    ],
)
def test_encode_names_a_wrong_sentence_by_number_and_word(tiny: Embedder, sentences: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tiny.encode(sentences)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [(5, "5 is no text"), (None, "None is no text"), (b"a", "b'a' is no text"), (Path("a.txt"), "'a.txt' is a path")],
)
def test_encode_rejects_what_is_no_text(tiny: Embedder, sentences: Any, message: str) -> None:
    for encode in (tiny.encode, tiny.encode_iter, tiny.encode_tensors, tiny.encode_sentences):
        with pytest.raises(InputError, match=message):
            encode(sentences)


def test_encode_warns_once_about_input_without_tokenization(model: Embedder) -> None:
    sentences = [f"This is sentence {n}, split by hand.".split() for n in range(50)]
    with pytest.warns(InputWarning, match="untokenized"):
        model.encode(sentences)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.encode(sentences)


def test_encode_warns_once_about_words_in_place_of_sentences(model: Embedder) -> None:
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
def test_encode_does_not_warn_about_short_sentences(model: Embedder, sentences: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.encode(sentences)


@pytest.mark.parametrize(("compute", "least"), [("bfloat16", 0.9995), ("int8", 0.998)])
def test_encode_with_rounded_products_stays_close(tiny: Embedder, compute: ComputeName, least: float) -> None:
    if reason := why_unavailable(Precision[compute.upper()]):
        pytest.skip(f"native engine: {reason}")
    fast = Embedder.from_pretrained("tiny-random", device="cpu", compute=compute)
    exact, rough = (m.encode("I took a bow before the curtain .", layers="all") for m in (tiny, fast))
    cosines = (exact * rough).sum(-1) / np.linalg.norm(exact, axis=-1) / np.linalg.norm(rough, axis=-1)
    assert cosines.min() > least
    assert not np.array_equal(exact, rough)


def test_embedder_rejects_compute_that_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    # The function hides its module of the same name.
    monkeypatch.setattr(sys.modules["elmore.engine.open_engine"], "why_unavailable", lambda precision: "not built")
    for compute in ("int8", "bfloat16"):
        with pytest.raises(InputError, match=f"compute='{compute}' requires the native engine: not built"):
            Embedder.from_pretrained("tiny-random", device="cpu", compute=compute)
    assert Embedder.from_pretrained("tiny-random", device="cpu").encode("I took a bow.").shape == (5, 32)
    with pytest.raises(InputError, match="compute='tf32' is a mode of NVIDIA GPUs"):
        Embedder.from_pretrained("tiny-random", device="cpu", compute="tf32")
    with pytest.raises(InputError, match="compute is 'int4'"):
        Embedder.from_pretrained("tiny-random", device="cpu", compute="int4")  # type: ignore[arg-type]


def test_embedder_with_compute_leaves_the_model_unchanged(tiny_model: Model) -> None:
    arrays = {name: np.array(array, copy=True) for name, array in tiny_model.checkpoint.tensors.items()}
    for compute in PRECISIONS:
        Embedder(tiny_model, device="cpu", compute=compute).encode("I took a bow.")
    for name, array in tiny_model.checkpoint.tensors.items():
        assert np.array_equal(array, arrays[name])


class TestHardInput:
    def test_encode_has_vectors_for_all_of_unicode(self, tiny: Embedder) -> None:
        words = [chr(plane * 0x10000 + 0x41) for plane in range(17)] + ["\x00", "a\x00b", "\ud800", "\u200b", " "]
        vectors = tiny.encode([words])[0]
        assert vectors.shape == (len(words), tiny.dim)
        assert np.isfinite(vectors).all()

    def test_encode_cuts_long_words_by_bytes(self, tiny: Embedder) -> None:
        long = tiny.encode([["x" * 48], ["x" * 5000], ["x" * 47 + "é"]], layers=0)
        np.testing.assert_array_equal(long[0], long[1])
        assert np.abs(long[0] - long[2]).max() > 0

    def test_encode_accepts_very_long_and_empty_sentences(self, tiny: Embedder) -> None:
        long, empty, single = tiny.encode([["Word"] * 10_000, [], ["one"]])
        assert (long.shape, empty.shape, single.shape) == ((10_000, 32), (0, 32), (1, 32))
        assert tiny.encode([[]], layers="all")[0].shape == (3, 0, 32)

    def test_encode_accepts_boundary_words_in_text(self, tiny: Embedder) -> None:
        vectors = tiny.encode([["<S>", "a", "</S>", "<S>"]], layers=0)[0]
        np.testing.assert_array_equal(vectors[0], vectors[3])
        assert vectors.shape == (4, 32)

    def test_encode_accepts_many_distinct_words(self, tiny: Embedder) -> None:
        sentences = [[f"{n}-{i}" for i in range(20)] for n in range(1500)]
        vectors = tiny.encode(sentences, layers=0)
        np.testing.assert_allclose(vectors[700], tiny.encode([sentences[700]], layers=0)[0], atol=SAME)

    def test_encode_returns_an_array_for_each_duplicate(self, tiny: Embedder) -> None:
        vectors = tiny.encode([["same"]] * 5)
        assert len(vectors) == 5
        for vector in vectors:
            np.testing.assert_allclose(vector, vectors[0], atol=SAME)


@pytest.mark.parametrize("options", [{}, {"layers": "all"}, {"state": "carry", "batch_size": 2}])
def test_encode_tensors_equals_encode_and_can_be_trained_on(tiny: Embedder, options: dict[str, Any]) -> None:
    sentences = ["I took a bow.", [], ["Me", "too"]]
    tensors = tiny.encode_tensors(sentences, **options)
    for tensor, array in zip(tensors, tiny.encode(sentences, **options), strict=True):
        assert str(tensor.device) == tiny.device
        np.testing.assert_array_equal(tensor.numpy(), array)
    weight = torch.ones(32, requires_grad=True)
    (tensors[0] * weight).sum().backward()
    assert weight.grad is not None
    with pytest.raises(InputError, match="put the string into a list"):
        tiny.encode_tensors("I took a bow.")


def test_encode_tensors_in_inference_mode_can_be_trained_on_later(tiny: Embedder) -> None:
    with torch.inference_mode():
        model = Embedder.from_pretrained("tiny-random", device="cpu")
    assert np.array_equal(model.encode("I took a bow."), tiny.encode("I took a bow."))
    tensor = model.encode_tensors(["I took a bow."])[0]
    (tensor * torch.ones(32, requires_grad=True)).sum().backward()


@pytest.mark.parametrize("layers", ["average", "all"])
def test_encode_returns_arrays_that_own_their_memory(tiny: Embedder, layers: str) -> None:
    sentences = [["a"], ["b"] * 100, ["c"] * 3]
    for vectors in (*tiny.encode(sentences, layers=layers), *tiny.encode_iter(sentences, layers=layers)):
        assert vectors.base is None
        assert vectors.flags.c_contiguous


def test_encode_batches_returns_payloads_in_order(tiny: Embedder) -> None:
    sentences = [([f"w{n}"] * (n % 5), n) for n in range(200)]
    batches = list(tiny.encode_batches(iter(sentences), InferenceOptions(batch_tokens=20)))
    assert [payload for batch in batches for payload in batch.payloads] == list(range(200))
    assert [len(vectors) for batch in batches for vectors in batch.split()] == [n % 5 for n in range(200)]


def test_encode_iter_reads_a_stream_in_bounded_pieces(tiny: Embedder) -> None:
    taken = 0

    def sentences() -> Any:
        nonlocal taken
        while True:
            taken += 1
            yield ["An", "endless", "stream"]

    endless = tiny.encode_iter(sentences(), batch_tokens=100)
    for done in range(1, 1001):
        next(endless)
        # A pack has 20 sentences of five positions.
        assert done <= taken <= done + 20 + SENTENCES_PER_READ


def test_encode_iter_copies_sentences_before_it_reads_the_next(tiny: Embedder) -> None:
    words = [["A", "b"], ["C"], ["D", "e", "f"]] * 100

    def refilled() -> Any:
        one: list[str] = []
        for sentence in words:
            one[:] = sentence
            yield one

    generators = ((word for word in sentence) for sentence in words)
    expected = tiny.encode(words)
    for sentences in (refilled(), generators):
        for vectors, other in zip(tiny.encode_iter(sentences), expected, strict=True):
            assert_same(vectors, other, tiny)


def test_encode_iter_rejects_one_string(tiny: Embedder) -> None:
    with pytest.raises(InputError, match="for one string use encode"):
        tiny.encode_iter("I took a bow.")


@pytest.mark.parametrize(
    ("option", "value"), [("compute", "int8"), ("device", "cuda"), ("batch_invariant", True), ("device", "tpu")]
)
def test_encode_rejects_options_of_another_engine(tiny: Embedder, option: str, value: Any) -> None:
    for encode in (tiny.encode, tiny.encode_iter, tiny.encode_tensors, tiny.encode_sentences):
        with pytest.raises(InputError, match=option):
            encode(["a"], **{option: value})


@pytest.mark.skipif("int8" not in PRECISIONS, reason="int8 is not available")
def test_encode_rejects_the_default_compute_for_another_engine() -> None:
    embedder = Embedder.from_pretrained("tiny-random", device="cpu", compute="int8")
    with pytest.raises(InputError, match=r"compute is 'float32', and this model was opened with 'int8'; open another"):
        embedder.encode(["a"], compute="float32")  # type: ignore[call-overload]
    embedder.encode(["a"], compute="int8")  # type: ignore[call-overload]
    list(embedder.encode_batches([(["a"], None)], InferenceOptions()))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("compute", "float32"),
        ("device", "cpu"),
        ("device", torch.device("cpu")),
        ("device", "auto"),
        ("device", None),
        ("batch_invariant", False),
    ],
)
def test_encode_accepts_the_options_of_its_engine(tiny: Embedder, option: str, value: Any) -> None:
    for encode in (tiny.encode, tiny.encode_iter, tiny.encode_tensors, tiny.encode_sentences):
        encode(["a"], **{option: value})


@pytest.mark.parametrize("wrong", ["elmore-en", Path("model"), None, 5])
def test_embedder_rejects_what_is_no_model(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"Embedder takes a Model, .*for a name or a path: Embedder.from_pretrained"):
        Embedder(wrong)


@pytest.mark.parametrize("wrong", [5, ["elmore-en"], load])
def test_from_pretrained_rejects_what_is_no_name(wrong: Any) -> None:
    with pytest.raises(InputError, match="is not the name of a model; give a name or a path"):
        Embedder.from_pretrained(wrong)


def test_from_pretrained_rejects_a_model_with_advice(tiny_model: Model) -> None:
    with pytest.raises(InputError, match=r"Embedder\(model\)"):
        Embedder.from_pretrained(tiny_model)  # type: ignore[arg-type]


def test_repr_names_model_and_sizes(tiny: Embedder) -> None:
    assert repr(tiny) == "Embedder('tiny-random', dim=32, layers=3)"


def test_repr_html_is_a_table(tiny: Embedder) -> None:
    shown = tiny._repr_html_()
    assert shown.startswith("<table>")
    for part in ("tiny-random", "3 of 32", "36,936", "cpu"):
        assert part in shown


def test_split_and_tokenize_reject_a_list(tiny: Embedder) -> None:
    with pytest.raises(InputError, match="the text is a list; it must be a string"):
        tiny.split(["One. Two."])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="tokenize takes one sentence as a string, not a list"):
        tiny.tokenize(["One."])  # type: ignore[arg-type]


def test_embedder_from_pretrained_frees_the_weights(tiny: Embedder) -> None:
    assert tiny._model.checkpoint.tensors == {}
    assert tiny.model.checkpoint.tensors.keys() == load("tiny-random").checkpoint.tensors.keys()
    assert tiny.fingerprint() == load("tiny-random").fingerprint()


def test_embedder_of_a_model_has_its_model(tiny_model: Model, tmp_path: Path) -> None:
    embedder = Embedder(tiny_model, device="cpu")
    assert embedder.model is tiny_model
    embedder.save_pretrained(tmp_path / "saved")
    assert load(tmp_path / "saved").fingerprint() == tiny_model.fingerprint() == embedder.fingerprint()


def test_to_that_fails_leaves_the_embedder_unchanged(tiny_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("out of memory")

    embedder = Embedder(tiny_model, device="cpu")
    expected = embedder.encode("I took a bow.")
    before = (embedder.engine, embedder.options)
    with pytest.raises(InputError, match="'tpu' cannot be used here"):
        embedder.to("tpu")
    monkeypatch.setattr("elmore.embedding.embedder.resolve_device", lambda _: "cuda:0")
    monkeypatch.setattr("elmore.embedding.embedder.open_engine", failing)
    with pytest.raises(RuntimeError, match="out of memory"):
        embedder.to("cuda")
    assert (embedder.engine, embedder.options) == before
    np.testing.assert_array_equal(embedder.encode("I took a bow."), expected)


class FailingEngine(EngineProxy):
    """Fails to encode groups that contain a word of 13 letters."""

    def encode_words(self, ids: Any) -> Any:
        # A word has its letters, and a mark at each end.
        if (ids.character_ids[:, 14:15] == ByteAlphabet.WORD_END).any():
            raise RuntimeError("cannot encode")
        return self.engine.encode_words(ids)


@pytest.mark.filterwarnings("ignore::elmore.errors.InputWarning")  # no capitals
def test_threads_share_an_embedder_while_some_calls_fail(tiny_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = Embedder(tiny_model, device="cpu")
    sentences = [[f"word{(7 * number + position) % 60}" for position in range(5)] for number in range(40)]
    expected = alone.encode(sentences)
    monkeypatch.setattr("elmore.embedding.embedder.open_engine", lambda *a, **k: FailingEngine(open_engine(*a, **k)))
    shared = Embedder(tiny_model, device="cpu")
    start = Barrier(8)

    def work(thread: int) -> int:
        start.wait(60)
        failures = 0
        for attempt in range(10):
            wrong = [["fine", "thirteen" + "-" * 4 + str(thread)]] if attempt % 2 else [["fine", 3]]
            if thread % 2:
                with pytest.raises(RuntimeError if attempt % 2 else InputError):
                    shared.encode([*sentences, *wrong])
                failures += 1
            if thread == 0:
                shared.clear_words()
            order = random.Random(10 * thread + attempt).sample(range(40), 40)
            for number, vectors in zip(order, shared.encode([sentences[n] for n in order]), strict=True):
                assert_same(vectors, expected[number], shared)
        return failures

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8), timeout=120)) == [0, 10] * 4
    # All words of the last calls are stored, and none twice.
    shared.encode(sentences)
    assert len(shared._running.store) <= 60 + 3
