"""The task models' character CNN, against plain NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore.tasks.inputs.embedder import CharacterCnn
from reference.strategies import patiently, seeds

FILTERS = ((1, 2), (2, 3), (3, 4), (5, 2))

some_words = st.lists(st.lists(st.integers(1, 9), max_size=7), min_size=1, max_size=5)


def random_cnn(seed: int) -> CharacterCnn:
    torch.manual_seed(seed)
    return CharacterCnn(10, character_dim=3, filters=FILTERS).double()


def padded(words: list[list[int]], *, beyond: int = 0) -> torch.Tensor:
    length = max(map(len, words)) + beyond
    return torch.tensor([word + [0] * (length - len(word)) for word in words], dtype=torch.int64).view(
        len(words), length
    )


def plain(cnn: CharacterCnn, word: list[int]) -> np.ndarray:
    """Every filter at every character of a word, one by one."""
    table = cnn.characters.weight.detach().numpy()
    features = []
    for convolution in cnn.convolutions:
        weight, bias = convolution.weight.detach().numpy(), convolution.bias.detach().numpy()
        width = weight.shape[2]
        for one, b in zip(weight, bias, strict=True):
            best = 0.0  # ReLU
            for place in range(len(word)):
                response = b
                for offset in range(width):
                    character = place - (width - 1) // 2 + offset
                    if 0 <= character < len(word):
                        response += one[:, offset] @ table[word[character]]
                best = max(best, response)
            features.append(best)
    return np.array(features)


@patiently
@given(seeds, some_words, st.integers(0, 3))
def test_a_word_has_the_largest_response_of_each_filter_whatever_its_padding(
    seed: int, words: list[list[int]], beyond: int
) -> None:
    cnn = random_cnn(seed)
    found = cnn.encode(padded(words, beyond=beyond)).detach()
    assert found.shape == (len(words), cnn.output_dim)
    for row, word in enumerate(words):
        np.testing.assert_allclose(found[row], plain(cnn, word), rtol=0, atol=1e-12)


def test_padding_does_not_win_where_all_else_is_below_its_response() -> None:
    cnn = CharacterCnn(3, character_dim=1, filters=((1, 1),))
    with torch.no_grad():
        cnn.characters.weight[1:] = -1.0
        cnn.convolutions[0].weight.fill_(1.0)
        cnn.convolutions[0].bias.fill_(0.5)  # the response to padding, and -0.5 to the characters
    assert cnn.encode(torch.tensor([[1, 2, 0]])).item() == 0
    assert cnn.encode(torch.tensor([[0, 0, 0]])).item() == 0


def test_words_stand_where_the_index_says_and_add_up_their_gradients() -> None:
    cnn = random_cnn(0)
    words, index = padded([[1, 2, 3], [4], [5, 6]]), torch.tensor([[0, 1, 0], [2, 0, 0]])
    found = cnn(words, index)
    assert torch.equal(found, cnn.encode(words)[index])
    found.square().sum().backward()
    gradients = [parameter.grad.clone() for parameter in cnn.parameters()]
    cnn.zero_grad()
    # The same, with every token a word of its own.
    cnn(words[index.flatten()], torch.arange(6).view(2, 3)).square().sum().backward()
    for gradient, parameter in zip(gradients, cnn.parameters(), strict=True):
        assert gradient.any()
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-10, atol=1e-12)


def test_padding_learns_nothing() -> None:
    cnn = random_cnn(1)
    assert not cnn.characters.weight[0].any()
    cnn.encode(padded([[1, 2, 3], [4]])).sum().backward()
    assert not cnn.characters.weight.grad[0].any()
    assert cnn.characters.weight.grad[1:5].any(dim=1).all()


def test_its_sizes_are_those_of_the_papers_tagger() -> None:
    cnn = CharacterCnn(50)  # Peters et al., 2018: 16-d characters, 128 filters of width 3
    assert {name: tuple(one.shape) for name, one in cnn.named_parameters()} == {
        "characters.weight": (50, 16),
        "convolutions.0.weight": (128, 16, 3),
        "convolutions.0.bias": (128,),
    }


@pytest.mark.parametrize("shape", [(0, 4), (0, 0), (2, 0)])
def test_there_may_be_no_words_or_no_characters(shape: tuple[int, int]) -> None:
    cnn = random_cnn(2)
    words = torch.zeros(shape, dtype=torch.int64)
    assert cnn(words, torch.zeros(3, 0, dtype=torch.int64)).shape == (3, 0, cnn.output_dim)
    assert not cnn.encode(words).any()


@pytest.mark.usefixtures("two_threads")
def test_gradients_have_the_same_bits_every_time() -> None:
    torch.manual_seed(3)
    cnn, words = CharacterCnn(30), torch.randint(1, 30, (40, 6))
    index, weights = torch.randint(0, 40, (300, 100)), torch.randn(300, 100, 128)
    seen = []
    for _ in range(5):
        cnn.zero_grad()
        (cnn(words, index) * weights).sum().backward()
        seen.append(torch.cat([parameter.grad.flatten() for parameter in cnn.parameters()]))
    assert all(torch.equal(one, seen[0]) for one in seen)


def test_dropout_strikes_a_character_alike_wherever_a_filter_sees_it_and_in_training_alone() -> None:
    torch.manual_seed(4)
    cnn = CharacterCnn(10, character_dim=4, filters=((3, 6),), dropout=0.5)
    words = torch.tensor([[1, 2, 3, 4]])
    torch.manual_seed(9)
    found = cnn.encode(words)
    torch.manual_seed(9)
    dropped = torch.nn.functional.dropout(cnn.characters(torch.nn.functional.pad(words, (1, 1))), 0.5)
    responses = cnn.convolutions[0](dropped.transpose(1, 2))
    torch.testing.assert_close(found, torch.relu(responses.max(dim=2).values))
    cnn.eval()
    whole = cnn.convolutions[0](cnn.characters(torch.nn.functional.pad(words, (1, 1))).transpose(1, 2))
    torch.testing.assert_close(cnn.encode(words), torch.relu(whole.max(dim=2).values))
