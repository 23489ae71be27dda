"""What an exported file says of itself: which model it is, and how words become ids.

A JSON object under the key `elmore` of the ONNX file's metadata; docs/export.md explains every field.
"""

from dataclasses import asdict
from typing import Any

from elmore.model import Model
from elmore.text.vocabulary import Vocabulary
from elmore.text.word_ids import ByteAlphabet, CodepointAlphabet
from elmore.version import __version__

KEY, VERSION = "elmore", 1


def metadata_of(model: Model) -> dict[str, Any]:
    """The object, as plain values.

    >>> from elmore import load
    >>> metadata_of(load("tiny-random"))["characters"]["special_words"]
    {'<S>': 256, '</S>': 257}
    """
    config, card, speller = model.config, model.card, model.word_indexer
    about: dict[str, Any] = {
        "version": VERSION,
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
    longest = None  # how many characters of a word are looked up
    if isinstance(speller.alphabet, ByteAlphabet):
        about["characters"] = _bytes(speller.alphabet)
    elif isinstance(speller.alphabet, CodepointAlphabet):
        about["characters"] = _codepoints(speller.alphabet)
        longest = speller.alphabet.max_characters - 2
    if config.word_embedding_dim:
        assert model.vocabulary is not None  # the speller saw to it
        about["words"] = _words(model.vocabulary, config.unk_token) | {"longest": longest}
    return about


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
        # Names such as <bow> are no characters that a word could have.
        "ids": {character: number for character, number in alphabet.table.items() if len(character) == 1},
        "unknown": alphabet.table["<oov>"],
    }


def _words(vocabulary: Vocabulary, unknown: str) -> dict[str, Any]:
    return {"vocabulary": list(vocabulary.words), "unknown": vocabulary.index.get(unknown)}
