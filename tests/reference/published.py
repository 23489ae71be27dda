"""Models of options.json and weights.hdf5 (sections 1, 2, 4 and 5)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from reference.network import Array, Cell, Network, sigmoid

BEGIN_OF_SENTENCE, END_OF_SENTENCE, BEGIN_OF_WORD, END_OF_WORD, PADDING = 256, 257, 258, 259, 260


def character_ids(token: str, length: int) -> list[int]:
    """The raw ids of a token (1.1)."""
    if token == "<S>":
        inside = [BEGIN_OF_SENTENCE]
    elif token == "</S>":
        inside = [END_OF_SENTENCE]
    else:
        inside = list(token.encode("utf-8", "ignore"))[: length - 2]
    ids = [BEGIN_OF_WORD, *inside, END_OF_WORD]
    return ids + [PADDING] * (length - len(ids))


def word_id(token: str, vocabulary: Sequence[str]) -> int:
    """The raw id of a word: its last line in the vocabulary, or that of <UNK> (2.3, 7.4)."""
    if token not in vocabulary:
        token = "<UNK>"
    return max(number for number, word in enumerate(vocabulary) if word == token)


def strongest_responses(x: Array, W: Array, b: Array) -> Array:
    """A valid convolution over the characters (M, C), then the maximum over positions (2.1)."""
    width = W.shape[1]
    responses = []
    for p in range(len(x) - width + 1):
        y = b.copy()
        for k in range(width):
            y += x[p + k] @ W[0, k]
        responses.append(y)
    return np.asarray(np.max(responses, axis=0))


def highway(h: Array, W_carry: Array, b_carry: Array, W_transform: Array, b_transform: Array) -> Array:
    """The gate g opens the transformed branch, whatever its name says (2.2)."""
    g = sigmoid(h @ W_carry + b_carry)
    t = np.maximum(h @ W_transform + b_transform, 0)
    return np.asarray(g * t + (1 - g) * h)


@dataclass(frozen=True)
class PublishedModel:
    """What the files hold: options as JSON has them, datasets by their full names, and a vocabulary for word input."""

    options: Mapping[str, Any]
    weights: Mapping[str, Array]
    vocabulary: Sequence[str] = ()

    def network(self) -> Network:
        directions = [direction for direction in ("RNN_0", "RNN_1", "rnn") if self._has(direction)]
        n_layers = self.options["lstm"].get("n_layers", 1)
        return Network(
            token_vector=cache(self.token_vector),  # a word has one vector, wherever it stands
            directions=[[self._cell(direction, layer) for layer in range(n_layers)] for direction in directions],
            skip_connections=self.options["lstm"].get("use_skip_connections", False),
            begin="<S>",
            end="</S>",
        )

    def input_ids(self, token: str) -> list[int] | int:
        """What the network is given: raw ids + 1, since 0 is kept for padding (1.1, 2.3)."""
        if "char_cnn" not in self.options:
            return word_id(token, self.vocabulary) + 1
        length = self.options["char_cnn"]["max_characters_per_token"]
        return [number + 1 for number in character_ids(token, length)]

    def token_vector(self, token: str) -> Array:
        """The context-independent vector of a token, of size P (2.1, 2.3)."""
        if "char_cnn" not in self.options:
            return _below_zeros(self.weights["embedding"])[self.input_ids(token)]
        ids = self.input_ids(token)
        assert isinstance(ids, list)
        return self.character_vector(ids)

    def character_vector(self, ids: Sequence[int]) -> Array:
        """The vector of a token from its input ids; 0 reads the row of zeros (2.1)."""
        x = _below_zeros(self.weights["char_embed"])[list(ids)]
        cnn = self.options["char_cnn"]
        h = np.concatenate(
            [
                strongest_responses(x, self.weights[f"CNN/W_cnn_{i}"], self.weights[f"CNN/b_cnn_{i}"])
                for i in range(len(cnn["filters"]))
            ]
        )
        h = np.maximum(h, 0) if cnn["activation"] == "relu" else np.tanh(h)
        for k in range(cnn.get("n_highway", 0)):
            names = ("W_carry", "b_carry", "W_transform", "b_transform")
            h = highway(h, *(self.weights[f"CNN_high_{k}/{name}"] for name in names))
        if self._has("CNN_proj"):
            h = h @ self.weights["CNN_proj/W_proj"] + self.weights["CNN_proj/b_proj"]
        return h

    def _cell(self, direction: str, layer: int) -> Cell:
        lstm = self.options["lstm"]
        # One layer has no MultiRNNCell; one direction has the names of newer TensorFlow (section 4).
        place = direction if direction == "rnn" else f"{direction}/RNN"
        place += "/LSTMCell" if lstm.get("n_layers", 1) == 1 else f"/MultiRNNCell/Cell{layer}/LSTMCell"
        names = ("kernel", "bias", "projection/kernel") if direction == "rnn" else ("W_0", "B", "W_P_0")
        kernel, bias, projection = (self.weights.get(f"{place}/{name}") for name in names)
        assert kernel is not None, f"{place} has no {names[0]}"
        assert bias is not None, f"{place} has no {names[1]}"
        clips = {"cell_clip": lstm.get("cell_clip"), "projection_clip": lstm.get("proj_clip")}
        return Cell(kernel, bias, projection, gate_order="ijfo", forget_bias=1.0, **clips)

    def _has(self, group: str) -> bool:
        return any(name.startswith(f"{group}/") for name in self.weights)


def read_published(options: Path, weights: Path, vocabulary: Path | None = None) -> PublishedModel:
    """Read the files of one model."""
    arrays: dict[str, Array] = {}

    def keep(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()].astype(np.float64)

    with h5py.File(weights) as file:
        file.visititems(keep)
    words = read_vocabulary(vocabulary) if vocabulary else []
    return PublishedModel(json.loads(options.read_text(encoding="utf-8")), arrays, words)


def read_vocabulary(path: Path) -> list[str]:
    """A token a line; lines of `!!!MAXTERMID` take no index (7.4)."""
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    return [line.strip() for line in lines if line.strip() != "!!!MAXTERMID"]


def _below_zeros(table: Array) -> Array:
    return np.concatenate([np.zeros((1, table.shape[1])), table])
