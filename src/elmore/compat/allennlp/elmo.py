"""Elmo and ElmoTokenEmbedder, the biLM with mixes of its layers, as modules for a task model; and ScalarMix, the mix.

    mixed = gamma * sum over k of softmax(scalar_parameters)[k] * tensors[k]

Equation 1 of Peters et al. 2018, "Deep contextualized word representations".

B sentences, n positions for words.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from elmore.compat.allennlp.bilm import ElmoBiLm
from elmore.compat.allennlp.character_ids import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
from elmore.errors import InputError
from elmore.nn.mix import normalize_masked_batch

logger = logging.getLogger(__name__)


class ElmoOutput(TypedDict):
    """The result of `Elmo`; n includes the boundaries with `keep_sentence_boundaries`."""

    elmo_representations: list[Tensor]  # for each mix (..., n, dim)
    mask: Tensor  # (..., n) true where there is a word


class Elmo(nn.Module):
    """AllenNLP's `Elmo`.

    Like AllenNLP's, the biLM carries its state from call to call: the same sentence has other vectors in the second
    call, and one module belongs to one thread. `reset_states` resets the state. `elmore.Elmo` carries no state.

    `num_output_representations` is the number of mixes, not of layers. All mixes have the same initial values, so they
    return the same vectors until training changes them. Dropout, which is on by default in training, is drawn
    separately for each mix.
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
        """Reset the carried state to zeros: of all rows, or of the rows where a boolean mask (rows,) is true."""
        self._elmo_lstm.reset_states(mask)

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> ElmoOutput:
        """Mix the layers of character ids (..., n, 50), or of word ids (..., n) if all are in the cached vocabulary.

        Layer normalization includes the boundaries, even where they are removed from the result, as in AllenNLP.
        """
        outer = inputs.shape[:-2]
        if word_inputs is not None:
            outer = word_inputs.shape[:-1] if word_inputs.dim() > 2 else outer
            if not self._has_cached_vocab:
                logger.warning("word_inputs have no effect without vocab_to_cache; the character ids are used")
                word_inputs = None
        output = self._elmo_lstm(_as_one_batch(inputs, dims=3), _as_one_batch(word_inputs, dims=2))
        mask = output["mask"].bool()
        mixed = [mix(output["activations"], mask) for mix in self._scalar_mixes]  # each (B, n + 2, dim)
        if not self._keep_sentence_boundaries:
            # Two positions fewer in each row. In a row that is not full, the end boundary is now at a padding position.
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

    # In AllenNLP up to 0.9 callers pass the first argument by position; later versions pass it by this name.
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
    """The module that the caller passed, or the biLM in the two files."""
    if module is not None:
        if options_file is not None or weight_file is not None:
            raise InputError("give a module, or options_file and weight_file; with a module both files must be None")
        return module
    if options_file is None or weight_file is None:
        raise InputError("give both options_file and weight_file, or a module")
    return ElmoBiLm(options_file, weight_file, requires_grad=requires_grad, vocab_to_cache=vocab_to_cache)


def _as_one_batch(ids: Tensor | None, *, dims: int) -> Tensor | None:
    """Flatten all dimensions before the last `dims - 1`: each sentence becomes a row of one batch."""
    return ids if ids is None or ids.dim() <= dims else ids.flatten(0, -dims)


class ScalarMix(nn.Module):
    """AllenNLP's `ScalarMix`.

    `scalar_parameters` can be used as AllenNLP's list, one (1,) tensor for each layer, but is one parameter, because
    DataParallel does not copy a ParameterList. State dicts with the list can be loaded.

    >>> mix = ScalarMix(3, initial_scalar_parameters=[-9e10, 1, -9e10], trainable=False)
    >>> mix([torch.zeros(2, 4), torch.ones(2, 4), torch.zeros(2, 4)]).mean().item()
    1.0
    >>> [scalar.item() for scalar in ScalarMix(3).scalar_parameters]
    [0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        scalars = [0.0] * mixture_size if initial_scalar_parameters is None else initial_scalar_parameters
        if len(scalars) != mixture_size:
            raise InputError(
                f"initial_scalar_parameters has {len(scalars)} numbers; "
                f"a mix of {mixture_size} layers needs {mixture_size}"
            )
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        start = torch.tensor(scalars, dtype=torch.float32)[:, None]
        self.scalar_parameters = nn.Parameter(start, requires_grad=trainable)  # (mixture_size, 1)
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)
        self.register_load_state_dict_pre_hook(_join_scalars)  # type: ignore[no-untyped-call]

    def forward(self, tensors: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Mix tensors (..., dim). The mask (...) is required with `do_layer_norm`, and otherwise has no effect."""
        if len(tensors) != self.mixture_size:
            raise InputError(f"this mix takes {self.mixture_size} layers, not {len(tensors)}")
        layers = torch.stack(list(tensors))
        if self.do_layer_norm:
            if mask is None:
                raise InputError("do_layer_norm needs the mask: padding must not count")
            flat = layers.reshape(len(layers), -1, 1, layers.shape[-1])
            layers = normalize_masked_batch(flat, mask.bool().reshape(-1, 1)).reshape(layers.shape)
        return self.gamma * torch.einsum("k,k...->...", self.scalar_parameters.squeeze(1).softmax(dim=0), layers)


def _join_scalars(mix: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Before a state dict is loaded: join AllenNLP's list of scalars into one tensor."""
    assert isinstance(mix, ScalarMix)
    names = [f"{prefix}scalar_parameters.{k}" for k in range(mix.mixture_size)]
    if all(name in state_dict for name in names):
        state_dict[f"{prefix}scalar_parameters"] = torch.stack([state_dict.pop(name) for name in names])
