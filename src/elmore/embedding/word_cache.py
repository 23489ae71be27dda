"""Word vectors that were computed before, over the whole stream: text repeats, and a word is encoded once."""

from collections import OrderedDict
from threading import Lock

import torch
from torch import Tensor, nn

from elmore.network.word_encoder import WordEncoder
from elmore.text.batch import Batch

DEFAULT_BYTES = 64 * 2**20

# Words are encoded in groups of a multiple of this. Matrix products round a row differently when there are few rows, and
# a word must have the same vector, to the bit, whichever words it was encoded with.
GROUP = 16
LARGEST_GROUP = 1024


class WordCache:
    """The vectors of a batch's distinct words, from memory where they are known; the least recently used go first."""

    def __init__(self, encoder: WordEncoder, *, vector_dim: int, max_bytes: int = DEFAULT_BYTES) -> None:
        self._encoder = encoder
        self._capacity = max(max_bytes // (4 * vector_dim), 1)
        self._vectors: OrderedDict[str, Tensor] = OrderedDict()
        self._weights: tuple[tuple[int, int], ...] = ()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._vectors)

    def vectors(self, batch: Batch) -> Tensor:
        """(W, P) the vectors of the batch's distinct words."""
        with self._lock:
            self._forget_if_trained()
            known = self._vectors
            missing = [number for number, word in enumerate(batch.words) if word not in known]
            fresh = self._encode(batch, missing)
            rows = []
            for word in batch.words:
                if word in fresh:
                    rows.append(fresh[word])
                else:
                    known.move_to_end(word)
                    rows.append(known[word])
            known.update(fresh)
            while len(known) > self._capacity:
                known.popitem(last=False)
            return torch.stack(rows)

    def _encode(self, batch: Batch, missing: list[int]) -> dict[str, Tensor]:
        fresh: dict[str, Tensor] = {}
        for start in range(0, len(missing), LARGEST_GROUP):
            group = missing[start : start + LARGEST_GROUP]
            filled = group + group[:1] * (-len(group) % GROUP)
            vectors = self._encoder(batch.inputs.select(torch.tensor(filled, device=batch.positions.device)))
            # Rows of their own, so that one remembered word does not keep its whole group in memory.
            fresh.update((batch.words[number], vector.clone()) for number, vector in zip(group, vectors, strict=False))
        return fresh

    def _forget_if_trained(self) -> None:
        weights = _versions(self._encoder)
        if weights != self._weights:
            self._vectors.clear()
            self._weights = weights


def _versions(module: nn.Module) -> tuple[tuple[int, int], ...]:
    """Where the weights lie and how often they were written to: changes with any training step or move."""
    return tuple((parameter.data_ptr(), parameter._version) for parameter in module.parameters())
