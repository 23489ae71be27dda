"""One model twice: as the reference runs it, and as the package does. The only translation between the two.

Written apart from `elmore.formats`, so that a mistake there is not repeated here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from elmore.config import CharacterConfig, ModelConfig
from elmore.network.bilm import BiLM
from elmore.network.state import State
from elmore.text.batch import Batch
from elmore.text.spelling import Speller
from elmore.text.vocabulary import Vocabulary
from reference.many_languages import ManyLanguagesModel
from reference.network import Array, Network, RowState
from reference.published import PublishedModel

Model = PublishedModel | ManyLanguagesModel
Sentences = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Twin:
    """The reference's network and the package's, with the same weights."""

    network: Network
    bilm: BiLM
    speller: Speller
    dtype: torch.dtype

    @classmethod
    def of(cls, model: Model, *, dtype: torch.dtype = torch.float64) -> "Twin":
        network = model.network()
        if isinstance(model, PublishedModel):
            fields, tensors = _published_words(model)
            vocabulary, characters = Vocabulary(model.vocabulary), None
        else:
            fields, tensors = _many_languages_words(model)
            vocabulary, characters = Vocabulary(sorted(model.words, key=model.words.__getitem__)), model.characters
        config = ModelConfig(**fields, **_lstm_fields(network))
        tensors |= _lstm_tensors(network)
        bilm = BiLM(config).to(dtype).requires_grad_(False)
        bilm.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in tensors.items()})
        return cls(network, bilm, Speller(config, vocabulary=vocabulary, character_vocabulary=characters), dtype)

    def batch(self, sentences: Sentences) -> Batch:
        return Batch.of(sentences, self.speller)

    def zeros(self, rows: int) -> State:
        return State.zeros(self.bilm.config, rows).to(self.dtype)

    def read(self, sentences: Sentences, state: State | None = None) -> tuple[list[Array], State]:
        """What the package makes of the sentences: the layers (L+1, n+2, dim) of each, and the state after them."""
        layers, after = self.bilm(self.batch(sentences), state or self.zeros(len(sentences)))
        everything = layers.stack(boundaries=True).numpy()
        return [everything[:, row, : len(tokens) + 2] for row, tokens in enumerate(sentences)], after

    def state(self, rows: Sequence[RowState]) -> State:
        """Rows of the reference as the package's state."""

        def stacked(part: int) -> torch.Tensor:
            values = [[[layer[part] for layer in direction] for direction in row] for row in rows]
            return torch.tensor(np.array(values), dtype=self.dtype).permute(2, 1, 0, 3)  # (R, G, L, …) -> (L, G, R, …)

        return State(stacked(0), stacked(1))

    def random_rows(self, seed: int, rows: int) -> list[RowState]:
        """States such as a text might leave behind, for the reference."""
        random = np.random.default_rng(seed)
        return [
            [
                [(random.normal(0, 0.5, h.shape), random.normal(0, 0.5, c.shape)) for h, c in direction]
                for direction in self.network.zero_state()
            ]
            for _ in range(rows)
        ]


def _published_words(model: PublishedModel) -> tuple[dict[str, Any], dict[str, Array]]:
    weights, cnn = model.weights, model.options.get("char_cnn")
    if cnn is None:
        n_words, word_dim = weights["embedding"].shape
        fields = {"characters": None, "n_words": n_words, "word_dim": word_dim, "token_projection": False}
        return fields, {"words.table": weights["embedding"]}
    tensors = {"words.characters": weights["char_embed"]}
    for i in range(len(cnn["filters"])):
        tensors[f"words.convolutions.{i}.weight"] = weights[f"CNN/W_cnn_{i}"][0].transpose(2, 1, 0)
        tensors[f"words.convolutions.{i}.bias"] = weights[f"CNN/b_cnn_{i}"]
    for k in range(cnn.get("n_highway", 0)):
        for ours, theirs in (("gate", "carry"), ("transform", "transform")):
            tensors[f"words.highways.{k}.{ours}.weight"] = weights[f"CNN_high_{k}/W_{theirs}"].T
            tensors[f"words.highways.{k}.{ours}.bias"] = weights[f"CNN_high_{k}/b_{theirs}"]
    if projected := "CNN_proj/W_proj" in weights:
        tensors["words.projection.weight"] = weights["CNN_proj/W_proj"].T
        tensors["words.projection.bias"] = weights["CNN_proj/b_proj"]
    characters = CharacterConfig(
        embedding_dim=cnn["embedding"]["dim"], n_highways=cnn.get("n_highway", 0), **_shared_fields(cnn)
    )
    return {"characters": characters, "token_projection": projected}, tensors


def _many_languages_words(model: ManyLanguagesModel) -> tuple[dict[str, Any], dict[str, Array]]:
    theirs, config = model.token_embedder, model.config["token_embedder"]
    fields: dict[str, Any] = {"characters": None, "begin": "<bos>", "end": "<eos>", "unknown": "<oov>"}
    tensors = {f"words.{name}": theirs[name] for name in theirs if name.startswith(("convolutions.", "projection."))}
    if config["word_dim"]:
        tensors["words.table"] = theirs["word_emb_layer.embedding.weight"]
        fields |= {"n_words": len(tensors["words.table"]), "word_dim": config["word_dim"]}
    if config["char_dim"]:
        tensors["words.characters"] = theirs["char_emb_layer.embedding.weight"]
        for k in range(config["n_highway"]):
            for kind in ("weight", "bias"):
                transform, carry = np.split(theirs[f"highways._layers.{k}.{kind}"], 2)
                tensors[f"words.highways.{k}.transform.{kind}"] = transform
                # σ(-x) = 1 - σ(x): their gate opens the other branch.
                tensors[f"words.highways.{k}.gate.{kind}"] = -carry
        fields["characters"] = CharacterConfig(
            alphabet="codepoints",
            n_characters=len(tensors["words.characters"]),
            embedding_dim=config["char_dim"],
            n_highways=config["n_highway"],
            **_shared_fields(config),
        )
    return fields, tensors


def _shared_fields(cnn: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "max_characters": cnn["max_characters_per_token"],
        "filters": tuple((width, number) for width, number in cnn["filters"]),
        "activation": cnn["activation"],
    }


def _lstm_fields(network: Network) -> dict[str, Any]:
    cell = network.directions[0][0]
    return {
        "vector_dim": len(cell.kernel) // 2,
        "cell_dim": len(cell.bias) // 4,
        "lstm_layers": len(network.directions[0]),
        "lstm_projection": cell.projection is not None,
        "skip_connections": network.skip_connections,
        "reads": "both" if len(network.directions) == 2 else "forward",
        "cell_clip": cell.cell_clip,
        "projection_clip": cell.projection_clip,
        "forget_bias": cell.forget_bias,
    }


def _lstm_tensors(network: Network) -> dict[str, Array]:
    tensors = {}
    for number, cells in enumerate(zip(*network.directions, strict=True)):
        kernels = np.array([_gates_as_ijfo(cell.kernel, cell.gate_order) for cell in cells])  # (G, 2P, 4D)
        tensors[f"lstm.{number}.input"], tensors[f"lstm.{number}.recurrent"] = np.split(kernels, 2, axis=1)
        tensors[f"lstm.{number}.bias"] = np.array([_gates_as_ijfo(cell.bias, cell.gate_order) for cell in cells])
        projections = [cell.projection for cell in cells if cell.projection is not None]
        if projections:
            tensors[f"lstm.{number}.projection"] = np.array(projections)
    return tensors


def _gates_as_ijfo(columns: Array, order: str) -> Array:
    blocks = dict(zip(order, np.split(columns, 4, axis=-1), strict=True))
    return np.concatenate([blocks[gate] for gate in "ijfo"], axis=-1)
