"""The bidirectional language model of Peters et al., 2018, "Deep contextualized word representations".

Word vectors go into a stack of LSTM layers for each direction. The two directions share the word encoder and never
meet inside the stack. From the second layer on, a skip connection adds a layer's input to its output, but not to what
the recurrence carries on.

W distinct words, G directions, B sentences, T positions (boundaries included), P vector size, D cells.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop_out

from elmore.config import ModelConfig
from elmore.errors import InputError
from elmore.kernels.autocast import compute_dtype
from elmore.kernels.recurrence import Clips, HiddenState, LstmMatrices, LstmWeights, Recurrence
from elmore.kernels.selection import Kernels, kernels_for
from elmore.network.layers import Layers, reading_order
from elmore.network.state import State
from elmore.network.weight_versions import PreparingModule
from elmore.network.word_encoder import WordEncoder
from elmore.text.batch import Batch


class LstmLayer(PreparingModule):
    """One LSTM layer with projection and clips, all directions side by side; `initialization` gives it first values."""

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
        self, x: Tensor, lengths: Sequence[int], state: HiddenState, *, recurrence: Recurrence
    ) -> tuple[Tensor, HiddenState]:  # (G, T, B, P) -> (G, T, B, P)
        return recurrence.run(self.prepared(recurrence, compute_dtype(x)), x, lengths, state)

    def weights(self) -> LstmWeights:
        """As the recurrence reads them, the forget bias added."""
        self.restore_weights()
        i, j, f, o = self.bias.chunk(4, dim=-1)
        bias = torch.cat([i, j, f + self.forget_bias, o], dim=-1)
        return LstmWeights(self.input, self.recurrent, bias, self.projection, self.clips)

    def prepared(self, recurrence: Recurrence, dtype: torch.dtype) -> Any:
        """The weights in the form a recurrence wants, made once and made again when they have changed."""
        restore = recurrence.restore
        return self._prepared.of(
            self,
            (recurrence.prepare, dtype),
            lambda: recurrence.prepare(self.weights(), dtype),
            release=[name for name in LstmMatrices._fields if getattr(self, name) is not None],
            restore=partial(_restored, restore) if restore is not None and self.releases_weights else None,
        )


def _restored(restore: Callable[[Any], LstmMatrices], prepared: Any) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in restore(prepared)._asdict().items() if tensor is not None}


class BiLM(nn.Module):
    """A batch and a state in, layers and the next state out.

    Kernels are chosen for each pass; `use_kernels` asks for some by name.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.kernel_name: str | None = None
        self.words = WordEncoder(config)
        self.lstm = nn.ModuleList(LstmLayer(config) for _ in range(config.lstm_layers))

    def use_kernels(self, name: str | None) -> None:
        """Run the kernels of this name from now on, such as "reference"; None leaves the choice to the network."""
        self.kernel_name = self.words.kernel_name = name

    def release_weights(self, *, release: bool = True) -> None:
        """Let word encoder and LSTM layers give up their matrices for what a kernel makes of them, where it can give
        them back.

        For who only reads: it halves their memory. What needs them, such as `state_dict`, `train` or a pass by other
        kernels, brings them back; who looks at the parameters themselves takes them back first, with `release=False`.
        """
        for module in (self.words, *self.lstm):
            part = cast("PreparingModule", module)
            part.releases_weights = release
            if not release:
                part.restore_weights()

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
        names = self.config.direction_names
        kernels = self.kernels(vectors, state)
        with kernels.settings():
            # Backward rows are turned round once here, so that every direction reads from left to right all the way up.
            indices = batch.word_indices
            turned = [indices.gather(1, reading_order(batch, name)).t() for name in names]
            words = torch.stack(turned)  # (G, T, B)
            x = vectors.index_select(0, words.flatten()).view(*words.shape, vectors.shape[1])
            start = state.select(batch.sorted_indices)
            outputs, after = self.run_lstm(x, batch.lengths, start, depth=depth, kernels=kernels)
            return Layers(batch, vectors, outputs, directions=names), after.select(batch.unsorted_indices)

    def kernels(self, x: Tensor, state: State) -> Kernels:
        """Those that read x from a state."""
        return kernels_for(x, chain((state.h, state.c), self.lstm.parameters()), name=self.kernel_name)

    def run_lstm(
        self,
        x: Tensor,  # (G, T, B, P) each direction in its own reading order
        lengths: Sequence[int],  # (B,) never rising
        state: State,
        *,
        depth: int | None = None,
        dropout: float = 0.0,  # on the input of every layer
        kernels: Kernels | None = None,
    ) -> tuple[list[Tensor], State]:
        """The outputs (G, T, B, P) of the first `depth` LSTM layers, and the state after them."""
        kernels = kernels or self.kernels(x, state)
        outputs: list[Tensor] = []
        ends: list[HiddenState] = []
        with kernels.settings():
            for number, module in enumerate(islice(self.lstm, depth)):
                layer = cast("LstmLayer", module)  # a ModuleList does not tell
                if dropout > 0:
                    x = drop_out(x, dropout)
                y, end = layer(x, lengths, (state.h[number], state.c[number]), recurrence=kernels.recurrence)
                # The skip connection adds the input as it was after dropout.
                x = x + y if self.config.skip_connections and number > 0 else y
                outputs.append(x)
                ends.append(end)
        untouched = range(len(ends), self.config.lstm_layers)
        after = State(
            torch.stack([h for h, _ in ends] + [state.h[k] for k in untouched]),
            torch.stack([c for _, c in ends] + [state.c[k] for k in untouched]),
        )
        return outputs, after
