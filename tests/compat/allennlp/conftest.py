"""Models as AllenNLP's objects take them: a file of options and a file of weights."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from elmore.model import Model, save


class Pair(NamedTuple):
    options_file: Path
    weight_file: Path


@pytest.fixture(scope="session")
def tiny_pair(tiny_model: Model, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save(tiny_model, folder, format="hdf5")
    return Pair(folder / "options.json", folder / "weights.hdf5")


@pytest.fixture(scope="session")
def allennlp_pair(fixtures: Path) -> Pair:
    """The model with which AllenNLP tested itself, and with which the reference vectors were made."""
    return Pair(fixtures / "allennlp" / "options.json", fixtures / "allennlp" / "lm_weights.hdf5")


@pytest.fixture(scope="session")
def mixes(fixtures: Path) -> dict[str, NDArray[Any]]:
    """What AllenNLP 0.9.0 gave for the three sentences."""
    with np.load(fixtures / "mixes" / "allennlp_0.9.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="session")
def mixes_sentences(fixtures: Path) -> list[list[str]]:
    sentences: list[list[str]] = json.loads((fixtures / "mixes" / "sentences.json").read_text(encoding="utf-8"))
    return sentences
