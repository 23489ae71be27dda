"""The bidirectional language model of Peters et al., 2018, "Deep contextualized word representations", as a module.

Word vectors go into a stack of LSTM layers for each direction. The two directions share the word encoder only. From the
second layer on, a skip connection adds a layer's input to its output, but not to the h of its next step.

W distinct words, G directions, B sentences, T steps or positions, P vector size, D cells, dim = G * P.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import dropout as drop_out

from elmore.config import ModelConfig
from elmore.engine.rows import PackedRows
from elmore.engine.state import State
from elmore.engine.weights import Clips, as_float
from elmore.errors import InputError
from elmore.formats.checkpoint import Checkpoint
from elmore.nn.devices import as_tensor, compute_dtype, send
from elmore.nn.kernels import Kernels, choose_kernels
from elmore.nn.recurrence import HiddenTensors, LstmKernel, LstmTensors
from elmore.nn.word_encoder import WordEncoder
from elmore.text.word_ids import WordIds


@dataclass(frozen=True)
class StateTensors:
    """`elmore.engine.state.State` as tensors: one row for each row of a batch; a start state has one row for all."""

    h: Tensor  # (L, G, R, P)
    c: Tensor  # (L, G, R, D)

    @classmethod
    def zeros(cls, config: ModelConfig, rows: int = 1) -> "StateTensors":
        """The state before any word.

        >>> from elmore.config import SMALL
        >>> StateTensors.zeros(SMALL, rows=3).c.shape
        torch.Size([2, 2, 3, 1024])
        """
        return cls.of(State.zeros(config, rows))

    @classmethod
    def of(cls, state: State) -> "StateTensors":
        """A state of NumPy arrays as tensors on the CPU."""
        return cls(as_tensor(state.h), as_tensor(state.c))

    @property
    def rows(self) -> int:
        return self.h.shape[2]

    def repeat(self, rows: int) -> "StateTensors":
        """The one row of a start state, for every row of a batch."""
        return StateTensors(self.h.expand(-1, -1, rows, -1), self.c.expand(-1, -1, rows, -1))

    def select(self, rows: NDArray[np.int64]) -> "StateTensors":
        """These rows, in this order."""
        indices = send(torch.from_numpy(rows), self.h.device)
        return StateTensors(self.h.index_select(2, indices), self.c.index_select(2, indices))

    def first(self, rows: int) -> "StateTensors":
        """The first rows; rows of zeros are added where there are fewer."""
        missing = max(0, rows - self.rows)
        pad = torch.nn.functional.pad
        return StateTensors(*(pad(part[:, :, :rows], (0, 0, 0, missing)) for part in (self.h, self.c)))

    def updated(self, newer: "StateTensors") -> "StateTensors":
        """The newer state for its rows, this state for all further rows."""
        return StateTensors(
            torch.cat([newer.h, self.h[:, :, newer.rows :]], dim=2),
            torch.cat([newer.c, self.c[:, :, newer.rows :]], dim=2),
        )

    def detach(self) -> "StateTensors":
        """The same values, through which no gradient flows."""
        return StateTensors(self.h.detach(), self.c.detach())

    def to(self, where: torch.device | str | torch.dtype) -> "StateTensors":
        """On another device, or in another number type."""
        return StateTensors(self.h.to(where), self.c.to(where))


class LstmLayer(nn.Module):
    """One LSTM layer with projection and clips, all directions side by side."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        directions, vector, cell = config.num_directions, config.vector_dim, config.cell_dim
        self.input = nn.Parameter(torch.empty(directions, vector, 4 * cell))
        self.recurrent = nn.Parameter(torch.empty(directions, vector, 4 * cell))
        self.bias = nn.Parameter(torch.empty(directions, 4 * cell))
        self.projection = nn.Parameter(torch.empty(directions, cell, vector)) if config.lstm_projection else None
        self.forget_bias = config.forget_bias
        self.clips = Clips(config.cell_clip, config.projection_clip)

    def forward(
        self, x: Tensor, lengths: Sequence[int], state: HiddenTensors, *, kernel: LstmKernel
    ) -> tuple[Tensor, HiddenTensors]:  # (G, T, B, P) -> (G, T, B, P)
        # Weights may change between passes, so each pass prepares them.
        return kernel.run(kernel.prepare(self.weights(), compute_dtype(x)), x, lengths, state)

    def weights(self) -> LstmTensors:
        """The weights for a kernel, forget bias included."""
        i, j, f, o = self.bias.chunk(4, dim=-1)
        bias = torch.cat([i, j, f + self.forget_bias, o], dim=-1)
        return LstmTensors(self.input, self.recurrent, bias, self.projection, self.clips)


class BiLM(nn.Module):
    """Words and a state in, layers and the next state out, with gradients.

    Kernels are chosen for each pass; `use_kernels` selects some by name.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.kernel_name: str | None = None
        self.words = WordEncoder(config)
        self.lstm = nn.ModuleList(LstmLayer(config) for _ in range(config.lstm_layers))

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        """The network of a checkpoint, frozen, with a copy of its weights."""
        # Built without memory, so that loading takes one copy of the weights and no random numbers.
        with torch.device("meta"):
            network = cls(checkpoint.config)
        tensors = {name: torch.tensor(as_float(array)) for name, array in checkpoint.tensors.items()}
        network.load_state_dict(tensors, assign=True)
        return network.eval().requires_grad_(requires_grad=False)

    def use_kernels(self, name: str | None) -> None:
        """Run the kernels of this name, such as "reference"; None leaves the choice to the network."""
        self.kernel_name = self.words.kernel_name = name

    def forward(self, ids: WordIds, rows: PackedRows, state: StateTensors) -> tuple[Tensor, StateTensors]:
        """Run sentences over the distinct words with these ids; see `run`."""
        return self.run(self.words(ids), rows, state)

    def run(self, vectors: Tensor, rows: PackedRows, state: StateTensors) -> tuple[Tensor, StateTensors]:
        """Run one sentence in each row over the vectors (W, P) of distinct words.

        The result is all layers (L + 1, B, T + 2, dim) in the caller's order, with boundaries, zero beyond the end of a
        sentence; and the state after each sentence. A sentence starts from the row of the state with its number.
        """
        if not rows.carried:
            raise InputError("the rows contain several sentences each; make them with PackedRows.one_per_row")
        if state.rows != rows.num_rows:
            raise InputError(
                f"the state has {state.rows} rows and the batch {rows.num_rows} sentences; repeat one row for all "
                "with state.repeat(n), or take the first with state.first(n)"
            )
        # A backward direction reads each row from its end: the steps of all directions run side by side.
        steps = rows.steps(self.config.direction_names)
        x = gather_vectors(vectors, send(torch.from_numpy(steps.words), vectors.device))  # (G, T, B, P)
        row_of = rows.packing.rows
        outputs, after = self.run_lstm(x, steps.lengths.tolist(), state.select(np.argsort(row_of)))
        return self._layers(rows, vectors, outputs), after.select(row_of)

    def run_lstm(
        self,
        x: Tensor,  # (G, T, B, P) each direction in its reading order
        lengths: Sequence[int],  # (B,) never increasing
        state: StateTensors,
        *,
        dropout: float = 0.0,  # on the input of every layer
        kernels: Kernels | None = None,
    ) -> tuple[list[Tensor], StateTensors]:
        """The outputs (G, T, B, P) of all LSTM layers, and the state after them."""
        kernels = kernels or choose_kernels(x.device, compute_dtype(x), name=self.kernel_name)
        outputs: list[Tensor] = []
        ends: list[HiddenTensors] = []
        for number, module in enumerate(self.lstm):
            layer = cast("LstmLayer", module)  # the items of a ModuleList have no type
            if dropout > 0:
                x = drop_out(x, dropout)
            y, end = layer(x, lengths, (state.h[number], state.c[number]), kernel=kernels.lstm)
            # The skip connection adds the input after dropout.
            x = x + y if self.config.skip_connections and number > 0 else y
            outputs.append(x)
            ends.append(end)
        return outputs, StateTensors(*(torch.stack(parts) for parts in zip(*ends, strict=True)))

    def _layers(self, rows: PackedRows, vectors: Tensor, outputs: Sequence[Tensor]) -> Tensor:  # (L + 1, B, T + 2, dim)
        """Layer 0 is the word vector, once for each direction; layer k is the output of LSTM layer k."""
        mask = padding_mask(rows.lengths, boundaries=True)

        def padded(numbers: NDArray[np.int64]) -> Tensor:  # one number for each word and boundary -> (B, T + 2)
            indices = np.zeros(mask.shape, dtype=np.int64)
            indices[mask] = numbers
            return send(torch.from_numpy(indices), vectors.device)

        names = self.config.direction_names
        positions = [padded(rows.positions(name, boundaries=True)) for name in names]  # in (steps, rows) flattened
        layers = [gather_vectors(vectors, padded(rows.words_with_boundaries())).repeat(1, 1, len(names))]
        for output in outputs:
            parts = zip(output, positions, strict=True)
            layers.append(torch.cat([gather_vectors(y.flatten(0, 1), indices) for y, indices in parts], dim=-1))
        return torch.stack(layers) * send(torch.from_numpy(mask), vectors.device)[..., None]


def gather_vectors(table: Tensor, indices: Tensor) -> Tensor:
    """(..., P) the rows of a table (N, P) for indices (...)."""
    return table.index_select(0, indices.flatten()).view(*indices.shape, table.shape[1])


def padding_mask(lengths: NDArray[np.int64], *, boundaries: bool = False) -> NDArray[np.bool_]:
    """(B, T) true up to each length, and for two more positions with boundaries.

    >>> padding_mask(np.array([1, 3])).tolist()
    [[True, False, False], [True, True, True]]
    """
    more = 2 if boundaries else 0
    mask: NDArray[np.bool_] = np.arange(lengths.max(initial=0) + more) < (lengths + more)[:, None]
    return mask
