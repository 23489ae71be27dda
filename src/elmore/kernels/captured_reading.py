"""The recurrence for reading on a GPU: a loop without gradients, captured as a CUDA graph and replayed.

A step is two matrix products and two pointwise functions. Input and last output stand side by side, so that one product
serves both, and what a step gives is written straight to where the next one reads it:

    z = [x, h] @ joint,   c = clip(σ(f) * c + σ(i) * tanh(j)),   h = clip((σ(o) * tanh(c)) @ projection)

Launching these one by one takes a CPU longer than a GPU needs to run them. So a size that comes a second time is
captured: steps and rows are rounded up, all sizes share one piece of memory, and a graph is launched as a whole.

G directions, T steps, B rows, P vector size, D cells.
"""

import math
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from elmore.kernels.recurrence import Clips, HiddenState, LstmWeights, Recurrence

LONGEST_CAPTURED = 512  # steps; a graph of more would take longer to make than it saves
ROWS_TOGETHER = 32  # rows are rounded up to whole groups


class ReadingCell(Protocol):
    """The pointwise functions of a step: `TORCH_READING_CELL` here, and `triton_reading_cell` on a GPU."""

    def update(self, z: Tensor, bias: Tensor, c: Tensor, lengths: Tensor, step: int, *, clip: float) -> Tensor:
        """From z (G, B, 4D) change c (G, B, D), of rows that have not ended, and return m = σ(o) * tanh(c)."""

    def give(self, projected: Tensor, places: "OutputPlaces", lengths: Tensor, step: int, *, clip: float) -> None:
        """Write what lies within the bounds to all places where it is wanted."""


class OutputPlaces(NamedTuple):
    """Where the output (G, B, P) of a step goes."""

    following: Tensor  # what the next step reads
    outputs: Tensor  # zero for rows that have ended
    last: Tensor  # kept of the last step of each row


class JointWeights(NamedTuple):
    """The weights of a layer as this loop multiplies them, with the graphs that were made of them."""

    joint: Tensor  # (G, 2P, 4D)
    bias: Tensor  # (G, 4D)
    projection: Tensor | None  # (G, D, P)
    clips: Clips
    seen: set["_Size"]
    graphs: dict["_Size", "torch.cuda.CUDAGraph"]


class _Size(NamedTuple):
    steps: int
    rows: int


class _Space(NamedTuple):
    """What a loop reads and writes, as views of memory that loops of all sizes share."""

    joint_inputs: Tensor  # (G, T + 1, B, 2P) x and the h before it; the last place has an h alone
    outputs: Tensor  # (G, T, B, P)
    c: Tensor  # (G, B, D)
    last_h: Tensor  # (G, B, P)
    lengths: Tensor  # (B,)


def captured_recurrence(cell: ReadingCell) -> Recurrence:
    """The recurrence over these pointwise functions; without a GPU the loop runs as it is."""
    reading = _CapturedReading(cell)
    return Recurrence(prepare, reading.run)


def prepare(weights: LstmWeights, dtype: torch.dtype) -> JointWeights:
    """Input and recurrent weights below each other."""
    joint = torch.cat([weights.input, weights.recurrent], dim=1).to(dtype)
    projection = None if weights.projection is None else weights.projection.to(dtype)
    return JointWeights(joint, weights.bias.contiguous(), projection, weights.clips, set(), {})


class _CapturedReading:
    def __init__(self, cell: ReadingCell) -> None:
        self._cell = cell
        self._memory: dict[tuple[torch.device, torch.dtype], _Memory] = {}
        self._lock = Lock()  # the memory is one caller's at a time

    def run(
        self,
        weights: JointWeights,
        inputs: Tensor,  # (G, T, B, P)
        lengths: Sequence[int],
        state: HiddenState,
    ) -> tuple[Tensor, HiddenState]:
        """Read every row to its own end; see `Recurrence`."""
        directions, steps, rows, size = inputs.shape
        h, c = state
        if rows == 0:
            return inputs.to(weights.joint.dtype), (h, c)
        can_capture = inputs.is_cuda and steps <= LONGEST_CAPTURED
        rounded = _Size(rounded_steps(steps), -(-rows // ROWS_TOGETHER) * ROWS_TOGETHER)
        exact = _Size(steps, rows)
        with self._lock:
            memory = self._memory_for(weights, inputs.device, c.dtype)
            space = memory.space(rounded if can_capture else exact, directions, size, c.shape[2])
            _fill(space, inputs, lengths, h, c)
            if can_capture:
                self._replay(weights, rounded, space, memory)
            else:
                self._loop(weights, space)
            outputs = space.outputs[:, :steps, :rows].clone()
            return outputs, (space.last_h[:, :rows].clone(), space.c[:, :rows].clone())

    def _memory_for(self, weights: JointWeights, device: torch.device, cells: torch.dtype) -> "_Memory":
        key = (device, weights.joint.dtype)
        if key not in self._memory:
            self._memory[key] = _Memory(device, weights.joint.dtype, cells)
        return self._memory[key]

    def _replay(self, weights: JointWeights, size: _Size, space: _Space, memory: "_Memory") -> None:
        if memory.is_new_to(weights):
            # Its graphs know other addresses.
            weights.graphs.clear()
        if graph := weights.graphs.get(size):
            graph.replay()
            return
        # Once as it is: for a size that comes but once nothing is captured, and libraries have set themselves up.
        self._loop(weights, space)
        if size not in weights.seen:
            weights.seen.add(size)
            return
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=memory.pool):
            self._loop(weights, space)
        weights.graphs[size] = graph

    def _loop(self, weights: JointWeights, space: _Space) -> None:
        cell_clip = math.inf if weights.clips.cell is None else weights.clips.cell
        h_clip = math.inf if weights.clips.projection is None else weights.clips.projection
        vector = space.outputs.shape[3]
        for step in range(space.outputs.shape[1]):
            z = torch.bmm(space.joint_inputs[:, step], weights.joint)
            m = self._cell.update(z, weights.bias, space.c, space.lengths, step, clip=cell_clip)
            projected = m if weights.projection is None else torch.bmm(m, weights.projection)
            following = space.joint_inputs[:, step + 1, :, vector:]
            places = OutputPlaces(following, space.outputs[:, step], space.last_h)
            clip = math.inf if weights.projection is None else h_clip
            self._cell.give(projected, places, space.lengths, step, clip=clip)


class _Memory:
    """Memory of one device and kind of number, for loops of every size, one at a time."""

    def __init__(self, device: torch.device, dtype: torch.dtype, cells: torch.dtype) -> None:
        self._device, self._dtype, self._cells = device, dtype, cells
        self._parts: dict[str, Tensor] = {}
        self._generation = 0  # how often it has grown, which moves it
        self._known: dict[int, int] = {}  # which generation the graphs of some weights belong to
        self.pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def space(self, size: _Size, directions: int, vector: int, cells: int) -> _Space:
        """Views for a loop of this size; what they hold is whatever was there."""
        steps, rows = size
        return _Space(
            self._view("joint_inputs", self._dtype, directions, steps + 1, rows, 2 * vector),
            self._view("outputs", self._dtype, directions, steps, rows, vector),
            self._view("c", self._cells, directions, rows, cells),
            self._view("last_h", self._dtype, directions, rows, vector),
            self._view("lengths", torch.int32, rows),
        )

    def is_new_to(self, weights: JointWeights) -> bool:
        """Whether the memory has moved since it was last asked about these weights."""
        known = self._known.get(id(weights.graphs))
        self._known[id(weights.graphs)] = self._generation
        return known is not None and known != self._generation

    def _view(self, name: str, dtype: torch.dtype, *shape: int) -> Tensor:
        needed = math.prod(shape)
        part = self._parts.get(name)
        if part is None or part.numel() < needed:
            # Zeros, because whatever stands in rows that nobody reads is multiplied all the same.
            with torch.inference_mode(mode=False):
                part = self._parts[name] = torch.zeros(needed, dtype=dtype, device=self._device)
            self._generation += 1
        return part[:needed].view(shape)


def rounded_steps(steps: int) -> int:
    """A number of steps that is not much larger, of which there are few.

    >>> [rounded_steps(steps) for steps in (7, 32, 33, 65, 130, 511)]
    [7, 32, 36, 72, 144, 512]
    """
    unit = 1
    while steps > 32 * unit:
        unit *= 2
    unit = unit if unit == 1 else 2 * unit
    return -(-steps // unit) * unit


def _fill(space: _Space, inputs: Tensor, lengths: Sequence[int], h: Tensor, c: Tensor) -> None:
    _, steps, rows, vector = inputs.shape
    space.joint_inputs[:, :steps, :rows, :vector] = inputs
    space.joint_inputs[:, 0, :rows, vector:] = h
    space.c[:, :rows] = c
    space.last_h[:, :rows] = h
    space.lengths[:rows] = torch.tensor(lengths, dtype=torch.int32)


class _TorchReadingCell:
    """In plain torch, for any kind of number."""

    def update(self, z: Tensor, bias: Tensor, c: Tensor, lengths: Tensor, step: int, *, clip: float) -> Tensor:
        i, j, f, o = (z.to(c.dtype) + bias[:, None]).chunk(4, dim=-1)
        new = (torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j)).clamp(-clip, clip)
        torch.where((lengths > step)[:, None], new, c, out=c)
        return (torch.sigmoid(o) * torch.tanh(new)).to(z.dtype)

    def give(self, projected: Tensor, places: OutputPlaces, lengths: Tensor, step: int, *, clip: float) -> None:
        h = projected.clamp(-clip, clip)
        places.following.copy_(h)
        places.outputs.copy_(h.masked_fill((lengths <= step)[:, None], 0))
        torch.where((lengths == step + 1)[:, None], h, places.last, out=places.last)


TORCH_READING_CELL: ReadingCell = _TorchReadingCell()
