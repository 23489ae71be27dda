"""Elmo and ElmoTokenEmbedder: the biLM with its mixes, at the bottom of somebody's model."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from torch import Tensor, nn

from elmore.compat.allennlp.bilm import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE, ElmoBiLm
from elmore.compat.allennlp.scalar_mix import ScalarMix
from elmore.errors import InputError

logger = logging.getLogger(__name__)


class ElmoOutput(TypedDict):
    """What a call of `Elmo` gives; n counts the boundaries if they are kept."""

    elmo_representations: list[Tensor]  # for each mix (..., n, dim)
    mask: Tensor  # (..., n) true where there is a word


class Elmo(nn.Module):
    """AllenNLP's `Elmo`.

    The biLM remembers its state from call to call, as AllenNLP's does: the same sentence has other vectors the second
    time. `reset_states` forgets it; `elmore.Elmo` never remembers.

    `num_output_representations` counts mixes, not layers. All mixes start alike, so several give the same vectors
    until they are trained apart; dropout, on by default in training, is drawn for each anew.
    """

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self._elmo_lstm = _bilm(options_file, weight_file, module, requires_grad, vocab_to_cache)
        self._has_cached_vocab = vocab_to_cache is not None
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        self._num_mixes = num_output_representations
        for number in range(num_output_representations):
            mix = ScalarMix(
                self._elmo_lstm.num_layers,
                do_layer_norm=do_layer_norm,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{number}", mix)

    def get_output_dim(self) -> int:
        dim: int = self._elmo_lstm.get_output_dim()
        return dim

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Forget what was read before: all of it, or the rows that a boolean mask names."""
        self._elmo_lstm.reset_states(mask)

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> ElmoOutput:
        """Mix the layers of character ids (..., n, 50); the mixes see the boundaries, also where they are removed.

        Word ids (..., n) are taken instead if a vocabulary was cached and knows them all.
        """
        outer = inputs.shape[:-2]
        if word_inputs is not None:
            outer = word_inputs.shape[:-1] if word_inputs.dim() > 2 else outer
            if not self._has_cached_vocab:
                logger.warning("word_inputs count for nothing without vocab_to_cache; the character ids are read")
                word_inputs = None
        output = self._elmo_lstm(_as_one_batch(inputs, dims=3), _as_one_batch(word_inputs, dims=2))
        mask = output["mask"].bool()
        mixed = [mix(output["activations"], mask) for mix in self._scalar_mixes]  # each (B, n + 2, dim)
        if not self._keep_sentence_boundaries:
            # Two words less in every row: what is left of a shorter one is its end boundary, now padding.
            mask = mask[:, 2:]
            mixed = [x[:, 1:-1] * mask[..., None] for x in mixed]
        mixed = [self._dropout(x) for x in mixed]
        if len(outer) > 1:
            mask = mask.unflatten(0, outer)
            mixed = [x.unflatten(0, outer) for x in mixed]
        return {"elmo_representations": mixed, "mask": mask}

    @property
    def _scalar_mixes(self) -> list[nn.Module]:
        return [self.get_submodule(f"scalar_mix_{number}") for number in range(self._num_mixes)]


class ElmoTokenEmbedder(nn.Module):
    """AllenNLP's `ElmoTokenEmbedder`: an `Elmo` with one mix, and a projection of it if `projection_dim` is given."""

    def __init__(
        self,
        options_file: str | Path = DEFAULT_OPTIONS_FILE,
        weight_file: str | Path = DEFAULT_WEIGHT_FILE,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self._elmo = Elmo(
            options_file,
            weight_file,
            1,
            requires_grad=requires_grad,
            do_layer_norm=do_layer_norm,
            dropout=dropout,
            vocab_to_cache=vocab_to_cache,
            scalar_mix_parameters=scalar_mix_parameters,
        )
        self._projection = nn.Linear(self._elmo.get_output_dim(), projection_dim) if projection_dim else None

    def get_output_dim(self) -> int:
        return self._projection.out_features if self._projection else self._elmo.get_output_dim()

    # The first argument was called `inputs` up to 0.9 and given by position; later it is given by this name.
    def forward(self, elmo_tokens: Tensor, word_inputs: Tensor | None = None) -> Tensor:
        """Character ids (..., n, 50) become vectors (..., n, output dim)."""
        vectors: Tensor = self._elmo(elmo_tokens, word_inputs)["elmo_representations"][0]
        if self._projection is not None:
            vectors = self._projection(vectors)
        return vectors


def _bilm(
    options_file: str | Path | None,
    weight_file: str | Path | None,
    module: nn.Module | None,
    requires_grad: bool,
    vocab_to_cache: Sequence[str] | None,
) -> Any:
    """The module given, whatever it is, or the biLM in the two files."""
    if module is not None:
        if options_file is not None or weight_file is not None:
            raise InputError("give a module, or options_file and weight_file; with a module pass None for both files")
        return module
    if options_file is None or weight_file is None:
        raise InputError("give options_file and weight_file, or a module in their stead")
    return ElmoBiLm(options_file, weight_file, requires_grad=requires_grad, vocab_to_cache=vocab_to_cache)


def _as_one_batch(ids: Tensor | None, *, dims: int) -> Tensor | None:
    """Flatten what lies before the last dimensions: every sentence is a row of one batch."""
    return ids if ids is None or ids.dim() <= dims else ids.flatten(0, -dims)
