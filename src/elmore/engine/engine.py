"""The interface of engines: the network of a model, ready for inference, without gradients.

An engine is built from a `Checkpoint` and a `compute` setting. It never changes afterwards, and any number of threads
may call it. `open_engine` chooses the implementation:

    native  C++ kernels on a CPU; float32, bfloat16, int8; bit-identical in any batch, with any number of threads
    numpy   plain NumPy on a CPU; float32; the specification of all others
    gpu     CUDA graphs and Triton kernels through torch (`elmore.nn.gpu_engine`); float32, tf32, bfloat16

W words, K words of all sentences, G directions, T steps, R rows, P vector size.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from elmore.config import ModelConfig
from elmore.defaults import ComputeName
from elmore.engine.rows import PackedRows, RowSteps
from elmore.engine.state import State
from elmore.text.word_ids import WordIds


class PackSize(NamedTuple):
    """The largest pack of sentences that an engine computes in one call."""

    rows: int
    tokens: int  # in all rows, boundaries included


class EngineLayers(Protocol):
    """The layers of packed sentences, over all words, one sentence after another."""

    def __len__(self) -> int: ...
    def layer(self, number: int) -> Any: ...  # (K, dim)
    def stack(self, numbers: Sequence[int], dtype: Any = ...) -> Any: ...  # (len(numbers), K, dim)
    def average(self, numbers: Sequence[int], dtype: Any = ...) -> Any: ...  # (K, dim)


class VectorTable(Protocol):
    """Word vectors in the memory of an engine, to which rows are appended."""

    def __len__(self) -> int: ...
    def append(self, vectors: Any) -> None: ...  # (n, P)
    def array(self) -> Any: ...  # (at least len, P), valid for all rows appended so far


class SoftmaxScorer(Protocol):
    """The softmax of a language model in the memory of an engine."""

    def log_probabilities(self, hidden: Any, classes: NDArray[np.int64]) -> NDArray[np.float32]: ...  # (N,)
    def log_distribution(self, hidden: Any) -> NDArray[np.float32]: ...  # (V,)


class Engine(Protocol):
    """Character ids in, word vectors out; packed rows and a state in, layers and a state out.

    Arrays are NumPy arrays, except for the GPU engine, whose vectors and layers are torch tensors on its device.
    """

    name: str
    config: ModelConfig
    compute: ComputeName
    device: str

    @property
    def pack_size(self) -> PackSize: ...

    word_group: int  # the largest number of words of one call of `encode_words`
    fixed_word_length: bool  # word ids must have the full width, so that all products have one size

    def encode_words(self, ids: WordIds) -> Any:
        """(W, P) the vectors of words."""

    is_asynchronous: bool  # results may still be computed when a call returns

    def fetch(self, array: Any) -> Callable[[], NDArray[Any]]:
        """Start to copy an array into ordinary memory; the returned function waits for the copy."""

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        """Arrays (..., K, dim) in the engine's memory, joined along their words."""

    def new_table(self) -> VectorTable:
        """An empty table of word vectors."""

    def new_softmax(self, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> SoftmaxScorer:
        """The softmax with these weights (V, P) and biases (V,)."""

    def run(
        self, table: Any, rows: PackedRows, state: State, *, depth: int | None = None, boundaries: bool = False
    ) -> tuple[EngineLayers, State]:
        """The layers of packed sentences over a table of word vectors; only the first `depth` LSTM layers run.

        The state has one row, the start state, or, if `rows.carried`, one for each row. If `rows.carried`, the returned
        state is that after the last step of each row; otherwise it has no meaning.
        """

    def run_steps(self, table: Any, steps: RowSteps, state: State) -> tuple[Any, State]:
        """The outputs (G, T, R, P) of the top layer at each step, and the state after the last step of each row."""
