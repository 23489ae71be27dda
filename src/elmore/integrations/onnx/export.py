"""Write a model as an ONNX file.

    character_ids  int64 (batch, length, characters)      the words, spelt; for models that read characters
    word_ids       int64 (batch, length)                  their rows of the word table; for models that have one
    lengths        int64 (batch)                          how many words each sentence has
    layers         float32 (layers, batch, length, dim)   what comes out; zero beyond a sentence's end

Batch and length are any numbers, 0 among them. Ids are the model's own, and only words go in: the graph puts the
boundary words around each sentence, reads it from the model's start state, and gives out no vectors of the boundaries.
A length above `length` counts as `length`. `metadata` tells how words become ids.
"""

import json
from pathlib import Path

from elmore.errors import CannotExpress
from elmore.files.atomic_files import atomic_write
from elmore.files.output_paths import check_output
from elmore.integrations.onnx.graph import FLOAT, INT64, Graph, ModelProto, Shape
from elmore.integrations.onnx.metadata import KEY, metadata_of
from elmore.integrations.onnx.network import add_network
from elmore.model import Model

MOST_BYTES = 2**31 - 1  # that a protocol buffer, and so an ONNX file, can have


def export_onnx(model: Model, path: str | Path, *, force: bool = False) -> None:
    """Write a model as one ONNX file, in float32, whole or not at all.

    A file that is there already is replaced only with `force=True`.
    """
    check_output(path, force=force)
    _check_size(4 * model.config.num_parameters)  # beyond it the graph could not even be built
    built = onnx_model(model)
    _check_size(built.ByteSize())
    with atomic_write(path) as unfinished:
        unfinished.write_bytes(built.SerializeToString())


def onnx_model(model: Model) -> ModelProto:
    """The model as a graph, with its metadata."""
    config, card = model.config, model.card
    inputs: dict[str, Shape] = {}
    if config.characters:
        inputs["character_ids"] = ["batch", "length", config.characters.max_characters]
    if config.word_embedding_dim:
        inputs["word_ids"] = ["batch", "length"]
    inputs["lengths"] = ["batch"]
    graph = Graph()
    add_network(graph, model, output="layers")
    return graph.model(
        name=card.name or "elmo",
        description=card.description,
        inputs={name: (INT64, shape) for name, shape in inputs.items()},
        outputs={"layers": (FLOAT, [config.num_layers, "batch", "length", config.dim])},
        metadata={KEY: json.dumps(metadata_of(model))},
    )


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise CannotExpress(
            f"in float32 the model takes {size / 1e9:.1f} GB, and an ONNX file holds {MOST_BYTES / 1e9:.1f} at most; "
            "a model with fewer words in its table would fit"
        )
