"""The biLM of a model as a part of other modules: with gradients through torch, without gradients through an engine.

L layers, B sentences, T positions of the longest sentence, K words of all sentences, dim size of a layer's vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.config import ModelConfig
from elmore.defaults import ComputeName
from elmore.engine.engine import Engine
from elmore.engine.open_engine import open_engine
from elmore.engine.rows import PackedRows
from elmore.engine.state import State
from elmore.formats.checkpoint import Checkpoint
from elmore.model import Model
from elmore.nn.bilm import BiLM, StateTensors, padding_mask
from elmore.nn.devices import as_tensor, compute_dtype, send, to_arrays
from elmore.text.word_ids import WordIds, WordIndexer

# The engine of a module, by its device and number type. Other modules run without gradients in torch.
COMPUTE: dict[tuple[str, torch.dtype], ComputeName] = {
    ("cpu", torch.float32): "float32",
    ("cuda", torch.float32): "float32",
    ("cuda", torch.bfloat16): "bfloat16",
}


@dataclass(frozen=True)
class WordBatch:
    """Sentences over numbered distinct words, as NumPy arrays: workers of a DataLoader can make it.

    >>> from elmore import load
    >>> batch = WordBatch.of([["to", "be"], ["or", "not", "to", "be"]], load("tiny-random").word_indexer)
    >>> batch.rows.words.tolist(), batch.rows.lengths.tolist()
    ([2, 3, 4, 5, 2, 3], [2, 4])
    """

    ids: WordIds  # of the distinct words; the boundaries are words 0 and 1
    rows: PackedRows  # one sentence in each row

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], indexer: WordIndexer) -> "WordBatch":
        """Number the words of sentences."""
        config = indexer.config
        numbers = {config.bos_token: 0, config.eos_token: 1}
        words = [numbers.setdefault(word, len(numbers)) for word in chain.from_iterable(sentences)]
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        rows = PackedRows.one_per_row(np.array(words, dtype=np.int64), lengths, boundaries=(0, 1))
        return cls(indexer.index(list(numbers)), rows)


class PretrainedBiLM(BiLM):
    """The biLM of a model; each sentence starts from the model's start state.

    A pass without gradients runs through an engine (float32 on a CPU, float32 and bfloat16 on an NVIDIA GPU), which has
    a copy of the weights. The engine is opened in the first such pass. A pass with gradients, `train()` and `eval()` of
    a biLM with parameters to train, `load_state_dict` and moving to another device or number type drop the engine.
    After any other change of the weights, for example of `parameter.data`, call `forget()`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.start = State.zeros(config)
        self._engine: Engine | None = None

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """The biLM of a model, frozen, with a copy of its weights."""
        network = cls.from_checkpoint(model.checkpoint)
        network.start = model.start
        return network

    def layers(self, batch: WordBatch, *, boundaries: bool = False) -> Tensor:
        """(L, B, T, dim) all layers of each sentence, zero beyond its end; T is two more with boundaries."""
        engine = self._opened_engine() if batch.rows.num_rows else None
        if engine is not None:
            return self._run_engine(engine, batch, boundaries=boundaries)
        vectors = self.words(batch.ids)
        start = StateTensors.of(self.start).to(vectors.device).to(self.words.weight.dtype)
        layers, _ = self.run(vectors, batch.rows, start.repeat(batch.rows.num_rows))
        if boundaries:
            return layers
        mask = send(torch.from_numpy(padding_mask(batch.rows.lengths)), layers.device)
        return layers[:, :, 1:-1] * mask[..., None]

    def with_weights(self, model: Model) -> Model:
        """The model with a copy of the present weights."""
        arrays = {name: array.copy() for name, array in self._arrays().items()}
        return Model(replace(model.checkpoint, tensors=arrays))

    def forget(self) -> None:
        """Drop the engine: the next pass without gradients opens one with the present weights."""
        self._engine = None

    def train(self, mode: bool = True) -> Self:
        if self._is_trained():
            self.forget()
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        # A copy, or another process, opens a new engine.
        return {**self.__dict__, "_engine": None}

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self.forget()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, *arguments: Any, **options: Any) -> None:
        self.forget()
        super()._load_from_state_dict(*arguments, **options)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return to_arrays({name: tensor.float() for name, tensor in self.state_dict().items()})

    def _is_trained(self) -> bool:
        return any(parameter.requires_grad for parameter in self.parameters())

    def _opened_engine(self) -> Engine | None:
        """The engine for this pass; None for a pass that only torch can run."""
        if self._is_trained() and (self.training or torch.is_grad_enabled()):
            # A step of an optimizer may follow.
            self.forget()
            return None
        weight = self.words.weight
        compute = COMPUTE.get((weight.device.type, compute_dtype(weight)))
        # The replicas of DataParallel have no parameters.
        if compute is None or self.kernel_name is not None or getattr(self, "_is_replica", False):
            return None
        if self._engine is None or self._engine.compute != compute:
            checkpoint = Checkpoint(config=self.config, tensors=self._arrays())
            self._engine = open_engine(checkpoint, device=weight.device, compute=compute)
        return self._engine

    def _run_engine(self, engine: Engine, batch: WordBatch, *, boundaries: bool) -> Tensor:  # (L, B, T, dim)
        rows = batch.rows
        table = engine.encode_words(batch.ids)
        packed = PackedRows.pack(rows.words, rows.lengths, boundaries=rows.boundaries, rows=engine.pack_size.rows)
        layers, _ = engine.run(table, packed, self.start, boundaries=boundaries)
        words = as_tensor(layers.stack(range(len(layers)))).to(self.words.weight.dtype)  # (L, K, dim)
        mask = padding_mask(rows.lengths, boundaries=boundaries)
        positions = send(torch.from_numpy(np.flatnonzero(mask)), words.device)
        padded = words.new_zeros(len(words), mask.size, words.shape[2])
        return padded.index_copy_(1, positions, words).view(len(words), *mask.shape, -1)
