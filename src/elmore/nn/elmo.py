"""Elmo: a biLM and mixes of its layers as one torch module, for the bottom of a model.

B sentences, T words of the longest sentence, dim size of a word's vector.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmore.display import html_table, join_names
from elmore.embedding.sentences import Sentence, tokenize_sentences, warning_about_single_words
from elmore.errors import FormatError, InputError
from elmore.fields import check_value
from elmore.formats.card import ElmoSettings, MixSettings
from elmore.model import Model, load, save
from elmore.nn.bilm import padding_mask
from elmore.nn.devices import allow_forked_process, choose_device, send, to_arrays, to_tensors
from elmore.nn.mix import LayerMix
from elmore.nn.pretrained import PretrainedBiLM, WordBatch
from elmore.text.input_checks import InputCheck
from elmore.text.tokenizer import Tokenizer


class ElmoOutput(NamedTuple):
    """The result of a pass."""

    mixed: list[Tensor]  # for each mix (B, T, dim), or the projection's size; zero beyond a sentence's end
    mask: Tensor  # (B, T) true where there is a word


class Elmo(nn.Module):
    """Word vectors: layers of a biLM, mixed with weights that the task learns.

    The biLM runs once, and each mix weights its layers. The biLM is frozen by default; `requires_grad=True` trains all
    of it, and a list trains parts: `["lstm"]`, `["words", "lstm.1"]`. Mixes are trained unless made otherwise.

    Where no gradients into the biLM are needed, it runs through an engine with a copy of the weights. After a change of
    weights that torch does not report, such as an assignment to `parameter.data`, call `forget()`.

    >>> elmo = Elmo.from_pretrained("tiny-random", mixes=2, dropout=0.5)
    >>> (first, second), mask = elmo(["I took a bow.", "Me too."])
    >>> first.shape, mask.sum().item()
    (torch.Size([2, 5, 32]), 8)
    >>> [round(w, 2) for w in elmo.mixes[0].weights.tolist()], elmo.mixes[0].gamma.item()
    ([0.33, 0.33, 0.33], 1.0)
    """

    def __init__(
        self,
        model: Model,
        *,
        mixes: int | Sequence[LayerMix] = 1,
        dropout: float = ElmoSettings.dropout,
        requires_grad: bool | Collection[str] = False,
        boundaries: bool = ElmoSettings.boundaries,
        projection: int | None = None,
    ) -> None:
        super().__init__()
        num_layers = model.config.num_layers
        if isinstance(mixes, int):
            mixes = [LayerMix(num_layers) for _ in range(mixes)]
        if not mixes or any(len(mix.scalars) != num_layers for mix in mixes):
            raise InputError(f"mixes must be at least one, each over the model's {num_layers} layers")
        if projection is not None:
            check_value("projection", projection, int, at_least=1)
        self._model = model.without_weights()
        self.network = PretrainedBiLM.from_model(model)
        self.mixes = nn.ModuleList(mixes)
        self.dropout = nn.Dropout(dropout)
        self.boundaries = boundaries
        self._projection_size = projection
        self.projections = nn.ModuleList(nn.Linear(model.config.dim, projection) for _ in mixes if projection)
        self.tokenizer = Tokenizer(model.card.text)
        self._check = InputCheck(model.card.text)
        self._set_requires_grad(requires_grad)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        mixes: int | Sequence[LayerMix] | None = None,
        dropout: float | None = None,
        requires_grad: bool | Collection[str] = False,
        boundaries: bool | None = None,
        projection: int | None = None,
        device: str | torch.device = "cpu",
    ) -> Self:
        """Load a model with the mixes that were saved with it; `mixes` makes new ones instead.

        A model without saved mixes gets one. The default of each option is the saved value, or else the constructor's.
        `device="auto"` is a GPU if there is one.
        """
        chosen = choose_device(device)
        model = load(name)
        saved = _saved_settings(model) if mixes is None and model.mixes else ElmoSettings()
        elmo = cls(
            model,
            mixes=[LayerMix(model.config.num_layers, **asdict(mix)) for mix in saved.mixes] if mixes is None else mixes,
            dropout=saved.dropout if dropout is None else dropout,
            requires_grad=requires_grad,
            boundaries=saved.boundaries if boundaries is None else boundaries,
            projection=saved.projection if projection is None else projection,
        )
        if mixes is None and model.mixes:
            elmo._restore(model.mixes)
        return elmo.to(chosen)

    def save_pretrained(self, path: str | Path, *, force: bool = False) -> None:
        """Write biLM, mixes and projections as a folder for `from_pretrained`; `force=True` replaces a model."""
        mixes = {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("network.")}
        card = replace(self._model.card, elmo=self.settings)
        checkpoint = replace(self.model.checkpoint, mixes=to_arrays(mixes), card=card)
        save(Model(checkpoint), path, force=force)

    @property
    def model(self) -> Model:
        """The biLM as plain data, with a copy of its present weights."""
        return self.network.with_weights(self._model)

    def forget(self) -> None:
        """Drop the engine of the biLM: the next pass without gradients uses the present weights."""
        self.network.forget()

    @property
    def settings(self) -> ElmoSettings:
        """The options it was made with, apart from the biLM."""
        mixes = (cast("LayerMix", mix) for mix in self.mixes)  # the items of a ModuleList have no type
        return ElmoSettings(
            dropout=self.dropout.p,
            boundaries=self.boundaries,
            projection=self._projection_size,
            mixes=tuple(_settings_of(mix) for mix in mixes),
        )

    def __repr__(self) -> str:
        """On one line; `elmo.network` prints its layers."""
        trained = sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)
        name = self._name
        return f"Elmo({name!r}, dim={self.dim}, mixes={len(self.mixes)}, dropout={self.dropout.p}, trained={trained:,})"

    def _repr_html_(self) -> str:
        mixes = {
            f"mix {number}": " ".join(f"{share:.1%}" for share in cast("LayerMix", mix).weights.tolist())
            for number, mix in enumerate(self.mixes)
        }
        trained = sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)
        facts = {"dim": self.dim, **mixes, "dropout": self.dropout.p, "trained parameters": f"{trained:,}"}
        return html_table(f"Elmo {self._name}", {**facts, "device": self.network.words.weight.device})

    @property
    def dim(self) -> int:
        """The size of a word's mixed vector."""
        return self._projection_size or self._model.config.dim

    @property
    def _name(self) -> str:
        return self._model.card.name or self._model.card.source

    def batch(self, sentences: Iterable[Sentence]) -> WordBatch:
        """Sentences as arrays for `forward`; use it as the `collate_fn` of a DataLoader."""
        if isinstance(sentences, str):
            raise InputError("Elmo takes a list of sentences; put the string into a list")
        given = list(sentences)
        words = tokenize_sentences(given, self.tokenizer)
        if self._check.remaining:
            self._check.check(words, warning_about_single_words(given, words, self._check.style), stacklevel=3)
        return WordBatch.of(words, self._model.word_indexer)

    def forward(self, sentences: WordBatch | Iterable[Sentence]) -> ElmoOutput:
        """Mix the layers of each word: one (B, T, dim) tensor for each mix, and the mask of real words."""
        if torch.compiler.is_compiling():
            # A compiler would unroll the loop over the steps again for each batch with other lengths, which takes
            # longer than running it. Modules around this call are compiled; this call is not.
            output: ElmoOutput = torch.compiler.disable(self._run)(sentences)  # type: ignore[no-untyped-call]
            return output
        return self._run(sentences)

    def _run(self, sentences: WordBatch | Iterable[Sentence]) -> ElmoOutput:
        allow_forked_process(self.network.words.weight.device)
        batch = sentences if isinstance(sentences, WordBatch) else self.batch(sentences)
        # The mixes see the boundaries, as AllenNLP's do: their normalization counts them.
        layers = self.network.layers(batch, boundaries=True)  # (L, B, T + 2, dim)
        lengths = batch.rows.lengths
        real = send(torch.from_numpy(padding_mask(lengths, boundaries=True)), layers.device)
        mask = real if self.boundaries else send(torch.from_numpy(padding_mask(lengths)), layers.device)
        mixed = []
        for number, mix in enumerate(self.mixes):
            x = mix(layers, real)  # (B, T + 2, dim)
            if not self.boundaries:
                x = x[:, 1:-1]
            if self.projections:
                x = self.projections[number](x)
            mixed.append(self.dropout(x * mask[..., None]))
        return ElmoOutput(mixed, mask)

    def _restore(self, mixes: Mapping[str, NDArray[np.float32]]) -> None:
        names = {name for name in self.state_dict() if not name.startswith("network.")}
        if wrong := sorted(names ^ mixes.keys()):
            raise FormatError(f"{self._model.card.source}: the saved mixes do not fit: {join_names(wrong)}")
        try:
            self.load_state_dict(to_tensors(mixes), strict=False)
        except RuntimeError as error:
            raise FormatError(f"{self._model.card.source}: the saved mixes do not fit: {error}") from None

    def _set_requires_grad(self, requires_grad: bool | Collection[str]) -> None:
        layers = {f"lstm.{number}": layer for number, layer in enumerate(self.network.lstm)}
        parts: dict[str, nn.Module] = {"words": self.network.words, "lstm": self.network.lstm, **layers}
        wanted = (parts if requires_grad else ()) if isinstance(requires_grad, bool) else requires_grad
        if isinstance(wanted, str) or not set(wanted) <= parts.keys():
            raise InputError(f"requires_grad is {requires_grad!r}; it must be True, False, or some of {list(parts)}")
        self.network.requires_grad_(requires_grad=False)
        for part in wanted:
            parts[part].requires_grad_()


def _settings_of(mix: LayerMix) -> MixSettings:
    trained = mix.scalars.requires_grad, mix.gamma.requires_grad
    return MixSettings(normalize=mix.normalize, train_weights=trained[0], train_gamma=trained[1])


def _saved_settings(model: Model) -> ElmoSettings:
    """The options of a saved Elmo; archives of other programs contain mixes only."""
    assert model.mixes is not None
    count = sum(name.endswith(".scalars") for name in model.mixes)
    return model.card.elmo or ElmoSettings(mixes=(MixSettings(),) * count)
