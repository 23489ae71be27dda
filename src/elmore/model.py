"""A model: a checkpoint made into a network, ready to run, ready to save."""

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from elmore.config import ModelConfig
from elmore.devices import allow_forked_process, choose_device
from elmore.errors import InputError, OutOfMemory
from elmore.formats import Card, Checkpoint, read_checkpoint, write_checkpoint
from elmore.formats.storage.container import Container, FileContainer, OverlayContainer, open_container
from elmore.formats.storage.int8 import StoredTensor, dequantize
from elmore.formats.token_embeddings import read_token_embeddings, with_token_embeddings
from elmore.html_repr import html_table
from elmore.network.bilm import BiLM
from elmore.network.state import State
from elmore.output_paths import check_output
from elmore.sources import ModelLocation, find, find_pair
from elmore.text.batch import Batch
from elmore.text.spelling import Speller
from elmore.text.vocabulary import Vocabulary
from elmore.tiny_random import NAME as TINY_NAME
from elmore.tiny_random import tiny_checkpoint


@dataclass(frozen=True, repr=False)
class Model:
    """A network with all that belongs to it.

    >>> model = load("tiny-random")
    >>> layers, state = model.network(model.batch([["a", "bow"]]), model.start)
    >>> layers.stack().shape  # layers, sentences, words, size
    torch.Size([3, 1, 2, 32])
    """

    network: BiLM
    speller: Speller
    start: State  # one row: the fixed state from which every sentence is read
    card: Card
    character_vocabulary: Mapping[str, int] | None = None
    softmax: Callable[[], Mapping[str, Tensor]] | None = None  # read when called
    mixes: Mapping[str, Tensor] | None = None  # what a task learnt about the layers, where the source has it

    def __repr__(self) -> str:
        """On one line; `model.network` prints its layers.

        >>> load("tiny-random")
        Model('tiny-random', dim=32, layers=3, parameters=36,936)
        """
        config = self.config
        device = "" if self.device.type == "cpu" else f", device={str(self.device)!r}"
        sizes = f"dim={config.dim}, layers={config.num_layers}, parameters={config.num_parameters:,}"
        return f"Model({self.card.name or self.card.source!r}, {sizes}{device})"

    def _repr_html_(self) -> str:
        config, card = self.config, self.card
        rows = {
            "description": card.description,
            "licence": card.licence,
            "layers": f"{config.num_layers} of {config.dim}",
            "parameters": f"{config.num_parameters:,}",
            "device": self.device,
            "source": card.source,
        }
        return html_table(f"Model {card.name or card.source}", {name: value for name, value in rows.items() if value})

    @property
    def config(self) -> ModelConfig:
        return self.network.config

    @property
    def vocabulary(self) -> Vocabulary | None:
        return self.speller.vocabulary

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    def batch(self, sentences: Sequence[Sequence[str]]) -> Batch:
        """Sentences as lists of words, ready for the network, on its device."""
        return Batch.of(sentences, self.speller).to(self.device)

    def to(self, device: str | torch.device) -> "Model":
        """The same model on another device; this one stays where it is."""
        chosen = choose_device(device)
        # A copy, because modules are moved in place.
        return replace(self, network=_moved(copy.deepcopy(self.network), chosen), start=self.start.to(chosen))

    def fingerprint(self) -> str:
        """A SHA-256 over all that decides the vectors: weights, and a warm start state; the same in any container."""
        tensors = dict(self.network.state_dict())
        if self.card.start_state == "warm":
            tensors |= {"start.h": self.start.h, "start.c": self.start.c}
        digest = hashlib.sha256()
        for name, tensor in sorted(tensors.items()):
            digest.update(f"{name} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def checkpoint(self) -> Checkpoint:
        """The model as plain data, to be written in any format."""
        warm = self.card.start_state == "warm"
        return Checkpoint(
            config=self.config,
            tensors={name: tensor.detach().float().cpu() for name, tensor in self.network.state_dict().items()},
            vocabulary=self.vocabulary,
            character_vocabulary=self.character_vocabulary,
            start={"h": self.start.h[:, :, 0].cpu(), "c": self.start.c[:, :, 0].cpu()} if warm else None,
            softmax=self.softmax,
            mixes=self.mixes,
            card=self.card,
        )


def load(
    name: str | Path | None = None,
    *,
    options_file: str | Path | None = None,
    weight_file: str | Path | None = None,
    vocabulary: str | Path | None = None,
    token_embeddings: str | Path | None = None,
    device: str | torch.device | None = None,
) -> Model:
    """Load any ELMo model: a folder, an archive, a file, an address, a known name; or `options_file` and `weight_file`.

    The format is recognised by itself. `vocabulary` is a file with a word a line, for models that came without theirs;
    `token_embeddings` is a file of precomputed word vectors for that vocabulary, which replaces the character encoder.

    >>> load("tiny-random").config.dim
    32
    """
    allow_forked_process()
    if name == TINY_NAME and options_file is None and weight_file is None:
        checkpoint = tiny_checkpoint()
        if vocabulary is not None:
            checkpoint = replace(checkpoint, vocabulary=Vocabulary.read(Path(vocabulary)))
    else:
        location = _find_model(name, options_file, weight_file)
        container: Container = (
            open_container(location.path) if location.path is not None else FileContainer(location.files)
        )
        if vocabulary is not None:
            container = OverlayContainer(container, {"vocab.txt": Path(vocabulary)})
        checkpoint = read_checkpoint(container)
        if checkpoint.card.source == container.where:
            # What was named says more than where a download lies.
            checkpoint = replace(checkpoint, card=replace(checkpoint.card, source=location.origin))
    if token_embeddings is not None:
        words = Vocabulary.read(Path(vocabulary)) if vocabulary is not None else checkpoint.vocabulary
        if words is None:
            raise InputError(f"{token_embeddings} needs the vocabulary it was made for: give vocabulary=FILE")
        checkpoint = with_token_embeddings(checkpoint, read_token_embeddings(Path(token_embeddings)), words)
    return model_of(checkpoint, device=device)


def save(
    model: Model,
    path: str | Path,
    *,
    format: str = "folder",  # noqa: A002 (the flag's name too)
    force: bool = False,
) -> None:
    """Write a model: `folder` is Elmore's own format, `hdf5` the one that AllenNLP and bilm-tf read.

    A model that is there already is replaced only with `force=True`; any other folder, never.
    """
    check_output(path, force=force)
    write_checkpoint(model.checkpoint(), Path(path), format=format)


def token_embeddings_of(model: Model) -> Tensor:
    """(words, vector_dim) the context-free vector of every word of the model's vocabulary, in its order."""
    if model.vocabulary is None:
        raise InputError("the words to embed are missing: give a vocabulary file with a word a line")
    with torch.no_grad():
        parts = [
            model.network.words(model.speller.spell(model.vocabulary.words[start : start + 1024]).to(model.device))
            for start in range(0, len(model.vocabulary), 1024)
        ]
    return torch.cat(parts).float().cpu()


def model_of(checkpoint: Checkpoint, *, device: str | torch.device | None = None) -> Model:
    """Make a checkpoint into a network, for reading: no gradients unless somebody asks for them."""
    # Built without memory of its own, so that loading costs one copy of the weights and no random numbers.
    with torch.device("meta"):
        network = BiLM(checkpoint.config)
    network.load_state_dict(checkpoint.float_tensors(), assign=True)
    network.eval().requires_grad_(requires_grad=False)
    start = State.zeros(checkpoint.config)
    if checkpoint.card.start_state == "warm" and checkpoint.start is not None:
        start = State(checkpoint.start["h"][:, :, None], checkpoint.start["c"][:, :, None])
    if device is not None:
        device = choose_device(device)
        network, start = _moved(network, device), start.to(device)
    return Model(
        network=network,
        speller=Speller(
            checkpoint.config, vocabulary=checkpoint.vocabulary, character_vocabulary=checkpoint.character_vocabulary
        ),
        start=start,
        card=checkpoint.card,
        character_vocabulary=checkpoint.character_vocabulary,
        softmax=None if checkpoint.softmax is None else partial(_dequantized, checkpoint.softmax),
        mixes=checkpoint.mixes,
    )


def _dequantized(softmax: Callable[[], Mapping[str, StoredTensor]]) -> Mapping[str, Tensor]:
    return dequantize(softmax())


def _moved(network: BiLM, device: torch.device) -> BiLM:
    try:
        return network.to(device)
    except torch.OutOfMemoryError:
        raise OutOfMemory(f"the model does not fit into the memory of {device}; take another device") from None


def _find_model(
    name: str | Path | None, options_file: str | Path | None, weight_file: str | Path | None
) -> ModelLocation:
    if options_file is None and weight_file is None:
        return find(name)
    if name is not None or options_file is None or weight_file is None:
        raise InputError("give a model's name, or both its options file and its weight file")
    return find_pair(options_file, weight_file)
