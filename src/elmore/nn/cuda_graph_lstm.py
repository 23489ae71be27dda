"""The inference loop of an LSTM layer on a GPU, without gradients, captured as CUDA graphs and replayed.

A step is two matrix products and two pointwise functions. The input and the last output are adjacent in memory, so that
one product serves both, and the output of a step is written to where the next step reads it:

    z = [x, h] @ joint,   c = clip(σ(f) * c + σ(i) * tanh(j)),   h = clip((σ(o) * tanh(c)) @ projection)

Launching these operations takes a CPU longer than a GPU needs to run them. So a window of a few steps is captured as
one graph, and the state stays in the buffers from one window to the next: with a graph for each rounded number of rows,
any number of steps can run. A window contains the rows that have not ended at its start. All graphs share their
buffers.

Matrix products may round a row differently if the number of rows differs. With `fixed_rows` every window has this
number of rows, and a row has the same bits next to any other rows.

G directions, T steps, B rows, P vector size, D cells; a window has S steps and R rows.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet, WeakValueDictionary

import torch
from torch import Tensor
from torch.nn.functional import pad

from elmore.engine.weights import Clips
from elmore.nn.devices import TF32, send
from elmore.nn.recurrence import HiddenTensors, LstmTensors, rows_at_each_step

WINDOWS = (16, 4)  # steps that are captured together; the shorter window for the last steps
FEWEST_ROWS = 32
SPARE_MEMORY = 2**30  # more than the capture of a window needs


class StepRows(NamedTuple):
    """The rows of a window."""

    lengths: Tensor  # (R,) the steps that each has left at the start of the window
    starts: Tensor | None  # (G, S + 1, R) not 0 where a sentence starts, the first step of the next window included
    start_h: Tensor  # (G, P) the state that sentences start from
    start_c: Tensor  # (G, D)


class OutputBuffers(NamedTuple):
    """Where the output (G, R, P) of a step is written."""

    following: Tensor  # the input of the next step
    outputs: Tensor  # zero for rows that have ended
    last: Tensor  # only of the last step of each row


class InferenceCell(Protocol):
    """The pointwise functions of a step: `TORCH_INFERENCE_CELL`, and `triton_inference` on a GPU."""

    def update(self, z: Tensor, bias: Tensor, c: Tensor, rows: StepRows, step: int, *, clip: float) -> Tensor:
        """From z (G, R, 4D) change c (G, R, D) of rows that have not ended, and return m = σ(o) * tanh(c)."""

    def write_output(
        self, projected: Tensor, buffers: OutputBuffers, rows: StepRows, step: int, *, clip: float
    ) -> None:
        """Write the clipped output to all buffers."""


class JointWeights(NamedTuple):
    """The weights of a layer for this loop, and the graphs that use them."""

    joint: Tensor  # (G, 2P, 4D)
    bias: Tensor  # (G, 4D)
    projection: Tensor | None  # (G, D, P)
    clips: Clips
    graphs: dict["_Window", "_Captured"]


class _Window(NamedTuple):
    steps: int
    rows: int
    packed: bool


class _Captured(NamedTuple):
    buffers: "_GraphBuffers"  # which the graph reads and writes
    graph: "torch.cuda.CUDAGraph | None"  # None: the window has run once, and is captured the next time


@cache
def inference_lstm(*, in_triton: bool) -> "InferenceLstm":
    """The loop over Triton kernels, or in plain torch; one for all models, because models share buffers."""
    if not in_triton:
        return InferenceLstm(TORCH_INFERENCE_CELL)
    from elmore.nn.triton_inference import TritonInferenceCell  # not every machine has Triton

    return InferenceLstm(TritonInferenceCell())


class InferenceLstm:
    """The loop over these pointwise functions; without a GPU it runs without graphs. Any thread may call it."""

    def __init__(self, cell: InferenceCell) -> None:
        self._cell = cell
        # Weak references: buffers are freed with the last graph that uses them. Models of equal size share buffers, one
        # call at a time. For 2048 rows of the original model they take a quarter of a GiB in bfloat16, half in float32.
        self._buffers: WeakValueDictionary[tuple[object, ...], _GraphBuffers] = WeakValueDictionary()
        self._lock = Lock()

    def prepare(self, weights: LstmTensors, dtype: torch.dtype) -> JointWeights:
        """Input and recurrent weights below each other, in the number type of the products."""
        joint = torch.cat([weights.input, weights.recurrent], dim=1).to(dtype)
        projection = None if weights.projection is None else weights.projection.to(dtype)
        return JointWeights(joint, weights.bias.contiguous(), projection, weights.clips, {})

    def run(
        self,
        weights: JointWeights,
        inputs: Tensor,  # (G, T, B, P)
        lengths: Sequence[int],  # (B,)
        state: HiddenTensors,
        starts: Tensor | None = None,  # (G, T, B)
        *,
        fixed_rows: int | None = None,
    ) -> tuple[Tensor, HiddenTensors]:
        """Run each row to its end, as `LstmKernel.run` does, from a state with one row, or one for each row.

        With `starts`, rows contain several sentences, one after another, and the state has one row: a row starts again
        from it where `starts` is not 0, its first step included. If `fixed_rows` is not None, every matrix product has
        this many rows.
        """
        h, c = state
        rows = len(lengths)
        if not rows:
            return inputs.to(weights.joint.dtype), state
        with self._lock:
            buffers = self._buffers_for(weights, inputs, c, max(rows, fixed_rows or 0))
            with buffers.in_order():
                buffers.start_rows(lengths, h, c)
                if starts is not None:
                    buffers.start_h.copy_(h[:, 0])
                    buffers.start_c.copy_(c[:, 0])
                    starts = pad(starts, (0, 0, 0, max(WINDOWS) + 1))
                outputs = self._run_windows(weights, buffers, inputs, lengths, starts, fixed_rows)
                return outputs, (buffers.last_h[:, :rows].clone(), buffers.c[:, :rows].clone())

    def _buffers_for(self, weights: JointWeights, inputs: Tensor, c: Tensor, rows: int) -> "_GraphBuffers":
        """Buffers for this many rows. Larger ones replace smaller ones; graphs of the smaller ones are discarded."""
        sizes = _Sizes(len(inputs), inputs.shape[-1], c.shape[-1])
        key = (inputs.device, weights.joint.dtype, c.dtype, sizes)
        buffers = self._buffers.get(key)
        if buffers is None or buffers.rows < rows:
            self._buffers[key] = buffers = _GraphBuffers(rounded_rows(rows), sizes, weights.joint, c)
        return buffers

    def _run_windows(
        self,
        weights: JointWeights,
        buffers: "_GraphBuffers",
        inputs: Tensor,
        lengths: Sequence[int],
        starts: Tensor | None,
        fixed_rows: int | None,
    ) -> Tensor:
        steps = inputs.shape[1]
        active = rows_at_each_step(lengths, steps)
        outputs = torch.zeros(inputs.shape, dtype=weights.joint.dtype, device=inputs.device)
        for first, size in _windows(steps):
            if not (n := active[first]):
                break
            rows = min(rounded_rows(n), buffers.rows) if fixed_rows is None else max(fixed_rows, n)
            window = _Window(size, rows, starts is not None)
            x = inputs[:, first : first + size, :n]
            buffers.joint_inputs[:, : x.shape[1], :n, : x.shape[3]] = x
            if starts is not None:
                buffers.starts[:, : size + 1, :n] = starts[:, first : first + size + 1, :n]
            self._run_window(weights, window, buffers)
            outputs[:, first : first + size, :n] = buffers.outputs[:, : x.shape[1], :n]
        return outputs

    def _run_window(self, weights: JointWeights, window: _Window, buffers: "_GraphBuffers") -> None:
        if not buffers.joint_inputs.is_cuda:
            self._loop(weights, window, buffers)
            return
        captured = weights.graphs.get(window)
        if captured is None or captured.buffers is not buffers:
            for other in [key for key, old in weights.graphs.items() if old.buffers is not buffers]:
                del weights.graphs[other]
            # The first pass is not captured, because libraries initialize themselves in it.
            self._loop(weights, window, buffers)
            weights.graphs[window] = _Captured(buffers, None)
            return
        graph = captured.graph or self._capture(weights, window, buffers)
        if graph is None:
            self._loop(weights, window, buffers)
            return
        weights.graphs[window] = _Captured(buffers, graph)
        graph.replay()

    def _capture(
        self, weights: JointWeights, window: _Window, buffers: "_GraphBuffers"
    ) -> "torch.cuda.CUDAGraph | None":
        """The loop as a graph; None if a request of another thread rounds its products to TF32."""
        requests = TF32.number_of_requests()
        if requests is None:
            return None
        graph = torch.cuda.CUDAGraph()
        with _capturing(graph, buffers):
            self._loop(weights, window, buffers)
        return graph if TF32.number_of_requests() == requests else None

    def _loop(self, weights: JointWeights, window: _Window, buffers: "_GraphBuffers") -> None:
        steps, rows, packed = window
        cell_clip = math.inf if weights.clips.cell is None else weights.clips.cell
        h_clip = math.inf if weights.clips.projection is None else weights.clips.projection
        joint_inputs, outputs = buffers.joint_inputs[:, :, :rows], buffers.outputs[:, :, :rows]
        c, last = buffers.c[:, :rows], buffers.last_h[:, :rows]
        starts = buffers.starts[:, :, :rows] if packed else None
        step_rows = StepRows(buffers.lengths[:rows], starts, buffers.start_h, buffers.start_c)
        vector = outputs.shape[3]
        for step in range(steps):
            z = torch.bmm(joint_inputs[:, step], weights.joint)
            m = self._cell.update(z, weights.bias, c, step_rows, step, clip=cell_clip)
            projected = m if weights.projection is None else torch.bmm(m, weights.projection)
            # The last step writes to where the first step of the next window reads.
            following = joint_inputs[:, (step + 1) % steps, :, vector:]
            written = OutputBuffers(following, outputs[:, step], last)
            clip = math.inf if weights.projection is None else h_clip
            self._cell.write_output(projected, written, step_rows, step, clip=clip)
        step_rows.lengths.sub_(steps)


class _Sizes(NamedTuple):
    directions: int
    vector: int
    cells: int


class _GraphBuffers:
    """The memory that a loop reads and writes, for up to this many rows; for one caller at a time."""

    def __init__(self, rows: int, sizes: _Sizes, like: Tensor, c: Tensor) -> None:
        directions, vector, cells = sizes
        longest = max(WINDOWS)
        device = like.device
        self.rows = rows
        # Zeros: rows without a sentence are multiplied too.
        with torch.inference_mode(mode=False):
            new = like.new_zeros
            self.joint_inputs = new(directions, longest, rows, 2 * vector)  # x, and the h before it
            self.outputs = new(directions, longest, rows, vector)
            self.last_h = new(directions, rows, vector)
            self.c = c.new_zeros(directions, rows, cells)
            self.lengths = torch.zeros(rows, dtype=torch.int32, device=device)
            self.starts = torch.zeros(directions, longest + 1, rows, dtype=torch.uint8, device=device)
            self.start_h = new(directions, vector)
            self.start_c = c.new_zeros(directions, cells)
        self._pool: Any = None  # torch has no public type for the handle
        self._graphs: WeakSet[torch.cuda.CUDAGraph] = WeakSet()
        self._free = torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def pool_of(self, graph: "torch.cuda.CUDAGraph") -> Any:
        """The memory pool for the intermediate results of a graph: one for all graphs of these buffers."""
        if self._pool is None or not self._graphs:
            # A pool is freed with the last of its graphs, and cannot be used again.
            self._pool = torch.cuda.graph_pool_handle()
        self._graphs.add(graph)
        return self._pool

    def start_rows(self, lengths: Sequence[int], h: Tensor, c: Tensor) -> None:
        """Set the rows to their state, or all to the only row of h and c; further rows have no steps."""
        rows, vector = len(lengths), h.shape[2]
        left = torch.zeros(self.rows, dtype=torch.int32)
        left[:rows] = torch.as_tensor(lengths, dtype=torch.int32)
        self.lengths.copy_(send(left, self.lengths.device))
        self.joint_inputs[:, 0, :rows, vector:] = h
        self.last_h[:, :rows] = h
        self.c[:, :rows] = c

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """The context of all work with the buffers: work on another stream of the same GPU waits."""
        if self._free is None:
            yield
            return
        device = self.joint_inputs.device
        with torch.cuda.device(device):
            stream = torch.cuda.current_stream(device)
            self._free.wait(stream)
            for tensor in self._tensors:
                # Larger buffers may replace these while their work on this stream still runs.
                tensor.record_stream(stream)
            try:
                yield
            finally:
                # After an error too: work launched earlier may still run.
                self._free.record(torch.cuda.current_stream(device))

    @property
    def _tensors(self) -> tuple[Tensor, ...]:
        state = self.last_h, self.c, self.start_h, self.start_c
        return self.joint_inputs, self.outputs, self.lengths, self.starts, *state


@contextmanager
def _capturing(graph: "torch.cuda.CUDAGraph", buffers: "_GraphBuffers") -> Iterator[None]:
    """The context of a capture. Not `torch.cuda.graph`, which frees all cached memory first."""
    # The GPU continues with earlier work; the graph runs after it.
    device = buffers.joint_inputs.device
    free, _ = torch.cuda.mem_get_info(device)
    if free < SPARE_MEMORY:
        torch.cuda.empty_cache()  # not possible during a capture
    with torch.cuda.stream(_capture_stream(device)):
        # Other threads may use this GPU in the meantime.
        graph.capture_begin(pool=buffers.pool_of(graph), capture_error_mode="thread_local")
        try:
            yield
        except BaseException:
            with suppress(RuntimeError):  # the failed capture; the first error has the reason
                graph.capture_end()
            raise
        graph.capture_end()


@cache
def _capture_stream(device: torch.device) -> "torch.cuda.Stream":
    """One stream for all captures: every stream has a separate workspace for matrix products."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def rounded_rows(rows: int) -> int:
    """Round up to one of few numbers: for each number two graphs are captured for a layer.

    >>> [rounded_rows(rows) for rows in (1, 32, 33, 130, 1000, 1025)]
    [32, 32, 64, 192, 1024, 1536]
    """
    unit = max(FEWEST_ROWS, 1 << max((rows - 1).bit_length() - 2, 0))
    return max(-(-rows // unit), 1) * unit


def _windows(steps: int) -> Iterator[tuple[int, int]]:
    """The first step and the size of each window."""
    first = 0
    for size in WINDOWS:
        last = size == WINDOWS[-1]
        while steps - first >= size or (last and first < steps):
            yield first, size
            first += size


class _TorchInferenceCell:
    """In plain torch, for any number type."""

    def update(self, z: Tensor, bias: Tensor, c: Tensor, rows: StepRows, step: int, *, clip: float) -> Tensor:
        before = c
        if rows.starts is not None:
            before = torch.where(rows.starts[:, step, :, None] != 0, rows.start_c[:, None], c)
        i, j, f, o = (z.to(c.dtype) + bias[:, None]).chunk(4, dim=-1)
        new = (torch.sigmoid(f) * before + torch.sigmoid(i) * torch.tanh(j)).clamp(-clip, clip)
        c.copy_(torch.where((rows.lengths > step)[:, None], new, c))
        return (torch.sigmoid(o) * torch.tanh(new)).to(z.dtype)

    def write_output(
        self, projected: Tensor, buffers: OutputBuffers, rows: StepRows, step: int, *, clip: float
    ) -> None:
        h = projected.clamp(-clip, clip)
        buffers.outputs.copy_(h.masked_fill((rows.lengths <= step)[:, None], 0))
        buffers.last.copy_(torch.where((rows.lengths == step + 1)[:, None], h, buffers.last))
        if rows.starts is not None:
            h = torch.where(rows.starts[:, step + 1, :, None] != 0, rows.start_h[:, None], h)
        buffers.following.copy_(h)


TORCH_INFERENCE_CELL: InferenceCell = _TorchInferenceCell()
