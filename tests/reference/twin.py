"""One model twice: as the reference runs it, and as the package does. The only translation between the two.

Written apart from `elmore.formats`, so that a mistake there is not repeated here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from elmore.nn.bilm import BiLM, StateTensors
from elmore.nn.pretrained import WordBatch
from elmore.text.word_ids import WordIndexer
from reference.as_checkpoint import translated
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
    word_indexer: WordIndexer
    dtype: torch.dtype

    @classmethod
    def of(cls, model: Model, *, dtype: torch.dtype = torch.float64) -> "Twin":
        network = model.network()
        config, tensors, vocabulary, characters = translated(model)
        bilm = BiLM(config).to(dtype).requires_grad_(False)
        bilm.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in tensors.items()})
        return cls(network, bilm, WordIndexer(config, vocabulary=vocabulary, character_vocabulary=characters), dtype)

    def batch(self, sentences: Sentences) -> WordBatch:
        return WordBatch.of(sentences, self.word_indexer)

    def zeros(self, rows: int) -> StateTensors:
        return StateTensors.zeros(self.bilm.config, rows).to(self.dtype)

    def read(self, sentences: Sentences, state: StateTensors | None = None) -> tuple[list[Array], StateTensors]:
        """What the package makes of the sentences: the layers (L+1, n+2, dim) of each, and the state after them."""
        batch = self.batch(sentences)
        layers, after = self.bilm(batch.ids, batch.rows, state or self.zeros(len(sentences)))
        everything = layers.numpy()
        return [everything[:, row, : len(tokens) + 2] for row, tokens in enumerate(sentences)], after

    def state(self, rows: Sequence[RowState]) -> StateTensors:
        """Rows of the reference as the package's state."""

        def stacked(part: int) -> torch.Tensor:
            values = [[[layer[part] for layer in direction] for direction in row] for row in rows]
            return torch.tensor(np.array(values), dtype=self.dtype).permute(2, 1, 0, 3)  # (R, G, L, …) -> (L, G, R, …)

        return StateTensors(stacked(0), stacked(1))

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
