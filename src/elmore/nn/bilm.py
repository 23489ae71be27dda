"""The bidirectional language model of Peters et al., 2018, "Deep contextualized word representations", as a module.

Word vectors go into a stack of LSTM layers for each direction. The two directions share the word encoder and have
nothing else in common. From the second layer on, a skip connection adds a layer's input to its output, but not to what
the recurrence carries on.

W distinct words, G directions, B sentences, T steps or positions, P vector size, D cells, dim = G * P.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import dropout as drop_out

from elmore.config import Direction, ModelConfig
from elmore.display import html_table, pluralize
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
        """The newer state for as many rows as it has, this state for the others."""
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

    def forward(
        self, ids: WordIds, rows: PackedRows, state: StateTensors, *, depth: int | None = None
    ) -> tuple["LayerTensors", StateTensors]:
        """Run sentences over the distinct words with these ids; see `run`."""
        return self.run(self.words(ids), rows, state, depth=depth)

    def run(
        self,
        vectors: Tensor,  # (W, P) of distinct words
        rows: PackedRows,
        state: StateTensors,
        *,
        depth: int | None = None,
    ) -> tuple["LayerTensors", StateTensors]:
        """Run one sentence in each row, each from the row of the state with its number.

        Only the first `depth` LSTM layers run. The state after each sentence is returned.
        """
        if not rows.carried:
            raise InputError("the rows contain several sentences each; make them with PackedRows.one_per_row")
        if state.rows != rows.num_rows:
            raise InputError(
                f"the state has {state.rows} rows and the batch {rows.num_rows} sentences; repeat one row for all "
                "with state.repeat(n), or take the first with state.first(n)"
            )
        names = self.config.direction_names
        kernels = self.kernels(vectors)
        # A backward direction reads each row from its end: the steps of all directions run side by side.
        steps = rows.steps(names)
        x = gather_vectors(vectors, send(torch.from_numpy(steps.words), vectors.device))  # (G, T, B, P)
        row_of = rows.packing.rows
        start = state.select(np.argsort(row_of))
        outputs, after = self.run_lstm(x, steps.lengths.tolist(), start, depth=depth, kernels=kernels)
        return LayerTensors(rows, vectors, outputs, directions=names), after.select(row_of)

    def kernels(self, x: Tensor) -> Kernels:
        """The kernels for x."""
        return choose_kernels(x.device, compute_dtype(x), name=self.kernel_name)

    def run_lstm(
        self,
        x: Tensor,  # (G, T, B, P) each direction in its own reading order
        lengths: Sequence[int],  # (B,) never increasing
        state: StateTensors,
        *,
        depth: int | None = None,
        dropout: float = 0.0,  # on the input of every layer
        kernels: Kernels | None = None,
    ) -> tuple[list[Tensor], StateTensors]:
        """The outputs (G, T, B, P) of the first `depth` LSTM layers, and the state after them."""
        kernels = kernels or self.kernels(x)
        outputs: list[Tensor] = []
        ends: list[HiddenTensors] = []
        for number, module in enumerate(islice(self.lstm, depth)):
            layer = cast("LstmLayer", module)  # the items of a ModuleList have no type
            if dropout > 0:
                x = drop_out(x, dropout)
            y, end = layer(x, lengths, (state.h[number], state.c[number]), kernel=kernels.lstm)
            # The skip connection adds the input as it was after dropout.
            x = x + y if self.config.skip_connections and number > 0 else y
            outputs.append(x)
            ends.append(end)
        rest = range(len(ends), self.config.lstm_layers)
        after = StateTensors(
            torch.stack([h for h, _ in ends] + [state.h[k] for k in rest]),
            torch.stack([c for _, c in ends] + [state.c[k] for k in rest]),
        )
        return outputs, after


def gather_vectors(table: Tensor, words: Tensor) -> Tensor:
    """(G, T, R, P) the rows of a table (W, P) for words (G, T, R)."""
    return table.index_select(0, words.flatten()).view(*words.shape, table.shape[1])


class LayerTensors:
    """The layers h0..hL of a batch, padded, in the caller's order, zero beyond the end of a sentence.

    Layer 0 is the word vector, once for each direction, so that all layers have one size. Layer k is the output of LSTM
    layer k of each direction, forward first.
    """

    def __init__(
        self, rows: PackedRows, vectors: Tensor, outputs: Sequence[Tensor], *, directions: Sequence[Direction]
    ) -> None:
        self._rows = rows
        self._vectors = vectors  # (W, P)
        self._outputs = outputs  # of each LSTM layer (G, steps, R, P), each direction in its own reading order
        self._directions = directions

    def __len__(self) -> int:
        return 1 + len(self._outputs)

    def __repr__(self) -> str:
        sentences, words = pluralize(len(self.lengths), "sentence"), pluralize(sum(self.lengths), "word")
        return f"LayerTensors({pluralize(len(self), 'layer')} of {sentences}, {words}, dim={self._dim})"

    def _repr_html_(self) -> str:
        facts = {"layers": len(self), "sentences": len(self.lengths), "words": sum(self.lengths)}
        return html_table("Layers", {**facts, "dim": self._dim, "device": self._vectors.device})

    @cached_property
    def lengths(self) -> list[int]:
        """The number of words of each sentence, boundaries not counted."""
        lengths: list[int] = self._rows.lengths.tolist()
        return lengths

    def mask(self, *, boundaries: bool = False) -> Tensor:
        """(B, T) true where a sentence has a word; T is two more with boundaries."""
        return self._mask if boundaries else self._mask_of_words

    def layer(self, number: int, *, boundaries: bool = False) -> Tensor:
        """(B, T, dim) one layer."""
        if not 0 <= number < len(self):
            raise InputError(f"there is no layer {number}; there are layers 0 to {len(self) - 1}")
        if number == 0:
            x = _gathered(self._vectors, self._words).repeat(1, 1, len(self._directions))
        else:
            outputs = zip(self._outputs[number - 1], self._positions, strict=True)
            x = torch.cat([_gathered(y.flatten(0, 1), positions) for y, positions in outputs], dim=-1)
        if not boundaries:
            x = x[:, 1:-1]
        return x * self.mask(boundaries=boundaries)[..., None]

    def stack(self, numbers: Sequence[int] | None = None, *, boundaries: bool = False) -> Tensor:
        """(layers, B, T, dim) several layers, all by default."""
        selected = range(len(self)) if numbers is None else numbers
        return torch.stack([self.layer(number, boundaries=boundaries) for number in selected])

    @property
    def _dim(self) -> int:
        return len(self._directions) * self._vectors.shape[1]

    # Computed once and not for each layer: for a single sentence they take as long as the LSTM.

    @cached_property
    def _mask(self) -> Tensor:
        return self._sent(padding_mask(self._rows.lengths, boundaries=True))

    @cached_property
    def _mask_of_words(self) -> Tensor:
        return self._sent(padding_mask(self._rows.lengths))

    @cached_property
    def _words(self) -> Tensor:
        """(B, T) the word at each position."""
        return self._sent(self._padded(self._rows.words_with_boundaries()))

    @cached_property
    def _positions(self) -> list[Tensor]:
        """For each direction (B, T) where it reads each position, in (steps, R) flattened."""
        return [self._sent(self._padded(self._rows.positions(name, boundaries=True))) for name in self._directions]

    def _padded(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """(B, T) one number for each word and boundary; 0 beyond the end of a sentence."""
        mask = padding_mask(self._rows.lengths, boundaries=True)
        padded = np.zeros(mask.shape, dtype=np.int64)
        padded[mask] = numbers
        return padded

    def _sent(self, array: NDArray[np.generic]) -> Tensor:
        return send(torch.from_numpy(array), self._vectors.device)


def padding_mask(lengths: NDArray[np.int64], *, boundaries: bool = False) -> NDArray[np.bool_]:
    """(B, T) true up to each length, and for two more positions with boundaries.

    >>> padding_mask(np.array([1, 3])).tolist()
    [[True, False, False], [True, True, True]]
    """
    more = 2 if boundaries else 0
    mask: NDArray[np.bool_] = np.arange(lengths.max(initial=0) + more) < (lengths + more)[:, None]
    return mask


def _gathered(x: Tensor, indices: Tensor) -> Tensor:  # (N, P), (B, T) -> (B, T, P)
    return x.index_select(0, indices.flatten()).view(*indices.shape, x.shape[1])
