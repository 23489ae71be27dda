"""The recurrence for reading on a GPU: a loop without gradients, captured as CUDA graphs and replayed.

A step is two matrix products and two pointwise functions. Input and last output stand side by side, so that one product
serves both, and what a step gives is written straight to where the next one reads it:

    z = [x, h] @ joint,   c = clip(σ(f) * c + σ(i) * tanh(j)),   h = clip((σ(o) * tanh(c)) @ projection)

Launching these one by one takes a CPU longer than a GPU needs to run them. So a few steps are captured together, and
the state stays in place from one such window to the next: a graph for each number of rows, which is rounded, reads any
number of steps. Rows that have ended are left out where a window begins. All graphs share one piece of memory.

Rows may also hold several sentences, one after another, each read from the same state (`run_packed`). Matrix products
may round a row differently when there are more or fewer rows; where every window is to have as many, always
(`fixed_rows`), a row has the same bits whatever is read beside it.

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

from elmore.devices import send
from elmore.kernels.recurrence import Clips, HiddenState, LstmWeights, Recurrence, rows_at_each_step

WINDOWS = (16, 4)  # steps that are captured together; the shorter window for what is left in the end
FEWEST_ROWS = 32
SPARE_MEMORY = 2**30  # more than a window needs while it is captured


class StepRows(NamedTuple):
    """What the rows of a window are about to do."""

    lengths: Tensor  # (R,) how many steps each has left when the window begins
    starts: Tensor | None  # (G, S + 1, R) not 0 where a sentence starts, the first step of the next window included
    start_h: Tensor  # (G, P) what sentences start from
    start_c: Tensor  # (G, D)


class OutputPlaces(NamedTuple):
    """Where the output (G, R, P) of a step goes."""

    following: Tensor  # what the next step reads
    outputs: Tensor  # zero for rows that have ended
    last: Tensor  # kept of the last step of each row


class ReadingCell(Protocol):
    """The pointwise functions of a step: `TORCH_READING_CELL` here, and `triton_reading_cell` on a GPU."""

    def update(self, z: Tensor, bias: Tensor, c: Tensor, rows: StepRows, step: int, *, clip: float) -> Tensor:
        """From z (G, R, 4D) change c (G, R, D), of rows that have not ended, and return m = σ(o) * tanh(c)."""

    def give(self, projected: Tensor, places: OutputPlaces, rows: StepRows, step: int, *, clip: float) -> None:
        """Write what lies within the bounds to all places where it is wanted."""


class JointWeights(NamedTuple):
    """The weights of a layer as this loop multiplies them, with the graphs that were made of them."""

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
    memory: "_Memory"  # which it reads and writes
    graph: "torch.cuda.CUDAGraph | None"  # None: it has been run once, and comes to be captured the next time


def captured_recurrence(cell: ReadingCell) -> Recurrence:
    """The recurrence over these pointwise functions; without a GPU the loop runs as it is."""
    reading = _CapturedReading(cell)
    return Recurrence(reading.prepare, reading.run, run_packed=reading.run_packed)


def prepare(weights: LstmWeights, dtype: torch.dtype) -> JointWeights:
    """Input and recurrent weights below each other."""
    joint = torch.cat([weights.input, weights.recurrent], dim=1).to(dtype)
    projection = None if weights.projection is None else weights.projection.to(dtype)
    return JointWeights(joint, weights.bias.contiguous(), projection, weights.clips, {})


class _CapturedReading:
    def __init__(self, cell: ReadingCell) -> None:
        self._cell = cell
        # As long as a graph needs it, and so no longer than the last model of these sizes; models of one size share it,
        # in turns too. For 2048 rows of the original model that is a quarter of a GiB in bfloat16, and half in float32.
        self._memory: WeakValueDictionary[tuple[object, ...], _Memory] = WeakValueDictionary()
        self._lock = Lock()  # the memory is one caller's at a time

    def prepare(self, weights: LstmWeights, dtype: torch.dtype) -> JointWeights:
        """A method, so that every recurrence has its own: graphs of one may round differently from those of another."""
        return prepare(weights, dtype)

    def run(
        self,
        weights: JointWeights,
        inputs: Tensor,  # (G, T, B, P)
        lengths: Sequence[int],
        state: HiddenState,
    ) -> tuple[Tensor, HiddenState]:
        """Read every row to its own end; see `Recurrence`."""
        h, c = state
        if len(lengths) == 0:
            return inputs.to(weights.joint.dtype), (h, c)
        with self._lock:
            memory = self._memory_for(weights, inputs, c)
            with memory.in_order():
                memory.start_rows(lengths, h, c)
                outputs = self._read(weights, memory, inputs, lengths, None)
                rows = len(lengths)
                return outputs, (memory.last_h[:, :rows].clone(), memory.c[:, :rows].clone())

    def run_packed(
        self,
        weights: JointWeights,
        inputs: Tensor,
        lengths: Sequence[int],
        start: HiddenState,
        starts: Tensor,
        fixed_rows: int | None = None,
    ) -> Tensor:
        """Read rows of several sentences; see `Recurrence`."""
        h, c = start  # (G, 1, P) and (G, 1, D)
        if len(lengths) == 0:
            return inputs.to(weights.joint.dtype)
        with self._lock:
            memory = self._memory_for(weights, inputs, c, rows=fixed_rows)
            with memory.in_order():
                rows = len(lengths)
                memory.start_rows(lengths, h.expand(-1, rows, -1), None)
                memory.start_h.copy_(h[:, 0])
                memory.start_c.copy_(c[:, 0])
                padded = pad(starts, (0, 0, 0, max(WINDOWS) + 1))
                return self._read(weights, memory, inputs, lengths, padded, fixed_rows)

    def _memory_for(self, weights: JointWeights, inputs: Tensor, c: Tensor, rows: int | None = None) -> "_Memory":
        """Memory for as many rows; one that grows moves, and graphs that knew the old one are made anew."""
        directions, _, given, vector = inputs.shape
        rows = max(given, rows or 0)
        sizes = _Sizes(directions, vector, c.shape[-1])
        key = (inputs.device, weights.joint.dtype, c.dtype, sizes)
        memory = self._memory.get(key)
        if memory is None or memory.rows < rows:
            self._memory[key] = memory = _Memory(rounded_rows(rows), sizes, weights.joint, c)
        return memory

    def _read(
        self,
        weights: JointWeights,
        memory: "_Memory",
        inputs: Tensor,
        lengths: Sequence[int],
        starts: Tensor | None,
        fixed_rows: int | None = None,
    ) -> Tensor:
        steps = inputs.shape[1]
        active = rows_at_each_step(lengths, steps)
        outputs = torch.zeros(inputs.shape, dtype=weights.joint.dtype, device=inputs.device)
        for first, size in _windows(steps):
            if not (n := active[first]):
                break
            rows = min(rounded_rows(n), memory.rows) if fixed_rows is None else max(fixed_rows, n)
            window = _Window(size, rows, starts is not None)
            x = inputs[:, first : first + size, :n]
            memory.joint_inputs[:, : x.shape[1], :n, : x.shape[3]] = x
            if starts is not None:
                memory.starts[:, : size + 1, :n] = starts[:, first : first + size + 1, :n]
            self._run_window(weights, window, memory)
            outputs[:, first : first + size, :n] = memory.outputs[:, : x.shape[1], :n]
        return outputs

    def _run_window(self, weights: JointWeights, window: _Window, memory: "_Memory") -> None:
        if not memory.joint_inputs.is_cuda:
            self._loop(weights, window, memory)
            return
        captured = weights.graphs.get(window)
        if captured is None or captured.memory is not memory:
            for other in [one for one, old in weights.graphs.items() if old.memory is not memory]:
                del weights.graphs[other]
            # Once as it is, while libraries set themselves up.
            self._loop(weights, window, memory)
            weights.graphs[window] = _Captured(memory, None)
            return
        graph = captured.graph
        if graph is None:
            graph = torch.cuda.CUDAGraph()
            with _capturing(graph, memory):
                self._loop(weights, window, memory)
            weights.graphs[window] = _Captured(memory, graph)
        graph.replay()

    def _loop(self, weights: JointWeights, window: _Window, memory: "_Memory") -> None:
        steps, rows, packed = window
        cell_clip = math.inf if weights.clips.cell is None else weights.clips.cell
        h_clip = math.inf if weights.clips.projection is None else weights.clips.projection
        joint_inputs, outputs = memory.joint_inputs[:, :, :rows], memory.outputs[:, :, :rows]
        c, last = memory.c[:, :rows], memory.last_h[:, :rows]
        starts = memory.starts[:, :, :rows] if packed else None
        coming = StepRows(memory.lengths[:rows], starts, memory.start_h, memory.start_c)
        vector = outputs.shape[3]
        for step in range(steps):
            z = torch.bmm(joint_inputs[:, step], weights.joint)
            m = self._cell.update(z, weights.bias, c, coming, step, clip=cell_clip)
            projected = m if weights.projection is None else torch.bmm(m, weights.projection)
            # The last step writes to where the first one of the next window reads.
            following = joint_inputs[:, (step + 1) % steps, :, vector:]
            places = OutputPlaces(following, outputs[:, step], last)
            self._cell.give(projected, places, coming, step, clip=math.inf if weights.projection is None else h_clip)
        coming.lengths.sub_(steps)


class _Sizes(NamedTuple):
    directions: int
    vector: int
    cells: int


class _Memory:
    """What a loop reads and writes, for up to so many rows; one caller's at a time."""

    def __init__(self, rows: int, sizes: _Sizes, like: Tensor, c: Tensor) -> None:
        directions, vector, cells = sizes
        longest = max(WINDOWS)
        device = like.device
        self.rows = rows
        # Zeros, because whatever stands in rows that nobody reads is multiplied all the same.
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
        self._pool: Any = None  # torch has no name for what a handle is
        self._graphs: WeakSet[torch.cuda.CUDAGraph] = WeakSet()
        self._free = torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def pool_of(self, graph: "torch.cuda.CUDAGraph") -> Any:
        """Where a graph that is captured now keeps what it makes on its way: with the others of this memory."""
        if self._pool is None or not self._graphs:
            # A pool goes with the last of its graphs, and cannot be entered any more.
            self._pool = torch.cuda.graph_pool_handle()
        self._graphs.add(graph)
        return self._pool

    def start_rows(self, lengths: Sequence[int], h: Tensor, c: Tensor | None) -> None:
        """Put rows before their first step; those beyond the last have nothing to read."""
        rows, vector = len(lengths), h.shape[2]
        left = torch.zeros(self.rows, dtype=torch.int32)
        left[:rows] = torch.as_tensor(lengths, dtype=torch.int32)
        self.lengths.copy_(send(left, self.lengths.device))
        self.joint_inputs[:, 0, :rows, vector:] = h
        self.last_h[:, :rows] = h
        if c is not None:
            self.c[:, :rows] = c

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """Around all that uses it: work on another stream of the same GPU waits."""
        if self._free is None:
            yield
            return
        device = self.joint_inputs.device
        with torch.cuda.device(device):
            self._free.wait(torch.cuda.current_stream(device))
            yield
            self._free.record(torch.cuda.current_stream(device))


@contextmanager
def _capturing(graph: "torch.cuda.CUDAGraph", memory: "_Memory") -> Iterator[None]:
    """Around what is captured. Not by `torch.cuda.graph`, which gives all free memory back first, to fetch it again."""
    # The GPU is not waited for: it goes on with what it was given, and the graph comes after that.
    device = memory.joint_inputs.device
    free, _ = torch.cuda.mem_get_info(device)
    if free < SPARE_MEMORY:
        torch.cuda.empty_cache()  # which cannot be done any more while a graph is captured
    with torch.cuda.stream(_capture_stream(device)):
        # Other threads may go on with what they do on this GPU.
        graph.capture_begin(pool=memory.pool_of(graph), capture_error_mode="thread_local")
        try:
            yield
        except BaseException:
            with suppress(RuntimeError):  # that of a capture that went wrong; why is known
                graph.capture_end()
            raise
        graph.capture_end()


@cache
def _capture_stream(device: torch.device) -> "torch.cuda.Stream":
    """Always the same: to every stream belongs a workspace for matrix products."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def rounded_rows(rows: int) -> int:
    """A number of rows that is not much larger, of which there are few: for each two graphs are captured for a layer.

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


class _TorchReadingCell:
    """In plain torch, for any kind of number."""

    def update(self, z: Tensor, bias: Tensor, c: Tensor, rows: StepRows, step: int, *, clip: float) -> Tensor:
        before = c
        if rows.starts is not None:
            before = torch.where(rows.starts[:, step, :, None] != 0, rows.start_c[:, None], c)
        i, j, f, o = (z.to(c.dtype) + bias[:, None]).chunk(4, dim=-1)
        new = (torch.sigmoid(f) * before + torch.sigmoid(i) * torch.tanh(j)).clamp(-clip, clip)
        c.copy_(torch.where((rows.lengths > step)[:, None], new, c))
        return (torch.sigmoid(o) * torch.tanh(new)).to(z.dtype)

    def give(self, projected: Tensor, places: OutputPlaces, rows: StepRows, step: int, *, clip: float) -> None:
        h = projected.clamp(-clip, clip)
        places.outputs.copy_(h.masked_fill((rows.lengths <= step)[:, None], 0))
        places.last.copy_(torch.where((rows.lengths == step + 1)[:, None], h, places.last))
        if rows.starts is not None:
            h = torch.where(rows.starts[:, step + 1, :, None] != 0, rows.start_h[:, None], h)
        places.following.copy_(h)


TORCH_READING_CELL: ReadingCell = _TorchReadingCell()
