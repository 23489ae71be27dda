"""Tokens become vectors: those of words, of their characters, and of ELMo, side by side.

    x = [word vector; characters; ELMo]          what goes into a task's model
    y = ELMo, mixed anew                         what goes to the output of its first RNN, where [elmo] says so

B sentences, T tokens, L layers, dim size of a biLM's vector.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.nn.mix import LayerMix, l2_penalty
from elmore.tasks.core.config import ElmoOptions, WordOptions
from elmore.tasks.inputs.bilm import JointElmo
from elmore.tasks.inputs.token_batch import TokenInputs
from elmore.tasks.inputs.vocabulary import FIRST_CHARACTER, RANDOM_SPREAD, TokenVocabulary


class BilmShape(NamedTuple):
    """What the mixes need to know of a biLM."""

    num_layers: int  # h0 counted
    dim: int


class EmbeddedTokens(NamedTuple):
    """The vectors of a batch."""

    input: Tensor  # (B, T, input_dim)
    output: Tensor | None  # (B, T, output_dim), for the output of the model's first RNN


class TokenEmbedder(nn.Module):
    """The bottom of every task's model."""

    def __init__(
        self,
        words: WordOptions,
        elmo: ElmoOptions,
        vocabulary: TokenVocabulary,
        *,
        vectors: NDArray[np.float32] | None = None,  # of the words that came with one
        bilm: BilmShape | None = None,
        joint: JointElmo | None = None,  # the biLM itself, where it is trained with the task
    ) -> None:
        super().__init__()
        self.words = WordEmbeddings(words, vocabulary, vectors) if words.vectors != "none" else None
        self.characters = None
        if words.character_filters:
            self.characters = CharacterCnn(
                len(vocabulary.characters) + FIRST_CHARACTER,
                character_dim=words.character_dim,
                filters=((words.character_width, words.character_filters),),
                dropout=words.character_dropout,
            )
        self.elmo = elmo
        self.mixes = nn.ModuleDict()
        self.joint = joint
        if elmo.is_used:
            assert bilm is not None
            places = ("input", "output") if elmo.where == "both" else (elmo.where,)
            self.mixes.update({place: make_mix(elmo, bilm) for place in places})
        self.dropout = nn.Dropout(elmo.dropout)
        size = bilm.dim if bilm else 0
        self.input_dim = (
            (self.words.dim if self.words else 0) + words.character_filters + (size if "input" in self.mixes else 0)
        )
        self.output_dim = size if "output" in self.mixes else 0
        if not self.input_dim:
            raise InputError(
                "the model would see no tokens: give words.vectors, words.character_filters, or ELMo as input"
            )

    def forward(self, inputs: TokenInputs) -> EmbeddedTokens:
        parts = []
        if self.words is not None:
            parts.append(self.words(inputs.words))
        if self.characters is not None:
            parts.append(self.characters(inputs.characters, inputs.distinct))
        mixed = self._mixed(inputs)
        if "input" in mixed:
            parts.append(mixed["input"])
        return EmbeddedTokens(torch.cat(parts, dim=-1), mixed.get("output"))

    def _mixed(self, inputs: TokenInputs) -> dict[str, Tensor]:
        if not self.mixes:
            return {}
        layers = self.joint(inputs.tokens) if self.joint is not None else inputs.layers
        assert layers is not None, "the layers of a frozen biLM come with the batch"
        # (L, B, T, dim), as a mix has them; kept as float16, computed in float32.
        layers = layers.movedim(2, 0).float()
        return {place: self.dropout(mix(layers, inputs.mask)) for place, mix in self.mixes.items()}

    def penalty(self) -> Tensor | float:
        """What the mixes add to a loss; 0 where their weights are not learnt."""
        learnt = [mix for mix in self.mixes.values() if isinstance(mix, LayerMix) and mix.scalars.requires_grad]
        return sum((l2_penalty(mix, self.elmo.penalty) for mix in learnt), 0.0)


class WordEmbeddings(nn.Module):
    """Vectors of words: those to be learnt, and a file's, which may stay as they are."""

    def __init__(self, options: WordOptions, vocabulary: TokenVocabulary, vectors: NDArray[np.float32] | None) -> None:
        super().__init__()
        self.dim = options.dim if vectors is None else vectors.shape[1]
        # The first is that of all unknown words.
        self.learnt = nn.Parameter(torch.randn(1 + vocabulary.learnt, self.dim) * RANDOM_SPREAD)
        self.given = None if vectors is None else nn.Parameter(torch.from_numpy(vectors), requires_grad=options.trained)

    def forward(self, numbers: Tensor) -> Tensor:  # (B, T) -> (B, T, dim)
        last = len(self.learnt) - 1
        learnt = nn.functional.embedding(numbers.clamp(max=last), self.learnt)
        if self.given is None:
            return learnt
        given = nn.functional.embedding((numbers - last - 1).clamp(min=0), self.given)
        return torch.where((numbers > last)[..., None], given, learnt)


def make_mix(options: ElmoOptions, bilm: BilmShape) -> LayerMix:
    """The mix that the options ask for: learnt, or fixed to one layer or to all alike."""
    weights = None
    if options.layers not in ("all", "average"):
        number = bilm.num_layers - 1 if options.layers == "last" else int(options.layers)
        if number >= bilm.num_layers:
            raise InputError(f"elmo.layers is {options.layers}, and the biLM has layers 0 to {bilm.num_layers - 1}")
        weights = [float(number == layer) for layer in range(bilm.num_layers)]
    return LayerMix(
        bilm.num_layers,
        weights=weights,
        gamma=options.gamma,
        train_weights=options.layers == "all",
        train_gamma=options.train_gamma,
        normalize="token" if options.normalize else None,
    )


class CharacterCnn(nn.Module):
    """Vectors of a batch's words; each distinct word is encoded once.

    Characters are numbers from 1 on; 0 is padding, at the end of a word. A filter is put at every character of a word,
    and beyond both of its ends sees zeros: so it can tell a first and a last character, and a word may be shorter than
    it. A word without characters is a vector of zeros. `filters` are pairs of width and number; `dropout` is on the
    characters' own vectors.

    >>> cnn = CharacterCnn(num_characters=100)
    >>> words = torch.tensor([[5, 9, 2], [7, 0, 0]])  # two distinct words
    >>> cnn(words, torch.tensor([[0, 1, 0, 0]])).shape  # which stand in a sentence of four
    torch.Size([1, 4, 128])
    """

    def __init__(
        self,
        num_characters: int,
        *,
        character_dim: int = 16,
        filters: Sequence[tuple[int, int]] = ((3, 128),),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.output_dim = sum(number for _, number in filters)
        self.widths = [width for width, _ in filters]
        self.characters = nn.Embedding(num_characters, character_dim, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(character_dim, number, width) for width, number in filters)
        self.dropout = nn.Dropout(dropout)
        bound = (3 / character_dim) ** 0.5
        nn.init.uniform_(self.characters.weight.detach()[1:], -bound, bound)

    def forward(self, words: Tensor, index: Tensor) -> Tensor:  # (W, C), (B, T) -> (B, T, F)
        """The vector of the word that stands at each token, as `index` into `words` has it."""
        # As encoded[index], whose gradients would be added up in any order.
        return nn.functional.embedding(index, self.encode(words))

    def encode(self, words: Tensor) -> Tensor:  # (W, C) -> (W, F)
        """The vectors of distinct words."""
        if words.shape[1] == 0:
            words = nn.functional.pad(words, (0, 1))
        padding = (words == 0).unsqueeze(2)
        features = []
        for module, width in zip(self.convolutions, self.widths, strict=True):
            convolution = cast("nn.Conv1d", module)  # a ModuleList does not tell
            around = nn.functional.pad(words, ((width - 1) // 2, width // 2))
            # As the convolution itself, but one lookup and one product: a GPU makes a plan for a convolution of each
            # new shape, and every batch has another number of words.
            windows = self._windows(around, width)
            weight = convolution.weight.transpose(1, 2).flatten(1)
            responses = nn.functional.linear(windows, weight, convolution.bias).masked_fill(padding, -torch.inf)
            features.append(responses.max(dim=1).values)
        return torch.relu(torch.cat(features, dim=1))

    def _windows(self, around: Tensor, width: int) -> Tensor:  # (W, C + width - 1) -> (W, C, width * character_dim)
        """The vectors of the characters that a filter sees at each place."""
        if not self.training or self.dropout.p == 0:
            seen: Tensor = self.characters(around.unfold(1, width, 1))
            return seen.flatten(2)
        # Dropped before they are laid out: all places of a filter see a character alike.
        dropped: Tensor = self.dropout(self.characters(around))
        return dropped.unfold(1, width, 1).transpose(2, 3).flatten(2)
