"""A random LSTM layer, and something for it to read."""

from collections.abc import Sequence

import torch
from torch import Tensor

from elmore.nn.recurrence import Clips, HiddenTensors, LstmTensors

FREE = Clips(None, None)


def random_layer(
    seed: int, *, directions: int, vector: int, cells: int, projected: bool, clips: Clips = FREE
) -> LstmTensors:
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(directions, *shape, generator=random, dtype=torch.float64)

    return LstmTensors(
        input=draw(vector, 4 * cells),
        recurrent=draw(vector, 4 * cells),
        bias=draw(4 * cells),
        projection=draw(cells, vector) if projected else None,
        clips=clips,
    )


def random_reading(seed: int, weights: LstmTensors, lengths: Sequence[int]) -> tuple[Tensor, HiddenTensors]:
    """Inputs for rows of these lengths, and a state to start from."""
    directions, vector, gates = weights.input.shape
    random = torch.Generator().manual_seed(seed + 1)
    rows = len(lengths)
    inputs = torch.randn(directions, max(lengths), rows, vector, generator=random, dtype=torch.float64)
    h = torch.randn(directions, rows, vector, generator=random, dtype=torch.float64)
    c = torch.randn(directions, rows, gates // 4, generator=random, dtype=torch.float64)
    return inputs, (h, c)


def tensors_of(weights: LstmTensors) -> list[Tensor]:
    return [part for part in weights if isinstance(part, Tensor)]
