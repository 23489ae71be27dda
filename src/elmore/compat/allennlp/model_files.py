"""A model in two files, an options file and a weight file, as AllenNLP's classes take it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.errors import InputError
from elmore.model import Model, load
from elmore.sources import PUBLISHED

# AllenNLP's default is the published original model.
DEFAULT_WEIGHT_FILE = PUBLISHED["original"]
DEFAULT_OPTIONS_FILE = DEFAULT_WEIGHT_FILE.replace("_weights.hdf5", "_options.json")


class CharacterModel(NamedTuple):
    """A model that reads characters, and the characters of the two boundary words."""

    model: Model
    boundaries: NDArray[np.int64]  # (2, M)


def load_character_model(options_file: str | Path | None, weight_file: str | Path | None) -> CharacterModel:
    """Load the model in the two files; InputError if a file is missing or the model reads whole words."""
    # `load` without files would return the shipped model.
    if options_file is None or weight_file is None:
        raise InputError("give both options_file and weight_file, as paths or URLs")
    model = load(options_file=options_file, weight_file=weight_file)
    alphabet = model.word_indexer.alphabet
    if alphabet is None:
        raise InputError(f"{weight_file} is a model that reads whole words; open it with elmore.Embedder")
    return CharacterModel(model, alphabet.index([model.config.bos_token, model.config.eos_token]))
