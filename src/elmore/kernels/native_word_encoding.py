"""The word encoder by the native CPU kernels: for reading, where no gradient is wanted.

A response of the character CNN is a sum over a filter's places of what it makes of the character there, and characters
are few: tables of those products are made once, and what is left are additions. Highways and projection are products
of all words with packed matrices. `native/character_cnn.h` and `native/dense.h` have the code.
"""

from ctypes import c_int64
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from elmore.errors import InputError
from elmore.kernels.character_cnn import Filters
from elmore.kernels.native_library import Dense, FilterTables, Number, native_obstacle, opened_native_library
from elmore.kernels.native_packing import PackedMatrix, fill, pack, unpack
from elmore.kernels.word_encoding import CharacterWeights, Linear, WordEncoderWeights, WordEncoding


class PreparedDense(NamedTuple):
    """A dense layer or a highway as the library reads it, and the tensors that its pointers lead to."""

    layer: Dense
    columns: int
    tensors: tuple[PackedMatrix, Tensor]


class PreparedFilters(NamedTuple):
    """A character CNN as the library reads it, and what its pointers lead to."""

    filters: FilterTables
    columns: int
    kept: tuple[object, ...]


class PreparedWordEncoder(NamedTuple):
    """A word encoder, part by part."""

    number: Number
    word_table: Tensor | None
    filters: PreparedFilters | None
    highways: list[PreparedDense]
    projection: PreparedDense | None


def native_word_encoding(number: Number) -> WordEncoding:
    """The encoder that multiplies numbers of this kind; an error says what is missing for it here."""
    for needed in (Number.FLOAT32, number):
        if obstacle := native_obstacle(needed):
            raise InputError(f"the native kernels for {needed.name.lower()} cannot run here: {obstacle}")
    # Only float32 is kept as it was.
    return WordEncoding(partial(prepare, number=number), encode, restore if number is Number.FLOAT32 else None)


def prepare(weights: WordEncoderWeights, *, number: Number) -> PreparedWordEncoder:
    """Make the tables, and pack the matrices."""
    characters = weights.characters
    return PreparedWordEncoder(
        number,
        None if weights.word_table is None else weights.word_table.detach(),
        None if characters is None else _prepare_filters(characters),
        [] if characters is None else [_prepare_highway(*highway, number) for highway in characters.highways],
        None if weights.projection is None else _prepare_dense(weights.projection, number),
    )


def restore(prepared: PreparedWordEncoder) -> list[Tensor]:
    """The matrices that were packed as float32."""
    found = [matrix for highway in prepared.highways for matrix in _unpack_highway(highway)]
    if prepared.projection is not None:
        dense = prepared.projection
        found.append(unpack(dense.tensors[0], dense.layer.depth, dense.columns)[0].t().contiguous())
    return found


def encode(prepared: PreparedWordEncoder, character_ids: Tensor | None, word_ids: Tensor | None) -> Tensor:
    """(W, P) the vectors of words, for characters (W, M) and rows of the word table (W,)."""
    features = []
    if prepared.word_table is not None:
        assert word_ids is not None
        features.append(prepared.word_table.index_select(0, word_ids))
    if prepared.filters is not None:
        assert character_ids is not None
        library, columns = opened_native_library(), prepared.filters.columns
        # Rows of whole vectors, so that a highway can load them whole.
        rows = torch.zeros(len(character_ids), columns + -columns % 16)
        library.pool_characters(prepared.filters.filters, character_ids.contiguous(), rows)
        for highway in prepared.highways:
            after = torch.zeros_like(rows)
            library.run_dense(prepared.number, highway.layer, rows, after)
            rows = after
        features.append(rows[:, :columns])
    x = features[0] if len(features) == 1 else torch.cat(features, dim=-1)
    if prepared.projection is None:
        return x.contiguous()
    x = x if x.stride(1) == 1 else x.contiguous()
    vectors = torch.empty(len(x), prepared.projection.columns)
    opened_native_library().run_dense(prepared.number, prepared.projection.layer, x, vectors)
    return vectors


def _prepare_filters(weights: CharacterWeights) -> PreparedFilters:
    width = 4 * opened_native_library().lanes(Number.FLOAT32)
    tables, biases = _tables(weights.table.float(), weights.filters, width)
    widths, counts = zip(*((weight.shape[2], len(weight)) for weight, _ in weights.filters), strict=True)
    groups = len(widths)
    own_widths, own_counts = (c_int64 * groups)(*widths), (c_int64 * groups)(*counts)
    filters = FilterTables(
        len(weights.table), groups, own_widths, own_counts, tables.data_ptr(), biases.data_ptr(), int(weights.tanh)
    )
    return PreparedFilters(filters, sum(counts), (tables, biases, own_widths, own_counts))


def _tables(characters: Tensor, filters: Filters, width: int) -> tuple[Tensor, Tensor]:
    """For each chunk of filters and each place under them what they make of each character; and their biases."""
    tables, biases = [], []
    for weight, bias in filters:
        filled = pad(weight.float(), (0, 0, 0, 0, 0, -len(weight) % width))  # (n, C, w)
        chunks = filled.view(-1, width, *filled.shape[1:])
        # As a sum over C, in float64: each entry is rounded once.
        made = torch.einsum("kc,nfcw->nwkf", characters.double(), chunks.double())
        tables.append(made.float().flatten())
        biases.append(pad(bias.float(), (0, -len(bias) % width)))
    return torch.cat(tables), torch.cat(biases)


def _prepare_dense(linear: Linear, number: Number) -> PreparedDense:
    weight, bias = linear
    lanes = opened_native_library().lanes(number)
    matrix = pack(weight.t()[None], number, lanes)
    return _as_dense(matrix, pad(bias.float(), (0, -len(bias) % (4 * lanes))), weight, highway=False)


def _prepare_highway(transform: Linear, gate: Linear, number: Number) -> PreparedDense:
    lanes = opened_native_library().lanes(number)
    (weight, bias), size = transform, 2 * lanes
    # In a panel of four vectors two of the transform, then the same two of the gate.
    columns = [fill(one.t().float(), 1, size) for one in (weight, gate[0])]
    both = torch.stack([part.reshape(len(part), -1, size) for part in columns], dim=2).flatten(1)
    biases = torch.stack([pad(one.float(), (0, -len(one) % size)).view(-1, size) for one in (bias, gate[1])], dim=1)
    return _as_dense(pack(both[None], number, lanes), biases.flatten(), weight, highway=True)


def _unpack_highway(highway: PreparedDense) -> list[Tensor]:
    """The transform's matrix, and the gate's."""
    matrix, size = highway.tensors[0], 2 * opened_native_library().lanes(Number.FLOAT32)
    filled = highway.columns + -highway.columns % size
    both = unpack(matrix, highway.layer.depth, 2 * filled)[0].view(highway.layer.depth, -1, 2, size)
    return [both[:, :, part].flatten(1)[:, : highway.columns].t().contiguous() for part in (0, 1)]


def _as_dense(matrix: PackedMatrix, bias: Tensor, weight: Tensor, *, highway: bool) -> PreparedDense:
    columns, depth = weight.shape
    bias = bias.contiguous()
    return PreparedDense(
        Dense(depth, columns, matrix.pointers(), bias.data_ptr(), int(highway)), columns, (matrix, bias)
    )
