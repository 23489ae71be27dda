"""What tasks about single words in their contexts share: where a word stands, its vector, and the layer to take.

A word of several tokens, such as "pointed out", has the mean of their vectors.

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
    places = starts + torch.arange(longest, device=vectors.device)  # (N, longest)
    own = vectors[rows, places.clamp_max(vectors.shape[1] - 1)] * (places < ends).unsqueeze(2)
    return own.sum(dim=1) / (ends - starts)


def cosines(first: Tensor, second: Tensor) -> Tensor:  # (..., D), (..., D) -> (...)
    """The cosine of each pair of vectors; 0 with a vector of zeros.

    Worked out in float64, on the CPU, and rounded: the last bits would depend on how many pairs are compared at once,
    and part pairs that are equal.
    """
    first, second = first.cpu().double(), second.cpu().double()
    lengths: Tensor = torch.linalg.vector_norm(first, dim=-1) * torch.linalg.vector_norm(second, dim=-1)
    return ((first * second).sum(dim=-1) / lengths.clamp_min(torch.finfo(torch.float64).tiny)).float()


def covering_tokens(offsets: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """Of tokens that stand at these characters, those that hold any of the characters [start, end); None: none does.

    >>> covering_tokens([(0, 3), (4, 7), (7, 9)], 4, 9)
    (1, 3)
    """
    found = [number for number, (first, stop) in enumerate(offsets) if first < end and stop > start]
    return (found[0], found[-1] + 1) if found else None


def check_input_only(embedder: TokenEmbedder) -> None:
    """Refuse ELMo at the output of an RNN, where a model has none."""
    if embedder.output_dim:
        raise InputError(f"elmo.where is {embedder.elmo.where}, and this model has no RNN: it must be input, or none")


def freeze(embedder: TokenEmbedder) -> None:
    """Keep all vectors as they are, for a model that is fitted; refuse what would have to be trained."""
    check_input_only(embedder)
    if embedder.joint is not None:
        raise InputError("elmo.training is joint, and this method trains nothing: it must be frozen or fine-tuned")
    if embedder.characters is not None or (embedder.words is not None and embedder.words.given is None):
        raise InputError(
            "this method trains nothing, and vectors of words or characters would stay random: leave them out "
            "(words.vectors none, words.character_filters 0), or name a file of vectors"
        )
    embedder.requires_grad_(requires_grad=False)


def candidate_layers(embedder: TokenEmbedder) -> dict[str, int | None]:
    """What a fitted model chooses among, by name: single layers where [elmo] says "all"; else the mix it asks for."""
    if not embedder.elmo.is_used:
        return {"word vectors": None}
    if embedder.elmo.layers != "all":
        layers = embedder.elmo.layers
        return {f"layer {layers}" if isinstance(layers, int) else f"{layers} of the layers": None}
    mix = embedder.mixes["input"]
    assert isinstance(mix, LayerMix)
    return {f"layer {layer}": layer for layer in range(len(mix.scalars))}


def take_layer(embedder: TokenEmbedder, layer: int | None) -> None:
    """Have the mix give one layer alone; None leaves it as it is."""
    if layer is not None:
        mix = embedder.mixes["input"]
        assert isinstance(mix, LayerMix)
        mix.scalars.fill_(NO_SHARE)
        mix.scalars[layer] = 0.0
