"""Write a model as an ONNX file, with metadata that describe the model and how words become ids.

    character_ids  int64 (batch, length, characters)      input: the characters of words; only of a character model
    word_ids       int64 (batch, length)                  input: rows of the word table; only of a model with one
    lengths        int64 (batch)                          input: the number of words of each sentence
    layers         float32 (layers, batch, length, dim)   output: zero after the end of a sentence

Batch and length are any numbers, including 0. The input contains only words: the graph adds the boundary words of each
sentence, begins with the start state of the model, and returns no vectors of the boundaries. A length above `length`
counts as `length`.

The metadata are a JSON object under the key `elmore` of the ONNX file; docs/export.md explains every field.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elmore.errors import CannotExpress
from elmore.files.atomic_files import atomic_write
from elmore.files.output_paths import check_output
from elmore.integrations.onnx.graph import FLOAT, INT64, Graph, ModelProto, Shape
from elmore.integrations.onnx.network import add_network
from elmore.model import Model
from elmore.text.vocabulary import Vocabulary
from elmore.text.word_ids import ByteAlphabet, CodepointAlphabet
from elmore.version import __version__

METADATA_KEY, METADATA_VERSION = "elmore", 1
MAX_BYTES = 2**31 - 1  # of a protocol buffer, and so of an ONNX file


def export_onnx(model: Model, path: str | Path, *, force: bool = False) -> None:
    """Write a model as one ONNX file in float32, completely or not at all.

    An existing file is replaced only with `force=True`.
    """
    check_output(path, force=force)
    _check_size(4 * model.config.num_parameters)  # a larger graph could not be built
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
        metadata={METADATA_KEY: json.dumps(metadata_of(model))},
    )


def metadata_of(model: Model) -> dict[str, Any]:
    """The metadata of a model, as plain values.

    >>> from elmore import load
    >>> metadata_of(load("tiny-random"))["characters"]["special_words"]
    {'<S>': 256, '</S>': 257}
    """
    config, card, indexer = model.config, model.card, model.word_indexer
    facts: dict[str, Any] = {
        "version": METADATA_VERSION,
        "made_by": f"elmore {__version__}",
        "name": card.name,
        "description": card.description,
        "license": card.license,
        "fingerprint": model.fingerprint(),
        "layers": config.num_layers,
        "dim": config.dim,
        "directions": list(config.direction_names),
        "text": asdict(card.text),
    }
    longest = None  # the number of characters that are looked up
    if isinstance(indexer.alphabet, ByteAlphabet):
        facts["characters"] = _bytes(indexer.alphabet)
    elif isinstance(indexer.alphabet, CodepointAlphabet):
        facts["characters"] = _codepoints(indexer.alphabet)
        longest = indexer.alphabet.max_characters - 2
    if config.word_embedding_dim:
        assert model.vocabulary is not None  # checked by the indexer
        facts["words"] = _words(model.vocabulary, config.unk_token) | {"longest": longest}
    return facts


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise CannotExpress(
            f"in float32 the model has {size / 1e9:.1f} GB, and an ONNX file at most {MAX_BYTES / 1e9:.1f}; "
            "use a model with fewer words in its table"
        )


def _bytes(alphabet: ByteAlphabet) -> dict[str, Any]:
    return {
        "alphabet": "bytes",
        "max_characters": alphabet.max_characters,
        "word_begin": alphabet.WORD_BEGIN,
        "word_end": alphabet.WORD_END,
        "padding": alphabet.PADDING,
        "special_words": alphabet.boundaries,
    }


def _codepoints(alphabet: CodepointAlphabet) -> dict[str, Any]:
    return {
        "alphabet": "codepoints",
        "max_characters": alphabet.max_characters,
        "word_begin": alphabet.first,
        "word_end": alphabet.last,
        "padding": alphabet.padding,
        "special_words": alphabet.boundaries,
        # Names such as <bow> are not characters of words.
        "ids": {character: number for character, number in alphabet.table.items() if len(character) == 1},
        "unknown": alphabet.table["<oov>"],
    }


def _words(vocabulary: Vocabulary, unknown: str) -> dict[str, Any]:
    return {"vocabulary": list(vocabulary.words), "unknown": vocabulary.index.get(unknown)}
