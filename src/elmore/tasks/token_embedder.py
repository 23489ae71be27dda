"""Tokens become vectors: those of words, of their characters, and of ELMo, side by side.

    x = [word vector; characters; ELMo]          what goes into a task's model
    y = ELMo, mixed anew                         what goes to the output of its first RNN, where [elmo] says so

B sentences, T tokens, L layers, dim size of a biLM's vector.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.nn.mix import LayerMix, l2_penalty
from elmore.tasks.joint_elmo import JointElmo
from elmore.tasks.modules.character_cnn import CharacterCnn
from elmore.tasks.recipe import ElmoOptions, WordOptions
from elmore.tasks.token_inputs import TokenInputs
from elmore.tasks.token_vocabulary import FIRST_CHARACTER, RANDOM_SPREAD, TokenVocabulary


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
