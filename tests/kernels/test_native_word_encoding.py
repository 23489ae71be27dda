"""The native word encoder against the network's own torch modules, and against itself: the same bits in any company."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.config import CharacterConfig, ModelConfig
from elmore.kernels.native_library import Number, native_obstacle
from elmore.network.bilm import BiLM
from elmore.network.initialization import initialize
from elmore.network.word_encoder import WordEncoder
from elmore.text.spelling import WordInputs
from reference.strategies import patiently, seeds

pytestmark = pytest.mark.skipif(
    native_obstacle(Number.FLOAT32) is not None, reason=f"native kernels: {native_obstacle(Number.FLOAT32)}"
)

NAMES = {Number.FLOAT32: "native", Number.BFLOAT16: "native-bfloat16", Number.INT8: "native-int8"}
USABLE = [name for number, name in NAMES.items() if native_obstacle(number) is None]
CHARACTERS, LONGEST, WORDS = 20, 12, 9


@st.composite
def configs(draw: st.DrawFn) -> ModelConfig:
    """Any filters and highways, with or without a word table, characters and a projection."""
    filters = draw(st.lists(st.tuples(st.integers(1, 7), st.sampled_from([1, 3, 16, 65, 70])), min_size=1, max_size=4))
    characters = CharacterConfig(
        alphabet="codepoints",
        n_characters=CHARACTERS,
        max_characters=LONGEST,
        embedding_dim=draw(st.integers(1, 5)),
        filters=tuple(filters),
        activation=draw(st.sampled_from(["relu", "tanh"])),
        n_highways=draw(st.integers(0, 2)),
    )
    table = draw(st.sampled_from([{}, {"n_words": WORDS, "word_dim": 6}]))
    # A model that reads words only has its table alone.
    config = ModelConfig(
        characters=None if table and draw(st.booleans()) else characters, vector_dim=draw(st.integers(1, 70)), **table
    )
    if draw(st.booleans()):
        return config
    size = config.token_features
    return ModelConfig(characters=config.characters, vector_dim=size, token_projection=False, **table)


def random_words(seed: int, config: ModelConfig, number: int) -> WordInputs:
    """Words of any length, the last character repeated to the end."""
    random = torch.Generator().manual_seed(seed)
    characters = torch.randint(0, CHARACTERS, (number, LONGEST), generator=random)
    lengths = torch.randint(0, LONGEST + 1, (number, 1), generator=random)
    characters = torch.where(torch.arange(LONGEST) < lengths, characters, CHARACTERS - 1)
    word_ids = torch.randint(0, WORDS, (number,), generator=random) if config.word_dim else None
    return WordInputs(characters if config.characters else None, word_ids)


def encoder_of(seed: int, config: ModelConfig) -> WordEncoder:
    network = BiLM(config)
    initialize(network, torch.Generator().manual_seed(seed))
    return network.words.requires_grad_(False)


def encoded(encoder: WordEncoder, words: WordInputs, name: str) -> Tensor:
    encoder.kernel_name = name
    return encoder(words)


@patiently
@given(seeds, configs(), st.integers(0, 30))
def test_it_gives_what_the_torch_modules_give(seed: int, config: ModelConfig, number: int) -> None:
    encoder, words = encoder_of(seed, config), random_words(seed, config, number)
    expected = encoded(encoder, words, "reference")
    torch.testing.assert_close(encoded(encoder, words, "native"), expected, rtol=1e-5, atol=1e-5)


@patiently
@given(seeds, configs(), st.sampled_from(USABLE))
def test_a_word_has_the_same_bits_whatever_words_and_threads_are_beside_it(
    seed: int, config: ModelConfig, name: str
) -> None:
    encoder, words = encoder_of(seed, config), random_words(seed, config, 23)
    together = encoded(encoder, words, name)
    for some in ([0], [22, 3], list(range(5, 19))):
        assert torch.equal(encoded(encoder, words.select(torch.tensor(some)), name), together[some])
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            assert torch.equal(encoded(encoder, words, name), together)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", USABLE)
def test_rounded_numbers_stay_close(name: str) -> None:
    config = ModelConfig(characters=CharacterConfig(n_highways=1, filters=((1, 32), (3, 200))), vector_dim=64)
    encoder = encoder_of(1, config)
    characters = torch.randint(0, 261, (40, 50), generator=torch.Generator().manual_seed(1))
    words = WordInputs(characters, None)
    cosines = torch.cosine_similarity(encoded(encoder, words, name), encoded(encoder, words, "reference"))
    assert cosines.min() > 0.999


def test_new_weights_are_seen() -> None:
    config = ModelConfig(characters=CharacterConfig(n_highways=1, filters=((2, 20),)), vector_dim=8)
    encoder = encoder_of(1, config)
    words = WordInputs(torch.randint(0, 261, (4, 50), generator=torch.Generator().manual_seed(1)), None)
    before = encoded(encoder, words, "native")
    encoder.characters.mul_(2)
    after = encoded(encoder, words, "native")
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, encoded(encoder, words, "reference"), rtol=1e-5, atol=1e-5)


def test_a_character_beyond_the_table_is_an_error() -> None:
    config = ModelConfig(characters=CharacterConfig(filters=((2, 20),)), vector_dim=8)
    encoder = encoder_of(1, config)
    for beyond in (261, -1):
        with pytest.raises(IndexError, match="a character beyond the 261 of the model's table"):
            encoded(encoder, WordInputs(torch.full((1, 50), beyond), None), "native")
