"""Models of ELMoForManyLangs (section 8), encoder `elmo`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch  # to read the files, which torch wrote; nothing is computed with it

from reference.network import Array, Cell, Network, sigmoid


@dataclass(frozen=True)
class ManyLanguagesModel:
    """What the directory holds: the network configuration, both tables of ids, and the tensors of the two files."""

    config: Mapping[str, Any]
    words: Mapping[str, int]  # word.dic
    characters: Mapping[str, int]  # char.dic
    token_embedder: Mapping[str, Array]
    encoder: Mapping[str, Array]

    def network(self) -> Network:
        names = ("forward", "backward")
        n_layers = self.config["encoder"]["n_layers"]
        return Network(
            token_vector=cache(self.token_vector),  # a word has one vector, wherever it stands
            directions=[[self._cell(f"{name}_layer_{layer}") for layer in range(n_layers)] for name in names],
            skip_connections=True,
            begin="<bos>",
            end="<eos>",
        )

    def word_id(self, token: str) -> int:
        return self.words.get(self._cut(token), self.words["<oov>"])

    def character_ids(self, token: str) -> list[int]:
        """A word opens with <eow> and closes with <bow>: the original has the names the wrong way round (8.2)."""
        token = self._cut(token)
        if token in ("<bos>", "<eos>"):
            inside = [self.characters[token]]
        else:
            inside = [self.characters.get(letter, self.characters["<oov>"]) for letter in token]
        ids = [self.characters["<eow>"], *inside, self.characters["<bow>"]]
        return ids + [self.characters["<pad>"]] * (self._max_characters - len(ids))

    def token_vector(self, token: str) -> Array:
        """Word vector and character features side by side, then the projection, always there (8.3)."""
        parts = []
        if self.config["token_embedder"]["word_dim"] > 0:
            parts.append(self.token_embedder["word_emb_layer.embedding.weight"][self.word_id(token)])
        if self.config["token_embedder"]["char_dim"] > 0:
            parts.append(self._character_features(token))
        projection = self.token_embedder["projection.weight"]
        return np.asarray(projection @ np.concatenate(parts) + self.token_embedder["projection.bias"])

    def _character_features(self, token: str) -> Array:
        table = self.token_embedder["char_emb_layer.embedding.weight"]
        x = np.array([table[number] for number in self.character_ids(token)])  # (M, C)
        features = []
        for i, (width, _) in enumerate(self.config["token_embedder"]["filters"]):
            weight = self.token_embedder[f"convolutions.{i}.weight"]  # (num, C, width)
            bias = self.token_embedder[f"convolutions.{i}.bias"]
            responses = []
            for p in range(len(x) - width + 1):
                responses.append(bias + sum(weight[:, :, k] @ x[p + k] for k in range(width)))
            features.append(np.max(responses, axis=0))
        h = np.concatenate(features)
        h = np.maximum(h, 0) if self.config["token_embedder"]["activation"] == "relu" else np.tanh(h)
        for k in range(self.config["token_embedder"]["n_highway"]):
            h = self._highway(h, k)
        return h

    def _highway(self, h: Array, k: int) -> Array:
        z = self.token_embedder[f"highways._layers.{k}.weight"] @ h + self.token_embedder[f"highways._layers.{k}.bias"]
        t = np.maximum(z[: len(h)], 0)
        g = sigmoid(z[len(h) :])
        # Here the gate opens the untransformed branch: the other way round than in weights.hdf5.
        return np.asarray(g * h + (1 - g) * t)

    def _cell(self, place: str) -> Cell:
        matrices = [self.encoder[f"{place}.{part}.weight"].T for part in ("input_linearity", "state_linearity")]
        return Cell(
            kernel=np.concatenate(matrices),
            bias=self.encoder[f"{place}.state_linearity.bias"],
            projection=self.encoder[f"{place}.state_projection.weight"].T,
            gate_order="ifjo",
            forget_bias=0.0,
            cell_clip=self.config["encoder"]["cell_clip"],
            projection_clip=self.config["encoder"]["proj_clip"],
        )

    def _cut(self, token: str) -> str:
        return token[: self._max_characters - 2]

    @property
    def _max_characters(self) -> int:
        return int(self.config["token_embedder"]["max_characters_per_token"])


def read_many_languages(directory: Path) -> ManyLanguagesModel:
    """Read a directory whose network configuration stands in it under the base name that config.json gives."""
    named = json.loads((directory / "config.json").read_text(encoding="utf-8"))["config_path"]
    config = json.loads((directory / Path(named).name).read_text(encoding="utf-8"))
    with_characters = config["token_embedder"]["char_dim"] > 0
    return ManyLanguagesModel(
        config=config,
        words=_read_ids(directory / "word.dic"),
        characters=_read_ids(directory / "char.dic") if with_characters else {},
        token_embedder=_read_tensors(directory / "token_embedder.pkl"),
        encoder=_read_tensors(directory / "encoder.pkl"),
    )


def _read_ids(path: Path) -> dict[str, int]:
    ids = {}
    for line in path.read_bytes().decode("utf-8").split("\n"):
        if line:
            key, number = line.rsplit("\t", 1)
            ids[key.strip() or "\u3000"] = int(number)
    return ids


def _read_tensors(path: Path) -> dict[str, Array]:
    tensors = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor.numpy().astype(np.float64) for name, tensor in tensors.items()}
