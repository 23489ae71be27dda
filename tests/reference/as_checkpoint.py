"""A model of the reference as a `Checkpoint`: the only translation between the two.

Written independently of `elmore.formats`, so that a mistake there is not repeated here.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from elmore.config import CharacterConfig, ModelConfig
from elmore.formats.checkpoint import Checkpoint
from elmore.text.vocabulary import Vocabulary
from reference.many_languages import ManyLanguagesModel
from reference.network import Array, Network
from reference.published import PublishedModel


def as_checkpoint(model: PublishedModel | ManyLanguagesModel) -> Checkpoint:
    """The same model in float32."""
    config, tensors, vocabulary, characters = translated(model)
    arrays = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in tensors.items()}
    return Checkpoint(config=config, tensors=arrays, vocabulary=vocabulary, character_vocabulary=characters)


def translated(
    model: PublishedModel | ManyLanguagesModel,
) -> tuple[ModelConfig, dict[str, Array], Vocabulary, Mapping[str, int] | None]:
    """Configuration, tensors in float64, vocabulary, and characters with their rows."""
    network = model.network()
    characters: Mapping[str, int] | None = None
    if isinstance(model, PublishedModel):
        fields, tensors = _published_words(model)
        vocabulary = Vocabulary(model.vocabulary)
    else:
        fields, tensors = _many_languages_words(model)
        vocabulary = Vocabulary(sorted(model.words, key=model.words.__getitem__))
        characters = model.characters
    config = ModelConfig(**fields, **_lstm_fields(network))
    return config, tensors | _lstm_tensors(network), vocabulary, characters


def _published_words(model: PublishedModel) -> tuple[dict[str, Any], dict[str, Array]]:
    weights, cnn = model.weights, model.options.get("char_cnn")
    if cnn is None:
        vocab_size, word_embedding_dim = weights["embedding"].shape
        fields = {
            "characters": None,
            "vocab_size": vocab_size,
            "word_embedding_dim": word_embedding_dim,
            "token_projection": False,
        }
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
        embedding_dim=cnn["embedding"]["dim"], num_highways=cnn.get("n_highway", 0), **_shared_fields(cnn)
    )
    return {"characters": characters, "token_projection": projected}, tensors


def _many_languages_words(model: ManyLanguagesModel) -> tuple[dict[str, Any], dict[str, Array]]:
    theirs, config = model.token_embedder, model.config["token_embedder"]
    fields: dict[str, Any] = {"characters": None, "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<oov>"}
    tensors = {f"words.{name}": theirs[name] for name in theirs if name.startswith(("convolutions.", "projection."))}
    if config["word_dim"]:
        tensors["words.table"] = theirs["word_emb_layer.embedding.weight"]
        fields |= {"vocab_size": len(tensors["words.table"]), "word_embedding_dim": config["word_dim"]}
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
            num_highways=config["n_highway"],
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
        "directions": "both" if len(network.directions) == 2 else "forward",
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
