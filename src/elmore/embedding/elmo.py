"""Elmo: the biLM and its mixes as one module, to stand at the bottom of one's own model."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple, Self, cast

import torch
from torch import Tensor, nn

from elmore.devices import choose_device
from elmore.embedding.sentences import Sentence, warning_about_single_words, words_of_all
from elmore.errors import FormatError, InputError, shortened
from elmore.fields import check_value
from elmore.formats.cards.elmo_settings import ElmoSettings, MixSettings
from elmore.html_repr import html_table
from elmore.model import Model, load, save
from elmore.network.mix import LayerMix
from elmore.network.state import State
from elmore.text.batch import Batch
from elmore.text.checks import InputCheck
from elmore.text.tokenizing import Tokenizer


class ElmoOutput(NamedTuple):
    """What a pass gives."""

    mixed: list[Tensor]  # for each mix (B, T, dim), or the projection's size; zero beyond a sentence's end
    mask: Tensor  # (B, T) true where there is a word


class Elmo(nn.Module):
    """Word vectors whose layers are mixed as the task at hand learns to.

    The biLM runs once; each mix weighs its layers anew. Freeze all of it (`requires_grad=False`), train all of it
    (`True`), or name the parts to train: `["lstm"]`, `["words", "lstm.1"]`. Mixes are trained unless made otherwise.

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
        self.model = model
        self.network = model.network
        self.mixes = nn.ModuleList(mixes)
        self.dropout = nn.Dropout(dropout)
        self.boundaries = boundaries
        self._projection_size = projection
        self.projections = nn.ModuleList(nn.Linear(model.config.dim, projection) for _ in mixes if projection)
        # Buffers, so that they move with the module, but no part of what is trained and saved.
        self.start_h: Tensor
        self.start_c: Tensor
        self.register_buffer("start_h", model.start.h, persistent=False)
        self.register_buffer("start_c", model.start.c, persistent=False)
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
        device: str | torch.device | None = None,
    ) -> Self:
        """Load a model, with the mixes that were saved with it unless others are asked for; without any, one new mix.

        Options left out are as saved, or as in the constructor.
        """
        device = None if device is None else choose_device(device)
        model = load(name, device=device)
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
        return elmo.to(device)

    def save_pretrained(self, path: str | Path, *, force: bool = False) -> None:
        """Write biLM, mixes and projections as a folder for `from_pretrained`; over another only with `force=True`."""
        learnt = {name: tensor.cpu() for name, tensor in self.state_dict().items() if not name.startswith("network.")}
        card = replace(self.model.card, elmo=self.settings)
        save(replace(self.model, mixes=learnt, card=card), path, force=force)

    @property
    def settings(self) -> ElmoSettings:
        """How it was made, but for the biLM and what mixes and projections have learnt."""
        mixes = (cast("LayerMix", mix) for mix in self.mixes)  # a ModuleList does not tell
        return ElmoSettings(
            dropout=self.dropout.p,
            boundaries=self.boundaries,
            projection=self._projection_size,
            mixes=tuple(_settings_of(mix) for mix in mixes),
        )

    def __repr__(self) -> str:
        """On one line; `elmo.network` prints its layers."""
        trained = sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)
        name = self.model.card.name or self.model.card.source
        return f"Elmo({name!r}, dim={self.dim}, mixes={len(self.mixes)}, dropout={self.dropout.p}, trained={trained:,})"

    def _repr_html_(self) -> str:
        mixes = {
            f"mix {number}": " ".join(f"{share:.1%}" for share in cast("LayerMix", mix).weights.tolist())
            for number, mix in enumerate(self.mixes)
        }
        trained = sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)
        about = {"dim": self.dim, **mixes, "dropout": self.dropout.p, "trained parameters": f"{trained:,}"}
        device = self.start_h.device
        return html_table(f"Elmo {self.model.card.name or self.model.card.source}", {**about, "device": device})

    @property
    def dim(self) -> int:
        """The size of a word's mixed vector."""
        return self._projection_size or self.model.config.dim

    def batch(self, sentences: Iterable[Sentence]) -> Batch:
        """Sentences as the module reads them; made on the CPU, for instance by a DataLoader's workers."""
        if isinstance(sentences, str):
            raise InputError("Elmo reads a list of sentences; put the string into a list")
        given = list(sentences)
        words = words_of_all(given, self.tokenizer)
        if self._check.left:
            self._check.look(words, warning_about_single_words(given, words, self._check.style), stacklevel=3)
        return Batch.of(words, self.model.speller)

    def forward(self, sentences: Batch | Iterable[Sentence]) -> ElmoOutput:
        """Mix the layers of every word; one (B, T, dim) tensor for each mix, and the mask of real words."""
        if torch.compiler.is_compiling():
            # A compiler would unroll the loop over words anew for every batch with other lengths, which takes longer
            # than reading it. Around this call a model is compiled; here it runs as it is written.
            output: ElmoOutput = torch.compiler.disable(self._read)(sentences)  # type: ignore[no-untyped-call]
            return output
        return self._read(sentences)

    def _read(self, sentences: Batch | Iterable[Sentence]) -> ElmoOutput:
        batch = sentences if isinstance(sentences, Batch) else self.batch(sentences)
        batch = batch.to(self.start_h.device)
        layers, _ = self.network(batch, State(self.start_h, self.start_c).repeat(len(batch)))
        # The mixes see the boundaries, as AllenNLP's do: their normalisation counts them.
        stacked, real = layers.stack(boundaries=True), layers.mask(boundaries=True)
        mask = layers.mask(boundaries=self.boundaries)
        mixed = []
        for number, mix in enumerate(self.mixes):
            x = mix(stacked, real)  # (B, T + 2, dim)
            if not self.boundaries:
                x = x[:, 1:-1]
            if self.projections:
                x = self.projections[number](x)
            mixed.append(self.dropout(x * mask[..., None]))
        return ElmoOutput(mixed, mask)

    def _restore(self, learnt: Mapping[str, Tensor]) -> None:
        own = {name for name in self.state_dict() if not name.startswith("network.")}
        if odd := sorted(own ^ learnt.keys()):
            raise FormatError(f"{self.model.card.source}: the saved mixes do not fit: {shortened(odd)}")
        try:
            self.load_state_dict(dict(learnt), strict=False)
        except RuntimeError as error:
            raise FormatError(f"{self.model.card.source}: the saved mixes do not fit: {error}") from None

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
    """How a saved Elmo was made; an archive of another program has mixes and nothing more."""
    assert model.mixes is not None
    count = sum(name.endswith(".scalars") for name in model.mixes)
    return model.card.elmo or ElmoSettings(mixes=(MixSettings(),) * count)
