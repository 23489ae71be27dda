"""Tokens of another style than the model's: turned into its words, and still one vector each."""

from pathlib import Path

import numpy as np
import pytest
import torch

from elmore import Elmo, Embedder, embed_file, open_vectors
from elmore.embedding.token_alignment import pool_tokens
from elmore.errors import InputError, InputWarning

PENN = ["I", "ca", "n't", "-LRB-", "really", "-RRB-", "and\\/or"]
# What the model reads instead, and which of it belongs to which token (see `elmore.text.token_style`).
WORDS = ["I", "can", "'t", "(", "really", ")", "and", "/", "or"]
GROUPS = [[0], [1], [1, 2], [3], [4], [5], [6, 7, 8]]


def test_a_token_has_the_mean_of_its_words_in_every_layer() -> None:
    vectors = torch.arange(24.0).reshape(2, 4, 3)
    pooled = pool_tokens(vectors, [range(2), range(1, 2), range(1, 4)])
    assert pooled.shape == (2, 3, 3)
    torch.testing.assert_close(pooled[:, 0], vectors[:, :2].mean(dim=1))
    torch.testing.assert_close(pooled[:, 1], vectors[:, 1])
    torch.testing.assert_close(pooled[:, 2], vectors[:, 1:].mean(dim=1))
    assert pool_tokens(vectors[:, :0], []).shape == (2, 0, 3)


@pytest.mark.parametrize("options", [{}, {"layers": "all"}, {"state": "carry"}, {"dtype": "float16"}])
def test_penn_tokens_get_the_means_of_the_models_words(tiny: Embedder, options: dict) -> None:
    words = tiny.encode([WORDS], **options)[0]
    tokens = tiny.encode([PENN], token_style="penn", **options)[0]
    assert tokens.shape[-2] == len(PENN)
    expected = np.stack([words[..., group, :].mean(axis=-2) for group in GROUPS], axis=-2)
    np.testing.assert_allclose(tokens, expected, atol=1e-6 if "dtype" not in options else 2e-3)


@pytest.mark.parametrize("style", ["nltk", "plain", "ud"])
def test_the_other_styles_are_converted_as_well(tiny: Embedder, style: str) -> None:
    given = ["a", "well", "-", "known", "``", "fact"]
    quote = '"' if style == "nltk" else "``"
    words, groups = (
        (["a", "well-known", quote, "fact"], [[0], [1], [1], [1], [2], [3]])
        if style == "ud"
        else (["a", "well", "-", "known", quote, "fact"], [[0], [1], [2], [3], [4], [5]])
    )
    expected = tiny.encode([words])[0][[group[0] for group in groups]]
    np.testing.assert_allclose(tiny.encode([given], token_style=style)[0], expected, atol=1e-6)


def test_streams_and_tensors_have_them_too_and_strings_need_none(tiny: Embedder) -> None:
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


def test_an_unknown_style_is_named(tiny: Embedder) -> None:
    with pytest.raises(InputError, match="token_style is 'spacy'; it must be one of moses, penn, nltk, plain, ud"):
        tiny.encode([PENN], token_style="spacy")


def test_a_file_of_penn_tokens_keeps_its_tokens(tmp_path: Path, tiny: Embedder) -> None:
    source, target = tmp_path / "text.txt", tmp_path / "v.npz"
    source.write_text(" ".join(PENN) + "\n")
    embed_file(source, target, model=tiny, input_format="tokenized", token_style="penn")
    with open_vectors(target) as vectors:
        assert vectors.words(0) == PENN
        np.testing.assert_allclose(vectors[0], tiny.encode([PENN], token_style="penn")[0], atol=1e-6)
        assert vectors.meta["job"]["token_style"] == "penn"
    with pytest.raises(InputError, match=r"text\.txt: is running text, and a token style is for .* tokens"):
        embed_file(source, target, model=tiny, token_style="penn")


def test_a_text_is_split_as_the_model_was_taught(tiny: Embedder) -> None:
    assert tiny.split("Dr. Smith took\na bow. Why?", paragraphs="blank-line") == ["Dr. Smith took a bow.", "Why?"]
    assert [len(array) for array in tiny.encode(tiny.split("I took a bow. Me too."))] == [5, 3]


def test_penn_tokens_are_remarked_upon_in_a_later_call_too_and_then_no_more() -> None:
    model = Embedder.from_pretrained("tiny-random")  # a fresh one, which has not looked at anything yet
    model.encode("A clean sentence.")
    model.encode([PENN], token_style="penn")
    with pytest.warns(InputWarning, match=r"the tokens look Penn-style \(\"n't\"\)"):
        model.encode([PENN])
    model.encode([PENN])  # a warning would be an error


def test_elmo_remarks_on_tokens_and_on_words_for_sentences() -> None:
    with pytest.warns(InputWarning, match="the tokens look Penn-style"):
        Elmo.from_pretrained("tiny-random")([PENN])
    elmo = Elmo.from_pretrained("tiny-random")
    elmo(["A clean sentence."])
    with pytest.warns(InputWarning, match="each of the 4 strings .* is read as a sentence of one word"):
        elmo(["I", "took", "a", "bow"])
    elmo(["I", "took", "a", "bow"])


def test_sentence_and_word_vectors_take_penn_tokens(tiny: Embedder) -> None:
    tokens = tiny.encode([PENN], token_style="penn")[0]
    [mean] = tiny.encode_sentences([PENN], token_style="penn")
    np.testing.assert_allclose(mean, tokens.mean(axis=0), atol=1e-6)
    bracketed = [*PENN[:2], "[n't]", *PENN[3:]]
    np.testing.assert_allclose(tiny.word_vector(bracketed, token_style="penn"), tokens[2], atol=1e-6)
