"""What hypothesis draws for the property tests: models of the whole family, and sentences that are no easy read."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from reference.many_languages import ManyLanguagesModel
from reference.published import PublishedModel
from reference.random_models import random_many_languages, random_published

# No deadline: on a busy machine it would fail tests at random.
patiently = settings(deadline=None, max_examples=40)

seeds = st.integers(0, 2**20)
clips = st.sampled_from([None, 0.2, 1.0, 3.0])

# Words that mean something to one alphabet or the other, that repeat, or that are cut.
KNOWN = ["the", "cat", "sat", "Déjà", "東京", "𝄞", "<S>", "</S>", "<UNK>", "<bos>", "<eos>", "<oov>", ""]
LONG = ["antidisestablishmentarianism", "ünïcödé-ünïcödé", "東京都東京都東京都"]
LETTERS = sorted(set("".join(KNOWN)))

# All of Unicode, lone surrogates and controls included.
words = st.sampled_from(KNOWN + LONG) | st.text(st.characters(), max_size=14)
sentences = st.lists(words, max_size=12)
batches = st.lists(sentences, min_size=1, max_size=5)


@st.composite
def published_models(draw: st.DrawFn) -> PublishedModel:
    """Characters or words, any filters and highways, with or without either projection, one direction or two."""
    options: dict[str, Any] = {"lstm": draw(_lstm_options())}
    vocabulary: list[str] = []
    if draw(st.booleans()):
        options["char_cnn"] = draw(_cnn_options(fewest_characters=4))
        if draw(st.booleans()):
            _drop_token_projection(options)
    else:
        vocabulary = draw(st.permutations([*KNOWN, "the", "extra"]))
    return random_published(draw(seeds), options, bidirectional=draw(st.booleans()), vocabulary=vocabulary)


@st.composite
def many_languages_models(draw: st.DrawFn) -> ManyLanguagesModel:
    """ELMoForManyLangs: words, characters or both, read as code points."""
    # Not under eight characters: below, the boundary words themselves would be cut.
    cnn = draw(_cnn_options(fewest_characters=8))
    lstm = draw(_lstm_options())
    word_dim = draw(st.integers(0, 3))
    char_dim = draw(st.integers(0 if word_dim else 1, 3))
    embedder = {key: cnn[key] for key in ("activation", "filters", "n_highway", "max_characters_per_token")}
    config = {"token_embedder": embedder | {"word_dim": word_dim, "char_dim": char_dim}, "encoder": lstm}
    return random_many_languages(draw(seeds), config, words=["the", "cat", "東京", "<S>"], letters=LETTERS)


models: st.SearchStrategy[PublishedModel | ManyLanguagesModel] = published_models() | many_languages_models()


@st.composite
def _lstm_options(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.integers(1, 4))
    return {
        "projection_dim": size,
        "dim": draw(st.sampled_from([size, size + 1, 6])),
        "n_layers": draw(st.integers(1, 3)),
        "use_skip_connections": draw(st.booleans()),
        "cell_clip": draw(clips),
        "proj_clip": draw(clips),
    }


@st.composite
def _cnn_options(draw: st.DrawFn, *, fewest_characters: int) -> dict[str, Any]:
    return {
        "n_characters": 262,
        "embedding": {"dim": draw(st.integers(1, 3))},
        "filters": draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3)),
        "activation": draw(st.sampled_from(["relu", "tanh"])),
        "n_highway": draw(st.integers(0, 2)),
        "max_characters_per_token": draw(st.integers(fewest_characters, 12)),
    }


def _drop_token_projection(options: dict[str, Any]) -> None:
    """Give the LSTM the size of the character features, and so nothing to project."""
    features = sum(number for _, number in options["char_cnn"]["filters"])
    wider = options["lstm"]["dim"] - options["lstm"]["projection_dim"]
    options["lstm"] |= {"projection_dim": features, "dim": features + wider}
