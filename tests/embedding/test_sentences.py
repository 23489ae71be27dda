"""Sentences are strings, words, or tokens of another style; errors name the position of anything else."""

from pathlib import Path

import numpy as np
import pytest
import torch

from elmore import Elmo, Embedder, embed_file, open_vectors
from elmore.embedding.sentences import pool_tokens, tokenize_sentence
from elmore.errors import InputError, InputWarning

PENN = ["I", "ca", "n't", "-LRB-", "really", "-RRB-", "and\\/or"]
# The words of the model, and the words of each token (see `elmore.text.token_styles`).
WORDS = ["I", "can", "'t", "(", "really", ")", "and", "/", "or"]
GROUPS = [[0], [1], [1, 2], [3], [4], [5], [6, 7, 8]]


def test_tokenize_sentence_tokenizes_strings_and_copies_lists(tiny: Embedder) -> None:
    assert tokenize_sentence("Me too.", tiny.tokenizer) == ["Me", "too", "."]
    for given in (["Me", "too."], ("Me", "too."), np.array(["Me", "too."]), (word for word in ("Me", "too."))):
        assert tokenize_sentence(given, tiny.tokenizer) == ["Me", "too."]
    assert tokenize_sentence("", tiny.tokenizer) == tokenize_sentence([], tiny.tokenizer) == []


@pytest.mark.parametrize(
    ("sentences", "complaint"),
    [
        (["fine", b"bytes"], "sentence 1 is bytes; it must be a string or a list of words"),
        ([None], "sentence 0 is NoneType"),
        (["fine", ["a", 3]], "sentence 1, word 1 is int; it must be a string"),
        ([[["a"]]], "sentence 0, word 0 is list"),
    ],
)
def test_wrong_sentence_is_named_with_its_position(tiny: Embedder, sentences: list, complaint: str) -> None:
    for read in (tiny.encode, tiny.encode_sentences, Elmo(tiny.model)):
        with pytest.raises(InputError, match=complaint):
            read(sentences)


def test_bare_string_is_rejected_as_list_of_sentences(tiny: Embedder) -> None:
    elmo = Elmo(tiny.model)
    for read in (tiny.encode_iter, tiny.encode_sentences, elmo, elmo.batch):
        with pytest.raises(InputError, match=r"list|many sentences"):
            read("I took a bow.")


def test_pool_tokens_returns_means_in_every_layer() -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    for vectors in (array, torch.from_numpy(array)):  # of the CPU engines, and of the GPU engine
        pooled = pool_tokens(vectors, [range(2), range(1, 2), range(1, 4)])
        assert type(pooled) is type(vectors)
        assert pooled.shape == (2, 3, 3)
        np.testing.assert_allclose(pooled[:, 0], array[:, :2].mean(axis=1))
        np.testing.assert_allclose(pooled[:, 1], array[:, 1])
        np.testing.assert_allclose(pooled[:, 2], array[:, 1:].mean(axis=1))
        assert pool_tokens(vectors[:, :0], []).shape == (2, 0, 3)


@pytest.mark.parametrize("options", [{}, {"layers": "all"}, {"state": "carry"}, {"dtype": "float16"}])
def test_encode_of_penn_tokens_returns_means_of_words(tiny: Embedder, options: dict) -> None:
    words = tiny.encode([WORDS], **options)[0]
    tokens = tiny.encode([PENN], token_style="penn", **options)[0]
    assert tokens.shape[-2] == len(PENN)
    expected = np.stack([words[..., group, :].mean(axis=-2) for group in GROUPS], axis=-2)
    np.testing.assert_allclose(tokens, expected, atol=1e-6 if "dtype" not in options else 2e-3)


@pytest.mark.parametrize("style", ["nltk", "plain", "ud"])
def test_encode_converts_every_token_style(tiny: Embedder, style: str) -> None:
    given = ["a", "well", "-", "known", "``", "fact"]
    quote = '"' if style == "nltk" else "``"
    words, groups = (
        (["a", "well-known", quote, "fact"], [[0], [1], [1], [1], [2], [3]])
        if style == "ud"
        else (["a", "well", "-", "known", quote, "fact"], [[0], [1], [2], [3], [4], [5]])
    )
    expected = tiny.encode([words])[0][[group[0] for group in groups]]
    np.testing.assert_allclose(tiny.encode([given], token_style=style)[0], expected, atol=1e-6)


def test_every_encode_converts_tokens_but_not_strings(tiny: Embedder) -> None:
    sentences = [PENN, "I can't.", []]
    arrays = tiny.encode(sentences, token_style="penn")
    assert [len(array) for array in arrays] == [7, 4, 0]
    np.testing.assert_array_equal(arrays[1], tiny.encode(sentences[1:], token_style="penn")[0])
    for array, streamed, tensor in zip(
        arrays,
        tiny.encode_iter(sentences, token_style="penn"),
        tiny.encode_tensors(sentences, token_style="penn"),
        strict=True,
    ):
        np.testing.assert_array_equal(array, streamed)
        np.testing.assert_array_equal(array, tensor.numpy())


def test_encode_names_an_unknown_token_style(tiny: Embedder) -> None:
    with pytest.raises(InputError, match="token_style is 'spacy'; it must be one of moses, penn, nltk, plain, ud"):
        tiny.encode([PENN], token_style="spacy")


def test_embed_file_of_penn_tokens_stores_the_tokens(tmp_path: Path, tiny: Embedder) -> None:
    source, target = tmp_path / "text.txt", tmp_path / "v.npz"
    source.write_text(" ".join(PENN) + "\n")
    embed_file(source, target, model=tiny, input_format="tokenized", token_style="penn")
    with open_vectors(target) as vectors:
        assert vectors.tokens(0) == PENN
        np.testing.assert_allclose(vectors[0], tiny.encode([PENN], token_style="penn")[0], atol=1e-6)
        assert vectors.meta["job"]["token_style"] == "penn"
    with pytest.raises(InputError, match=r"text\.txt: is read as text, and token_style='penn' is for tokenized"):
        embed_file(source, target, model=tiny, token_style="penn")


def test_split_follows_the_style_of_the_model(tiny: Embedder) -> None:
    assert tiny.split("Dr. Smith took\na bow. Why?", paragraphs="blank-line") == ["Dr. Smith took a bow.", "Why?"]
    assert [len(array) for array in tiny.encode(tiny.split("I took a bow. Me too."))] == [5, 3]


def test_encode_warns_once_about_penn_tokens() -> None:
    model = Embedder.from_pretrained("tiny-random")  # a new one, which has not checked any input
    model.encode("A clean sentence.")
    model.encode([PENN], token_style="penn")
    with pytest.warns(InputWarning, match=r"the tokens look Penn-style \(\"n't\"\)"):
        model.encode([PENN])
    model.encode([PENN])  # a warning would be an error


def test_elmo_warns_once_about_tokens_and_single_words() -> None:
    with pytest.warns(InputWarning, match="the tokens look Penn-style"):
        Elmo.from_pretrained("tiny-random")([PENN])
    elmo = Elmo.from_pretrained("tiny-random")
    elmo(["A clean sentence."])
    with pytest.warns(InputWarning, match="each of the 4 strings .* is read as a sentence of one word"):
        elmo(["I", "took", "a", "bow"])
    elmo(["I", "took", "a", "bow"])


def test_sentence_and_word_vectors_accept_penn_tokens(tiny: Embedder) -> None:
    tokens = tiny.encode([PENN], token_style="penn")[0]
    [mean] = tiny.encode_sentences([PENN], token_style="penn")
    np.testing.assert_allclose(mean, tokens.mean(axis=0), atol=1e-6)
    bracketed = [*PENN[:2], "[n't]", *PENN[3:]]
    np.testing.assert_allclose(tiny.word_vector(bracketed, token_style="penn"), tokens[2], atol=1e-6)
