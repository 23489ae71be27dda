"""The bidirectional language model of Peters et al., 2018, "Deep contextualized word representations".

Word vectors go into a stack of LSTM layers for each direction. The two directions share the word encoder and never
meet inside the stack. From the second layer on, a skip connection adds a layer's input to its output, but not to what
the recurrence carries on.

W distinct words, G directions, B sentences, T positions (boundaries included), P vector size, D cells.
"""

import torch
from torch import Tensor, nn

from elmore.config import ModelConfig
from elmore.errors import InputError
from elmore.kernels import Clips, LstmWeights, recur
from elmore.network.layers import Layers, turned
from elmore.network.state import State
from elmore.network.word_encoder import WordEncoder
from elmore.text.batch import Batch


class LstmLayer(nn.Module):
    """One LSTM layer with projection and clips, all directions side by side."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        directions, vector, cell = config.directions, config.vector_dim, config.cell_dim
        self.input = nn.Parameter(torch.empty(directions, vector, 4 * cell))
        self.recurrent = nn.Parameter(torch.empty(directions, vector, 4 * cell))
        self.bias = nn.Parameter(torch.zeros(directions, 4 * cell))
        self.projection = nn.Parameter(torch.empty(directions, cell, vector)) if config.lstm_projection else None
        self.forget_bias = config.forget_bias
        self.clips = Clips(config.cell_clip, config.projection_clip)
        # Glorot, over input and recurrent part as the one matrix they were in the original code.
        bound = (6 / (2 * vector + 4 * cell)) ** 0.5
        nn.init.uniform_(self.input, -bound, bound)
        nn.init.uniform_(self.recurrent, -bound, bound)
        if self.projection is not None:
            bound = (6 / (cell + vector)) ** 0.5
            nn.init.uniform_(self.projection, -bound, bound)

    def forward(
        self, x: Tensor, lengths: tuple[int, ...], state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:  # (G, B, T, P) -> (G, B, T, P)
        return recur(x, lengths, state, self.weights(), self.clips)

    def weights(self) -> LstmWeights:
        """As the recurrence takes them, the forget bias added."""
        i, j, f, o = self.bias.chunk(4, dim=-1)
        bias = torch.cat([i, j, f + self.forget_bias, o], dim=-1)
        return LstmWeights(self.input, self.recurrent, bias, self.projection)


class BiLM(nn.Module):
    """A batch and a state in, layers and the next state out."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.words = WordEncoder(config)
        self.lstm = nn.ModuleList(LstmLayer(config) for _ in range(config.lstm_layers))

    def forward(self, batch: Batch, state: State, *, depth: int | None = None) -> tuple[Layers, State]:
        """Read the batch, starting from a state whose rows stand in the caller's order."""
        return self.read(self.words(batch.inputs), batch, state, depth=depth)

    def read(self, vectors: Tensor, batch: Batch, state: State, *, depth: int | None = None) -> tuple[Layers, State]:
        """As `forward`, from the vectors (W, P) of the distinct words; only the first `depth` LSTM layers run."""
        if state.rows != len(batch):
            raise InputError(
                f"the state has {state.rows} rows and the batch {len(batch)} sentences; "
                "repeat one row for all with state.repeat(n), or take as many as there are with state.first(n)"
            )
        order, restore = batch.order, batch.restore
        x = vectors[batch.positions]  # (B, T, P)
        # Backward rows are turned round once here, so that every direction reads from left to right all the way up.
        x = torch.stack([turned(x, name, batch.lengths) for name in self.config.direction_names])  # (G, B, T, P)
        outputs, after = self.climb(x, batch.lengths, state.select(order), depth=depth)
        return Layers(batch, vectors, outputs, directions=self.config.direction_names), after.select(restore)

    def climb(
        self, x: Tensor, lengths: tuple[int, ...], state: State, *, depth: int | None = None
    ) -> tuple[list[Tensor], State]:
        """The outputs of each LSTM layer, from inputs (G, B, T, P), each direction in its own reading order."""
        outputs: list[Tensor] = []
        ends: list[tuple[Tensor, Tensor]] = []
        for number, layer in enumerate(self.lstm[:depth]):
            y, end = layer(x, lengths, (state.h[number], state.c[number]))
            x = x + y if self.config.skip_connections and number > 0 else y
            outputs.append(x)
            ends.append(end)
        untouched = range(len(ends), self.config.lstm_layers)
        after = State(
            torch.stack([h for h, _ in ends] + [state.h[k] for k in untouched]),
            torch.stack([c for _, c in ends] + [state.c[k] for k in untouched]),
        )
        return outputs, after
