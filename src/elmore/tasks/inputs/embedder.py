"""Token embeddings: word vectors, character CNN and ELMo, concatenated.

    x = [word vector; characters; ELMo]   the input of a task's model
    y = ELMo, with a second mix           for the output of the model's first RNN, if [elmo] where is output or both

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
from elmore.tasks.inputs.vocabulary import FIRST_CHARACTER, RANDOM_STD, TokenVocabulary


class BilmShape(NamedTuple):
    """The shape of a biLM's layers."""

    num_layers: int  # with h0
    dim: int


class EmbeddedTokens(NamedTuple):
    """The vectors of a batch."""

    input: Tensor  # (B, T, input_dim)
    output: Tensor | None  # (B, T, output_dim), for the output of the model's first RNN


class TokenEmbedder(nn.Module):
    """Embeds the tokens of a batch: the first part of each task model."""

    def __init__(
        self,
        words: WordOptions,
        elmo: ElmoOptions,
        vocabulary: TokenVocabulary,
        *,
        vectors: NDArray[np.float32] | None = None,  # (words, size) of the words in the file of word vectors
        bilm: BilmShape | None = None,
        joint: JointElmo | None = None,  # a biLM that is trained with the task
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
            positions = ("input", "output") if elmo.where == "both" else (elmo.where,)
            self.mixes.update({position: make_mix(elmo, bilm) for position in positions})
        self.dropout = nn.Dropout(elmo.dropout)
        size = bilm.dim if bilm else 0
        self.input_dim = (
            (self.words.dim if self.words else 0) + words.character_filters + (size if "input" in self.mixes else 0)
        )
        self.output_dim = size if "output" in self.mixes else 0
        if not self.input_dim:
            raise InputError(
                "the model has no input: set words.vectors, words.character_filters, or elmo.where to input"
            )

    def forward(self, inputs: TokenInputs) -> EmbeddedTokens:
        parts = []
        if self.words is not None:
            parts.append(self.words(inputs.words))
        if self.characters is not None:
            parts.append(self.characters(inputs.characters, inputs.token_types))
        mixed = self._mixed(inputs)
        if "input" in mixed:
            parts.append(mixed["input"])
        return EmbeddedTokens(torch.cat(parts, dim=-1), mixed.get("output"))

    def _mixed(self, inputs: TokenInputs) -> dict[str, Tensor]:
        if not self.mixes:
            return {}
        layers = self.joint(inputs.tokens) if self.joint is not None else inputs.layers
        assert layers is not None, "the batch contains the layers of a frozen biLM"
        # (L, B, T, dim), for the mix. Cached layers are float16; the mix computes in float32.
        layers = layers.movedim(2, 0).float()
        return {position: self.dropout(mix(layers, inputs.mask)) for position, mix in self.mixes.items()}

    def penalty(self) -> Tensor | float:
        """The L2 penalty of the mix weights, for the loss. 0 if the weights are not trained."""
        trained = [mix for mix in self.mixes.values() if isinstance(mix, LayerMix) and mix.scalars.requires_grad]
        return sum((l2_penalty(mix, self.elmo.penalty) for mix in trained), 0.0)


class WordEmbeddings(nn.Module):
    """Word vectors: trained vectors, and vectors from a file, which are trained with `words.trained`.

    Parameter names are fixed by stored models: `learnt` for words without a vector in the file, `given` for the file.
    """

    def __init__(self, options: WordOptions, vocabulary: TokenVocabulary, vectors: NDArray[np.float32] | None) -> None:
        super().__init__()
        self.dim = options.dim if vectors is None else vectors.shape[1]
        # Row 0 is the vector of unknown words.
        self.learnt = nn.Parameter(torch.randn(1 + vocabulary.num_trained, self.dim) * RANDOM_STD)
        self.given = None if vectors is None else nn.Parameter(torch.from_numpy(vectors), requires_grad=options.trained)

    def forward(self, numbers: Tensor) -> Tensor:  # (B, T) -> (B, T, dim)
        last = len(self.learnt) - 1
        learnt = nn.functional.embedding(numbers.clamp(max=last), self.learnt)
        if self.given is None:
            return learnt
        given = nn.functional.embedding((numbers - last - 1).clamp(min=0), self.given)
        return torch.where((numbers > last)[..., None], given, learnt)


def make_mix(options: ElmoOptions, bilm: BilmShape) -> LayerMix:
    """A mix with trained weights, or with fixed weights: a single layer, or the average of all."""
    weights = None
    if options.layers not in ("all", "average"):
        number = bilm.num_layers - 1 if options.layers == "last" else int(options.layers)
        if number >= bilm.num_layers:
            raise InputError(f"elmo.layers is {options.layers}, but the biLM has layers 0 to {bilm.num_layers - 1}")
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
    """Character CNN over the words of a batch. Each distinct word is encoded once.

    Characters are numbers from 1; 0 is padding at the end of a word. Filters are centered at each character, with zeros
    outside the word, so they can detect the first and the last character, and a word may be shorter than a filter. The
    vector of a word without characters is zero. `filters` are pairs of width and number. `dropout` applies to the
    character vectors.

    >>> cnn = CharacterCnn(num_characters=100)
    >>> words = torch.tensor([[5, 9, 2], [7, 0, 0]])  # two distinct words
    >>> cnn(words, torch.tensor([[0, 1, 0, 0]])).shape  # in a sentence of four tokens
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
        """The vector of each token. `index` contains the row in `words` of each token."""
        # Not encoded[index]: its gradients would be summed in a random order.
        return nn.functional.embedding(index, self.encode(words))

    def encode(self, words: Tensor) -> Tensor:  # (W, C) -> (W, F)
        """The vectors of distinct words."""
        if words.shape[1] == 0:
            words = nn.functional.pad(words, (0, 1))
        padding = (words == 0).unsqueeze(2)
        features = []
        for module, width in zip(self.convolutions, self.widths, strict=True):
            convolution = cast("nn.Conv1d", module)  # a ModuleList has no element type
            around = nn.functional.pad(words, ((width - 1) // 2, width // 2))
            # Equal to the convolution, as one lookup and one product. A GPU plans a convolution for each new shape, and
            # each batch has another number of words.
            windows = self._windows(around, width)
            weight = convolution.weight.transpose(1, 2).flatten(1)
            responses = nn.functional.linear(windows, weight, convolution.bias).masked_fill(padding, -torch.inf)
            features.append(responses.max(dim=1).values)
        return torch.relu(torch.cat(features, dim=1))

    def _windows(self, around: Tensor, width: int) -> Tensor:  # (W, C + width - 1) -> (W, C, width * character_dim)
        """The character vectors in the window of a filter at each position."""
        if not self.training or self.dropout.p == 0:
            windows: Tensor = self.characters(around.unfold(1, width, 1))
            return windows.flatten(2)
        # Dropout before unfolding: a character is equal in all windows that contain it.
        dropped: Tensor = self.dropout(self.characters(around))
        return dropped.unfold(1, width, 1).transpose(2, 3).flatten(2)
