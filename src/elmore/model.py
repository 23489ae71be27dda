"""A model: a checkpoint, the ids of its words, and the state that sentences start from."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmore.config import ModelConfig
from elmore.display import html_table
from elmore.engine.state import State
from elmore.errors import InputError
from elmore.fields import former_dict
from elmore.files.output_paths import check_output
from elmore.formats import Checkpoint, ModelCard, read_checkpoint, write_checkpoint
from elmore.formats.arrays import Int8Array, StoredArray
from elmore.formats.storage.container import Container, FileContainer, OverlayContainer, open_container
from elmore.formats.token_embeddings import read_token_embeddings, with_token_embeddings
from elmore.sources import ModelLocation, resolve_files, resolve_model
from elmore.text.vocabulary import Vocabulary
from elmore.text.word_ids import WordIndexer

NUMBERS_AT_ONCE = 2**20  # of an int8 array, when a fingerprint is computed


@dataclass(frozen=True, repr=False)
class Model:
    """A checkpoint and what inference derives from it; plain data.

    >>> model = load("tiny-random")
    >>> model.config.dim, model.checkpoint.tensors["lstm.0.bias"].shape
    (32, (2, 192))
    """

    checkpoint: Checkpoint

    def __repr__(self) -> str:
        """On one line.

        >>> load("tiny-random")
        Model('tiny-random', dim=32, layers=3, parameters=36,936)
        """
        config = self.config
        sizes = f"dim={config.dim}, layers={config.num_layers}, parameters={config.num_parameters:,}"
        return f"Model({self.card.name or self.card.source!r}, {sizes})"

    def _repr_html_(self) -> str:
        config, card = self.config, self.card
        rows = {
            "description": card.description,
            "license": card.license,
            "layers": f"{config.num_layers} of {config.dim}",
            "parameters": f"{config.num_parameters:,}",
            "source": card.source,
        }
        return html_table(f"Model {card.name or card.source}", {name: value for name, value in rows.items() if value})

    @property
    def config(self) -> ModelConfig:
        return self.checkpoint.config

    @property
    def card(self) -> ModelCard:
        return self.checkpoint.card

    @property
    def vocabulary(self) -> Vocabulary | None:
        return self.checkpoint.vocabulary

    @property
    def softmax(self) -> Callable[[], Mapping[str, StoredArray]] | None:
        """Reads the softmax when called."""
        return self.checkpoint.softmax

    @property
    def mixes(self) -> Mapping[str, NDArray[np.float32]] | None:
        """The layer mixes of a saved `Elmo`, where there are any."""
        return self.checkpoint.mixes

    @cached_property
    def word_indexer(self) -> WordIndexer:
        """The ids of words."""
        checkpoint = self.checkpoint
        return WordIndexer(
            checkpoint.config,
            vocabulary=checkpoint.vocabulary,
            character_vocabulary=checkpoint.character_vocabulary,
        )

    @cached_property
    def start(self) -> State:
        """One row: the state that every sentence starts from."""
        start = self.checkpoint.start
        if self.card.start_state != "warm" or start is None:
            return State.zeros(self.config)
        return State(start["h"][:, :, None], start["c"][:, :, None])

    def with_start(self, start: State, made_from: str) -> "Model":
        """The same model with a warm start state (one row)."""
        card = replace(self.card, start_state="warm", start_state_source=made_from)
        arrays = {"h": start.h[:, :, 0], "c": start.c[:, :, 0]}
        return Model(replace(self.checkpoint, start=arrays, card=card))

    def with_card(self, card: ModelCard) -> "Model":
        return Model(replace(self.checkpoint, card=card))

    def without_weights(self) -> "Model":
        """The same model without its tensors, for callers that have packed them."""
        light = Model(replace(self.checkpoint, tensors={}))
        if "_fingerprint" in self.__dict__:
            light.__dict__["_fingerprint"] = self._fingerprint
        return light

    @property
    def has_fingerprint(self) -> bool:
        """Whether `fingerprint` needs no weights: it was computed before."""
        return "_fingerprint" in self.__dict__

    def fingerprint(self) -> str:
        """A SHA-256 over everything that determines the vectors: shape, weights, start state, text style, vocabulary.

        It is the same in every format that stores all of these.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        checkpoint = self.checkpoint
        settings = {"config": former_dict(self.config), "text": former_dict(self.card.text)}
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        if self.config.word_embedding_dim and checkpoint.vocabulary is not None:
            digest.update("\n".join(checkpoint.vocabulary.words).encode(errors="surrogatepass"))
        if checkpoint.character_vocabulary is not None:
            digest.update(json.dumps(dict(checkpoint.character_vocabulary), sort_keys=True).encode())
        arrays: dict[str, StoredArray] = dict(checkpoint.tensors)
        if self.card.start_state == "warm":
            arrays |= {"start.h": self.start.h, "start.c": self.start.c}
        for name, array in sorted(arrays.items()):
            digest.update(f"{name} {tuple(array.shape)}\n".encode())
            for part in _float_parts(array):
                digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()


def _float_parts(array: StoredArray) -> Iterator[NDArray[np.float32]]:
    """The array in float32, along its first axis; int8 arrays in parts, so that no second copy of a matrix exists."""
    if not isinstance(array, Int8Array):
        yield array
        return
    rows = max(1, NUMBERS_AT_ONCE * len(array.values) // max(array.values.size, 1))
    for first in range(0, len(array.values), rows):
        part = slice(first, first + rows)
        yield Int8Array(array.values[part], array.scale[part] if len(array.scale) > 1 else array.scale).dequantize()


def load(
    name: str | Path | None = None,
    *,
    options_file: str | Path | None = None,
    weight_file: str | Path | None = None,
    vocabulary: str | Path | None = None,
    token_embeddings: str | Path | None = None,
) -> Model:
    """Load any ELMo model: a folder, an archive, a file, a URL, a known name; or `options_file` and `weight_file`.

    The format is detected. `vocabulary` is a file with one word per line, for models that came without it;
    `token_embeddings` is a file of precomputed word vectors for that vocabulary, which replaces the character encoder.

    >>> load("tiny-random").config.dim
    32
    """
    if isinstance(name, Model):
        raise InputError(
            f"{name!r} is loaded already; pass it to Embedder(model), Elmo(model) or perplexity(model=...)"
        )
    if not isinstance(name, str | Path | None):
        raise InputError(f"{name!r} is not the name of a model; give a name or a path")
    location = _find_model(name, options_file, weight_file)
    if location.checkpoint is not None:
        checkpoint = location.checkpoint()
        if vocabulary is not None:
            checkpoint = replace(checkpoint, vocabulary=Vocabulary.read(Path(vocabulary)))
    else:
        container: Container = (
            open_container(location.path) if location.path is not None else FileContainer(location.files)
        )
        if vocabulary is not None:
            container = OverlayContainer(container, {"vocab.txt": Path(vocabulary)})
        checkpoint = read_checkpoint(container)
        if checkpoint.card.source == container.where:
            # The requested name is more useful than the location of a download.
            checkpoint = replace(checkpoint, card=replace(checkpoint.card, source=location.requested))
    if token_embeddings is not None:
        words = Vocabulary.read(Path(vocabulary)) if vocabulary is not None else checkpoint.vocabulary
        if words is None:
            raise InputError(f"{token_embeddings} needs the vocabulary it was made for: give vocabulary=FILE")
        checkpoint = with_token_embeddings(checkpoint, read_token_embeddings(Path(token_embeddings)), words)
    model = Model(checkpoint)
    _ = model.word_indexer  # an error about the vocabulary belongs to loading
    return model


def save(
    model: Model,
    path: str | Path,
    *,
    format: str = "folder",  # noqa: A002 (also the name of the option)
    force: bool = False,
) -> None:
    """Write a model: `folder` is Elmore's format, `hdf5` the one that AllenNLP and bilm-tf read.

    An existing model is replaced only with `force=True`; any other folder, never.
    """
    check_output(path, force=force)
    write_checkpoint(model.checkpoint, Path(path), format=format)


def _find_model(
    name: str | Path | None, options_file: str | Path | None, weight_file: str | Path | None
) -> ModelLocation:
    if options_file is None and weight_file is None:
        return resolve_model(name)
    if name is not None or options_file is None or weight_file is None:
        raise InputError("give a model's name, or both its options file and its weight file")
    return resolve_files(options_file, weight_file)
