"""Words in context: their tokens, their vectors, and the layer that a fitted model selects.

A target of several tokens, such as "pointed out", has the mean of their vectors.

B sentences, T tokens, N words, D size.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from elmore.errors import InputError
from elmore.nn.devices import send
from elmore.nn.mix import NO_SHARE, LayerMix
from elmore.tasks.inputs.embedder import TokenEmbedder


class TokenSpan(NamedTuple):
    """Tokens of one sentence of a batch."""

    row: int
    start: int
    end: int  # the token after the last


def span_means(vectors: Tensor, spans: Sequence[TokenSpan]) -> Tensor:  # (B, T, D) -> (N, D)
    """The mean of the vectors of each span.

    >>> vectors = torch.tensor([[[1.0, 0.0], [3.0, 0.0], [0.0, 5.0]]])
    >>> span_means(vectors, [TokenSpan(0, 0, 2), TokenSpan(0, 2, 3)]).tolist()
    [[2.0, 0.0], [0.0, 5.0]]
    """
    if not spans:
        return vectors.new_zeros(0, vectors.shape[-1])
    rows, starts, ends = send(torch.tensor(spans), vectors.device).unsqueeze(2).unbind(dim=1)  # (N, 1) each
    longest = max(span.end - span.start for span in spans)
    tokens = starts + torch.arange(longest, device=vectors.device)  # (N, longest)
    inside = vectors[rows, tokens.clamp_max(vectors.shape[1] - 1)] * (tokens < ends).unsqueeze(2)
    return inside.sum(dim=1) / (ends - starts)


def cosines(first: Tensor, second: Tensor) -> Tensor:  # (..., D), (..., D) -> (...)
    """The cosine of each pair of vectors; 0 with a vector of zeros.

    Computed in float64 on the CPU, then rounded. Otherwise the last bits would depend on the number of pairs in the
    batch, and equal pairs could have different cosines.
    """
    first, second = first.cpu().double(), second.cpu().double()
    lengths: Tensor = torch.linalg.vector_norm(first, dim=-1) * torch.linalg.vector_norm(second, dim=-1)
    return ((first * second).sum(dim=-1) / lengths.clamp_min(torch.finfo(torch.float64).tiny)).float()


def covering_tokens(offsets: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """The range of tokens that contain any of the characters [start, end), by the tokens' offsets; None if none does.

    >>> covering_tokens([(0, 3), (4, 7), (7, 9)], 4, 9)
    (1, 3)
    """
    covering = [number for number, (first, stop) in enumerate(offsets) if first < end and stop > start]
    return (covering[0], covering[-1] + 1) if covering else None


def check_input_only(embedder: TokenEmbedder) -> None:
    """Reject ELMo at the output of an RNN: these models have no RNN."""
    if embedder.output_dim:
        raise InputError(f"elmo.where is {embedder.elmo.where}; this model has no RNN, so it must be input or none")


def freeze(embedder: TokenEmbedder) -> None:
    """Freeze all vectors for a fitted model; reject options that require training."""
    check_input_only(embedder)
    if embedder.joint is not None:
        raise InputError("elmo.training is joint, and this method is not trained: it must be frozen or fine-tuned")
    if embedder.characters is not None or (embedder.words is not None and embedder.words.given is None):
        raise InputError(
            "this method is not trained, so vectors of words or characters would stay random: turn them off "
            "(words.vectors none, words.character_filters 0), or name a file of vectors"
        )
    embedder.requires_grad_(requires_grad=False)


def candidate_layers(embedder: TokenEmbedder) -> dict[str, int | None]:
    """The choices of a fitted model, by name: single layers if [elmo] says "all", else the configured mix."""
    if not embedder.elmo.is_used:
        return {"word vectors": None}
    if embedder.elmo.layers != "all":
        layers = embedder.elmo.layers
        return {f"layer {layers}" if isinstance(layers, int) else f"{layers} of the layers": None}
    mix = embedder.mixes["input"]
    assert isinstance(mix, LayerMix)
    return {f"layer {layer}": layer for layer in range(len(mix.scalars))}


def select_layer(embedder: TokenEmbedder, layer: int | None) -> None:
    """Set the mix to one layer; None leaves it unchanged."""
    if layer is not None:
        mix = embedder.mixes["input"]
        assert isinstance(mix, LayerMix)
        mix.scalars.fill_(NO_SHARE)
        mix.scalars[layer] = 0.0
