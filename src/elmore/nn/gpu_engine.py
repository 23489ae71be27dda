"""The engine for GPUs: packed rows through CUDA graphs and Triton kernels, on the device of the model.

No call waits for the GPU: while it runs one pack of sentences, the host prepares the next one. On a CPU the same code
runs in plain torch, for tests.

W words, N sentences, K words of all sentences, G directions, T steps, R rows, P vector size, dim = G * P.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.config import Direction, ModelConfig
from elmore.defaults import ComputeName
from elmore.engine.array_checks import check_indices, check_steps, check_word_ids
from elmore.engine.engine import PackSize
from elmore.engine.rows import PackedRows, RowSteps
from elmore.engine.state import State
from elmore.engine.weights import as_float, lstm_weights
from elmore.errors import InputError, OutOfMemory
from elmore.formats.checkpoint import Checkpoint
from elmore.nn.bilm import gather_vectors
from elmore.nn.cuda_graph_lstm import JointWeights, inference_lstm
from elmore.nn.devices import TF32, as_tensor, send
from elmore.nn.kernels import choose_kernels, kernels_named, triton_runs_on
from elmore.nn.recurrence import HiddenTensors, LstmTensors
from elmore.nn.word_encoder import WordEncoder
from elmore.text.word_ids import WordIds

# Words that are encoded together, always as many: a word has the same bits in every group. In bfloat16 a GPU is so fast
# with the smaller group that launching it takes longer.
WORDS_AT_ONCE, WORDS_AT_ONCE_BFLOAT16 = 1024, 8192
# Steps of a row. A GPU accepts a bounded number of launches, and the host waits for it beyond that, so a pack must be
# long enough; with far fewer steps, only the longest sentences would use the last steps.
STEPS = 256
CPU_MEMORY = 2**30  # for a pack where there is no GPU
# Scores of a softmax are computed for a block of classes at a time, or they would fill gigabytes.
LOGITS_AT_ONCE = 2**26
POSITIONS_AT_ONCE = 1024

DTYPES: dict[ComputeName, torch.dtype] = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
}


class GpuEngine:
    """See `elmore.engine.engine.Engine`. Vectors, tables and layers are tensors on the device."""

    name = "gpu"

    def __init__(
        self, checkpoint: Checkpoint, *, device: str, compute: ComputeName, batch_invariant: bool = False
    ) -> None:
        if compute not in DTYPES:
            raise InputError(f"compute={compute!r} runs on a CPU; on {device} choose {', '.join(DTYPES)}")
        if compute == "tf32" and not device.startswith("cuda"):
            raise InputError(f"compute='tf32' is a mode of NVIDIA GPUs, and the device is {device}")
        self.config = checkpoint.config
        self.compute = compute
        self.device = device
        self.fixed_word_length = batch_invariant  # a product of another size may round differently
        self._device = torch.device(device)
        self.is_asynchronous = self._device.type == "cuda"
        self._dtype = DTYPES[compute]
        in_bfloat16 = self._dtype == torch.bfloat16 and self.is_asynchronous
        self.word_group = WORDS_AT_ONCE_BFLOAT16 if in_bfloat16 else WORDS_AT_ONCE
        in_triton = triton_runs_on(self._device, self._dtype)
        self._kernels = choose_kernels(self._device, self._dtype) if in_triton else kernels_named("torch")
        self._lstm_kernel = inference_lstm(in_triton=in_triton)
        self.pack_size = pack_size(self.config, memory=self._memory(), bytes_per_number=self._dtype.itemsize)
        self._fixed_rows = self.pack_size.rows if batch_invariant else None
        with self._running():
            self._words = _word_encoder(checkpoint, self._device, self._dtype)
            self._lstm = [self._prepared(checkpoint, number) for number in range(self.config.lstm_layers)]

    def __repr__(self) -> str:
        return f"GpuEngine(device={self.device!r}, compute={self.compute!r}, dim={self.config.dim})"

    def encode_words(self, ids: WordIds) -> Tensor:
        """(W, P) the vectors of words."""
        check_word_ids(ids, self.config)
        if not (count := max(len(part) for part in ids if part is not None)):
            return torch.empty(0, self.config.vector_dim, dtype=self._dtype, device=self._device)
        with self._running():
            groups = []
            for first in range(0, count, self.word_group):
                group = ids.select(np.arange(first, min(first + self.word_group, count)))
                filled = WordIds(*(None if part is None else _filled(part, self.word_group) for part in group))
                vectors = self._words(filled, kernels=self._kernels)
                groups.append(vectors[: min(self.word_group, count - first)])
            return groups[0] if len(groups) == 1 else torch.cat(groups)

    def new_table(self) -> "GpuTable":
        return GpuTable(self.config.vector_dim, self._dtype, self._device)

    def fetch(self, array: Tensor) -> Callable[[], NDArray[Any]]:
        """Start to copy into pinned memory on a separate stream; the returned function waits for the copy."""
        if not array.is_cuda:
            return lambda: array.cpu().numpy()
        computing, copying = torch.cuda.current_stream(array.device), _copying_stream(array.device)
        host = torch.empty(array.shape, dtype=array.dtype, pin_memory=True)
        copying.wait_stream(computing)
        with torch.cuda.stream(copying):
            host.copy_(array, non_blocking=True)
            # Otherwise the memory would serve the next pack before it is copied.
            array.record_stream(copying)
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record(copying)

        def wait() -> NDArray[Any]:
            arrived.synchronize()
            vectors: NDArray[Any] = host.numpy()
            return vectors

        return wait

    def concatenate(self, arrays: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(arrays), dim=-2)

    def new_softmax(self, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> "TorchSoftmax":
        return TorchSoftmax(*(send(as_tensor(part), self._device) for part in (weight, bias)))

    def run(
        self, table: Tensor, rows: PackedRows, state: State, *, depth: int | None = None, boundaries: bool = False
    ) -> tuple["GpuLayers", State]:
        """See `Engine.run`."""
        names = self.config.direction_names
        state.check(self.config, rows.num_rows if rows.carried else 1)
        check_indices("rows.words", rows.words, len(table))
        check_indices("rows.boundaries", np.array(rows.boundaries), len(table))
        with self._running():
            on_device = _DeviceRows(rows, self._device, boundaries=boundaries)
            if depth == 0 or not rows.num_rows:
                return GpuLayers(on_device, table, [], directions=names), state
            words, starts = on_device.words_and_starts(names)
            lengths = on_device.row_lengths
            outputs, ends = self._run_layers(table, words, lengths, state, None if rows.carried else starts, depth)
            # The state after packed rows has no use, and fetching it would wait for the GPU.
            after = _state_after(ends, state) if rows.carried else state
            return GpuLayers(on_device, table, outputs, directions=names), after

    def run_steps(self, table: Tensor, steps: RowSteps, state: State) -> tuple[Tensor, State]:
        """See `Engine.run_steps`."""
        check_steps(steps, self.config, table_rows=len(table))
        state.check(self.config, len(steps.lengths) if steps.starts is None else 1)
        with self._running():
            words = self._sent(steps.words)
            starts = None if steps.starts is None else self._sent(steps.starts)
            outputs, ends = self._run_layers(table, words, steps.lengths.tolist(), state, starts)
            return outputs[-1].float(), _state_after(ends, state)

    def _run_layers(
        self,
        table: Tensor,
        words: Tensor,  # (G, T, R)
        lengths: Sequence[int],
        state: State,
        starts: Tensor | None = None,  # (G, T, R)
        depth: int | None = None,
    ) -> tuple[list[Tensor], list[HiddenTensors]]:
        """The outputs (G, T, R, P) of the first `depth` layers, and the state after them."""
        h, c = (self._sent(part).to(self._dtype) for part in (state.h, state.c))
        x = gather_vectors(table, words)
        outputs: list[Tensor] = []
        ends: list[HiddenTensors] = []
        for number, weights in enumerate(self._lstm[:depth]):
            start = h[number], c[number]
            y, end = self._lstm_kernel.run(weights, x, lengths, start, starts, fixed_rows=self._fixed_rows)
            x = x + y if self.config.skip_connections and number > 0 else y
            outputs.append(x)
            ends.append(end)
        return outputs, ends

    def _prepared(self, checkpoint: Checkpoint, number: int) -> JointWeights:
        arrays = lstm_weights(checkpoint, number)
        inputs, recurrent, bias = (self._sent(as_float(part)) for part in (arrays.input, arrays.recurrent, arrays.bias))
        projection = None if arrays.projection is None else self._sent(as_float(arrays.projection))
        weights = LstmTensors(inputs, recurrent, bias.to(self._dtype), projection, arrays.clips)
        return self._lstm_kernel.prepare(weights, self._dtype)

    def _memory(self) -> int:
        if not self.is_asynchronous:
            return CPU_MEMORY
        memory: int = torch.cuda.get_device_properties(self._device).total_memory
        return memory

    def _sent(self, array: NDArray[Any]) -> Tensor:
        return send(as_tensor(np.ascontiguousarray(array)), self._device)

    @contextmanager
    def _running(self) -> Iterator[None]:
        rounding = TF32.rounding() if self.compute == "tf32" else nullcontext()
        # Not in inference mode: results may be used in training, and memory is written again in later calls.
        with _memory_errors(self.device), torch.inference_mode(mode=False), torch.no_grad(), rounding:
            yield


class GpuTable:
    """Word vectors on the device. Rows that were handed out never change."""

    @torch.inference_mode(mode=False)
    def __init__(self, size: int, dtype: torch.dtype, device: torch.device) -> None:
        self._tensor = torch.zeros(2**14, size, dtype=dtype, device=device)
        self._length = 0
        self._written: torch.cuda.Event | None = None

    def __len__(self) -> int:
        return self._length

    @torch.inference_mode(mode=False)
    def append(self, vectors: Tensor) -> None:
        self._wait()
        needed = self._length + len(vectors)
        if needed > len(self._tensor):
            grown = self._tensor.new_zeros(max(needed, 2 * len(self._tensor)), self._tensor.shape[1])
            grown[: self._length] = self._tensor[: self._length]
            self._tensor = grown
        self._tensor[self._length : needed] = vectors
        self._length = needed
        if self._tensor.is_cuda:
            self._written = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._written.record(torch.cuda.current_stream(self._tensor.device))

    def array(self) -> Tensor:
        self._wait()
        return self._tensor

    def _wait(self) -> None:
        """Order this thread's stream after the last write, which may have been on the stream of another thread."""
        if self._written is not None:
            stream = torch.cuda.current_stream(self._tensor.device)
            self._written.wait(stream)
            # A larger tensor may replace this one while work on this stream still reads it.
            self._tensor.record_stream(stream)


class GpuLayers:
    """The layers of all words, one sentence after another, as tensors on the device."""

    def __init__(
        self, rows: "_DeviceRows", table: Tensor, outputs: Sequence[Tensor], *, directions: Sequence[Direction]
    ) -> None:
        self._rows = rows
        self._table = table
        self._outputs = outputs  # of each LSTM layer (G, T, R, P)
        self._positions = [rows.positions(name) for name in directions] if outputs else []
        self._num_directions = len(directions)

    def __len__(self) -> int:
        return 1 + len(self._outputs)

    def layer(self, number: int) -> Tensor:
        """(K, dim) one layer."""
        if number == 0:
            return self._table.index_select(0, self._rows.selected_words).repeat(1, self._num_directions)
        pairs = zip(self._outputs[number - 1], self._positions, strict=True)
        return torch.cat([y.flatten(0, 1).index_select(0, positions) for y, positions in pairs], dim=-1)

    def stack(self, numbers: Sequence[int], dtype: type[np.floating[Any]] = np.float32) -> Tensor:
        """(len(numbers), K, dim) several layers."""
        return torch.stack([self.layer(number).to(_torch_dtype(dtype)) for number in numbers])

    def average(self, numbers: Sequence[int], dtype: type[np.floating[Any]] = np.float32) -> Tensor:
        """(K, dim) the mean of several layers."""
        total = self.layer(numbers[0]).float()
        for number in numbers[1:]:
            total = total + self.layer(number)
        return (total / len(numbers)).to(_torch_dtype(dtype))


class TorchSoftmax:
    """The softmax of a language model on the device, always over all classes."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight = weight  # (V, P)
        self._bias = bias  # (V,)

    @torch.no_grad()
    def log_probabilities(self, hidden: Tensor, classes: NDArray[np.int64]) -> NDArray[np.float32]:
        """The natural logarithm of the probability of one class at each position."""
        numbers = send(torch.from_numpy(classes), self._weight.device)
        parts = []
        for first in range(0, len(hidden), POSITIONS_AT_ONCE):
            chunk = slice(first, first + POSITIONS_AT_ONCE)
            scores = (hidden[chunk] * self._weight[numbers[chunk]]).sum(dim=-1) + self._bias[numbers[chunk]]
            parts.append(scores - self._log_total(hidden[chunk]))
        return _as_array(torch.cat(parts))

    @torch.no_grad()
    def log_distribution(self, hidden: Tensor) -> NDArray[np.float32]:
        """The natural logarithms of the probabilities of all classes at one position."""
        return _as_array((self._weight @ hidden + self._bias).log_softmax(dim=0))

    def _log_total(self, hidden: Tensor) -> Tensor:
        block = max(LOGITS_AT_ONCE // len(hidden), 1)
        parts = [slice(first, first + block) for first in range(0, len(self._bias), block)]
        totals = [torch.addmm(self._bias[p], hidden, self._weight[p].t()).logsumexp(dim=-1) for p in parts]
        return torch.stack(totals).logsumexp(dim=0)


class _DeviceRows:
    """`PackedRows` on the device: a few numbers for each sentence are sent, and all indices are computed there."""

    def __init__(self, rows: PackedRows, device: torch.device, *, boundaries: bool) -> None:
        packing = rows.packing
        self.row_lengths: list[int] = packing.row_lengths.tolist()
        self._boundaries, self._with_boundaries = rows.boundaries, boundaries
        self._words = send(torch.from_numpy(rows.words), device)
        self._sentences = send(torch.from_numpy(np.stack([packing.rows, packing.offsets, rows.lengths])), device)
        self._last_steps = send(torch.from_numpy(packing.row_lengths - 1), device)
        # (K,) the words whose layers are returned
        self.selected_words = (
            send(torch.from_numpy(rows.words_with_boundaries()), device) if boundaries else self._words
        )

    def positions(self, direction: Direction) -> Tensor:
        """(K,) where a direction reads each selected word, in (T, R) flattened."""
        return self._positions(direction, boundaries=self._with_boundaries)

    def words_and_starts(self, directions: Sequence[Direction]) -> tuple[Tensor, Tensor]:
        """(G, T, R) the word of each step, 0 beyond a row's end; and 1 where a sentence starts."""
        row, first, length = self._sentences
        shape = len(directions), self.row_lengths[0], len(self.row_lengths)
        words = self._words.new_zeros(len(directions), shape[1] * shape[2])
        starts = torch.zeros_like(words, dtype=torch.uint8)
        opening, closing = self._boundaries
        for number, direction in enumerate(directions):
            opened, closed = (self._flat(at, row, direction) for at in (first, first + length + 1))
            words[number].index_copy_(0, self._positions(direction, boundaries=False), self._words)
            words[number].index_fill_(0, opened, opening).index_fill_(0, closed, closing)
            starts[number].index_fill_(0, opened if direction == "forward" else closed, 1)
        return words.view(shape), starts.view(shape)

    def _positions(self, direction: Direction, *, boundaries: bool) -> Tensor:
        row, first, length = self._sentences
        length, first = (length + 2, first) if boundaries else (length, first + 1)
        total = len(self._words) + (2 * len(row) if boundaries else 0)
        before = length.cumsum(0) - length
        rows, offsets = torch.repeat_interleave(torch.stack([row, first - before]), length, 1, output_size=total)
        return self._flat(offsets + torch.arange(total, device=row.device), rows, direction)

    def _flat(self, steps: Tensor, rows: Tensor, direction: Direction) -> Tensor:
        if direction == "backward":
            steps = self._last_steps[rows] - steps
        return steps * len(self.row_lengths) + rows


def pack_size(config: ModelConfig, *, memory: int, bytes_per_number: int) -> PackSize:
    """The size of a pack for a GPU with this much memory: enough rows to use the whole GPU at every step.

    >>> from elmore.config import ORIGINAL
    >>> pack_size(ORIGINAL, memory=141 * 2**30, bytes_per_number=2)
    PackSize(rows=2048, tokens=524288)
    """
    rows = 2048 if config.cell_dim >= 2048 else 4096
    # Inputs and outputs of every layer, twice while one is computed from the other, and the results as float32.
    each = config.dim * ((config.num_layers + 2) * bytes_per_number + 3 * 4)
    tokens = memory // 4 // each
    while rows > 256 and tokens < STEPS * rows:
        rows //= 2
    return PackSize(rows, min(tokens, STEPS * rows))


def _word_encoder(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> WordEncoder:
    with torch.device("meta"):
        encoder = WordEncoder(checkpoint.config)
    prefix = "words."
    tensors = {
        name.removeprefix(prefix): as_tensor(as_float(array))
        for name, array in checkpoint.tensors.items()
        if name.startswith(prefix)
    }
    encoder.load_state_dict(tensors, assign=True)
    return encoder.to(device, dtype).requires_grad_(requires_grad=False)


def _state_after(ends: Sequence[HiddenTensors], before: State) -> State:
    """Layers that did not run have the state before."""
    h, c = (torch.stack(parts).float().cpu().numpy() for parts in zip(*ends, strict=True))
    return State(np.concatenate([h, before.h[len(h) :]]), np.concatenate([c, before.c[len(c) :]]))


def _filled(part: NDArray[Any], rows: int) -> NDArray[Any]:
    """Repeat the first row up to this number of rows."""
    return np.concatenate([part, np.repeat(part[:1], rows - len(part), axis=0)])


def _as_array(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.cpu().numpy()
    return array


def _torch_dtype(dtype: type[np.floating[Any]]) -> torch.dtype:
    return torch.float16 if np.dtype(dtype) == np.float16 else torch.float32


@cache
def _copying_stream(device: torch.device) -> "torch.cuda.Stream":
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@contextmanager
def _memory_errors(device: str) -> Iterator[None]:
    """Raise MemoryError for torch.OutOfMemoryError."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise OutOfMemory(f"there is too little memory on {device}; use a smaller batch, or another device") from None
