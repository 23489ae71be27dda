"""The word encoder of native training, part by part: values and gradients against plain torch in float64."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import conv1d, linear

from elmore.engine.native_library import Precision, why_unavailable
from elmore.errors import InputError
from elmore.nn.character_cnn import pool_by_convolution, run_highway
from elmore.nn.cross_entropy import CandidateLogits, differentiate_by_chunks, softmax_
from elmore.nn.native_training import differentiate_natively, multiply, pool_by_table, run_native_highway
from reference.strategies import patiently, seeds
from thread_count import using_threads

pytestmark = pytest.mark.skipif(
    why_unavailable(Precision.FLOAT32) is not None, reason=f"native kernels: {why_unavailable(Precision.FLOAT32)}"
)

CHARACTERS, SIZE = 40, 4
Filters = list[tuple[Tensor, Tensor]]


def drawn(random: torch.Generator, *shape: int) -> Tensor:
    """Numbers that float32 has, in float64."""
    return torch.randn(*shape, generator=random).double().requires_grad_()


def in_float32(*tensors: Tensor) -> list[Tensor]:
    return [one.detach().float().requires_grad_() for one in tensors]


def assert_close(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == torch.float32
    # A sum of numbers of about 1 that nearly cancel keeps the rounding of what it is made of.
    assert (found - expected).norm() <= 1e-5 * (expected.norm() + 1)


def assert_same_gradients(found: Tensor, expected: Tensor, own: list[Tensor], exact: list[Tensor]) -> None:
    assert_close(found, expected)
    slopes = torch.randn_like(found)
    ours = torch.autograd.grad(found, own, slopes, retain_graph=True)
    for a, b in zip(ours, torch.autograd.grad(expected, exact, slopes.double()), strict=True):
        assert a.shape == b.shape
        assert_close(a, b)


def random_words(random: torch.Generator, words: int, length: int) -> Tensor:
    """Words of any length, of which most end in padding."""
    characters = torch.randint(0, CHARACTERS, (words, length), generator=random)
    ends = torch.randint(0, length + 1, (words, 1), generator=random)
    return torch.where(torch.arange(length) < ends, characters, 7)


def least_lead(characters: Tensor, table: Tensor, filters: Filters) -> float:
    """By how much a filter's largest response leads over the next that is not the same."""
    x = table[characters].transpose(1, 2)
    leads = [1.0]
    for weight, bias in filters:
        behind = conv1d(x, weight, bias)
        behind = behind.amax(-1, keepdim=True) - behind
        leads += behind[behind > 1e-12].flatten().tolist()
    return min(leads)


@patiently
@given(
    seed=seeds,
    widths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    counts=st.lists(st.sampled_from([1, 5, 16, 33, 70]), min_size=4, max_size=4),
    words=st.integers(0, 6),
)
def test_pooling_by_table_is_pooling_by_convolution(seed, widths, counts, words):
    random = torch.Generator().manual_seed(seed)
    characters, table = random_words(random, words, 9), drawn(random, CHARACTERS, SIZE)
    filters = [(drawn(random, n, SIZE, w), drawn(random, n)) for w, n in zip(widths, counts, strict=False)]
    assume(least_lead(characters, table, filters) > 1e-5)
    exact = [table, *(part for pair in filters for part in pair)]
    own = in_float32(*exact)
    pooled = pool_by_table(characters, own[0], list(zip(own[1::2], own[2::2], strict=True)))
    assert_same_gradients(pooled, pool_by_convolution(characters, table, filters), own, exact)


@patiently
@given(seed=seeds, words=st.integers(0, 20), features=st.sampled_from([1, 7, 16, 50, 70]))
def test_a_native_highway_is_a_highway(seed, words, features):
    random = torch.Generator().manual_seed(seed)
    exact = [drawn(random, words, features), *(drawn(random, *((features,) * d)) for d in (2, 1, 2, 1))]
    x, transform, transform_bias, gate, gate_bias = exact
    # Where relu has its bend, float32 may fall on the other side.
    assume((linear(x, transform, transform_bias).abs() > 1e-5).all())
    own = in_float32(*exact)
    found = run_native_highway(own[0], (own[1], own[2]), (own[3], own[4]))
    expected = run_highway(x, (transform, transform_bias), (gate, gate_bias))
    assert_same_gradients(found, expected, own, exact)


@patiently
@given(
    seed=seeds,
    rows=st.integers(1, 30),
    depth=st.sampled_from([0, 1, 17, 1023, 1025, 2100]),
    columns=st.sampled_from([1, 15, 64, 100]),
    turned=st.tuples(st.booleans(), st.booleans()),
    adds=st.booleans(),
)
def test_products_are_made_however_their_matrices_lie(seed, rows, depth, columns, turned, adds):
    random = torch.Generator().manual_seed(seed)
    left, right = torch.randn(rows, depth, generator=random), torch.randn(depth, columns, generator=random)
    out = torch.randn(rows, columns + 3, generator=random)[:, :columns]
    expected = left.double() @ right.double() + (out.double() if adds else 0)
    left, right = (one.t().contiguous().t() if turn else one for one, turn in zip((left, right), turned, strict=True))
    multiply(left, right, out, adds=adds)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5 * max(depth, 1) ** 0.5)


def everything(threads: int) -> list[Tensor]:
    """Values and gradients of a whole word encoder's parts on so many threads."""
    random = torch.Generator().manual_seed(1)
    characters, table = random_words(random, 150, 12), drawn(random, CHARACTERS, SIZE)
    exact = [table, *(drawn(random, *shape) for shape in ((90, SIZE, 3), (90,), (90, 90), (90,), (90, 90), (90,)))]
    own = in_float32(*exact)
    with using_threads(threads):
        pooled = pool_by_table(characters, own[0], [(own[1], own[2])])
        out = run_native_highway(pooled, (own[3], own[4]), (own[5], own[6]))
        return [out, *torch.autograd.grad(out, [*own], out)]


def test_values_and_gradients_have_the_same_bits_with_any_number_of_threads():
    alone = everything(1)
    for threads in (2, 3, 8):
        for one, other in zip(everything(threads), alone, strict=True):
            assert torch.equal(one, other)


def test_a_character_beyond_the_table_is_an_error():
    filters = [(torch.ones(2, SIZE, 1), torch.zeros(2))]
    with pytest.raises(IndexError, match="a character beyond the 40 of the model's table"):
        pool_by_table(torch.full((1, 3), CHARACTERS), torch.ones(CHARACTERS, SIZE), filters)


CHARACTERS_OF_WORDS = torch.zeros(3, 9, dtype=torch.int64)
TABLE, WEIGHT, BIAS = torch.ones(CHARACTERS, SIZE), torch.ones(5, SIZE, 2), torch.ones(5)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            (CHARACTERS_OF_WORDS.int(), TABLE, [(WEIGHT, BIAS)]),
            r"characters has dtype torch\.int32; it must be torch\.int64",
        ),
        (
            (CHARACTERS_OF_WORDS[0], TABLE, [(WEIGHT, BIAS)]),
            r"characters has shape \(9,\); it must have shape \(any, any\)",
        ),
        ((CHARACTERS_OF_WORDS, TABLE.double(), [(WEIGHT, BIAS)]), r"the table of characters has dtype torch\.float64"),
        ((CHARACTERS_OF_WORDS, TABLE.to("meta"), [(WEIGHT, BIAS)]), "the table of characters is on meta"),
        ((CHARACTERS_OF_WORDS, TABLE, [(WEIGHT[:, :3], BIAS)]), r"filters 0 has shape \(5, 3, 2\); .* \(any, 4, any\)"),
        ((CHARACTERS_OF_WORDS, TABLE, [(WEIGHT, BIAS), (WEIGHT, BIAS[:4])]), r"bias of filters 1 has shape \(4,\)"),
        ((CHARACTERS_OF_WORDS[:, :1], TABLE, [(WEIGHT, BIAS)]), "words have 1 characters; filters 0 are 2 wide"),
    ],
)
def test_pooling_rejects_wrong_tensors(arguments, complaint):
    with pytest.raises(InputError, match=complaint):
        pool_by_table(*arguments)


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("wrong", [lambda one: one[..., :-1], lambda one: one.double(), lambda one: one[None]])
def test_highway_rejects_wrong_tensors(which, wrong):
    parts = [torch.ones(3, 6), torch.ones(6, 6), torch.ones(6), torch.ones(6, 6), torch.ones(6)]
    parts[which] = wrong(parts[which])
    with pytest.raises(InputError, match=r"highway|transform|gate"):
        run_native_highway(parts[0], (parts[1], parts[2]), (parts[3], parts[4]))


@pytest.mark.parametrize(
    ("hidden", "complaint"),
    [
        (torch.ones(2, 3, 5), r"candidates' weights has shape \(7, 4\); it must have shape \(7, 5\)"),
        (torch.ones(2, 3, 4).double(), r"hidden has dtype torch\.float64"),
    ],
)
def test_loss_rejects_wrong_hidden_vectors(hidden, complaint):
    targets = torch.zeros(2, 3, dtype=torch.int64)
    logits = CandidateLogits.of(torch.ones(2, 3, 4), targets, torch.ones(7, 4), torch.ones(7), None)
    with pytest.raises(InputError, match=complaint):
        differentiate_natively(hidden, logits)


def changed(tensor: Tensor, kind: str, dim: int) -> Tensor:
    """A tensor that the kernels must reject or, with the same numbers elsewhere in memory, accept."""
    dim %= tensor.ndim
    match kind:
        case "shorter":
            return tensor.narrow(dim, 0, tensor.shape[dim] - 1)
        case "longer":
            return torch.cat([tensor, tensor.narrow(dim, 0, 1)], dim=dim)
        case "one dimension more":
            return tensor.unsqueeze(dim)
        case "int32":
            return tensor.int()
        case "float64":
            return tensor.double()
        case "meta":
            return tensor.to("meta")
        case "turned":
            return tensor.movedim(dim, 0).contiguous().movedim(0, dim)
    wide = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1]), 3).to(tensor.dtype)
    wide[..., ::2] = tensor
    return wide[..., ::2]


SAME_NUMBERS = ["with gaps", "turned"]
KINDS = st.sampled_from([*SAME_NUMBERS, "shorter", "longer", "one dimension more", "int32", "float64", "meta"])


@patiently
@given(seed=seeds, part=st.integers(0, 4), kind=KINDS, dim=st.integers(0, 2))
def test_pooling_never_returns_numbers_for_wrong_tensors(seed, part, kind, dim):
    random = torch.Generator().manual_seed(seed)
    characters = random_words(random, 5, 9)
    exact = [drawn(random, *shape).detach() for shape in ((CHARACTERS, SIZE), (33, SIZE, 3), (33,), (5, SIZE, 2))]
    parts = [characters, *(one.float() for one in exact)]
    parts[part] = changed(parts[part], kind, dim)
    own = [one.requires_grad_() for one in parts[1:] if one.is_floating_point()]
    filters = [(parts[2], parts[3]), (parts[4], torch.zeros(len(parts[4])))]
    try:
        pooled = pool_by_table(parts[0], parts[1], filters)
    except (InputError, IndexError):
        assert kind not in SAME_NUMBERS
        return
    expected = pool_by_convolution(parts[0], parts[1], filters)
    assert_close(pooled, expected)
    # The gradient of a sum has no memory of its own for each number.
    for a, b in zip(torch.autograd.grad(pooled.sum(), own), torch.autograd.grad(expected.sum(), own), strict=True):
        assert (a - b).norm() <= 1e-4 * (b.norm() + 1)


@patiently
@given(seed=seeds, part=st.integers(0, 4), kind=KINDS, dim=st.integers(0, 1))
def test_highway_never_returns_numbers_for_wrong_tensors(seed, part, kind, dim):
    random = torch.Generator().manual_seed(seed)
    exact = [drawn(random, *shape).detach() for shape in ((6, 21), (21, 21), (21,), (21, 21), (21,))]
    parts = [one.float() for one in exact]
    parts[part] = changed(parts[part], kind, dim)
    own = [one.requires_grad_() for one in parts if one.is_floating_point()]
    try:
        found = run_native_highway(parts[0], (parts[1], parts[2]), (parts[3], parts[4]))
    except InputError:
        assert kind not in SAME_NUMBERS
        return
    expected = run_highway(parts[0], (parts[1], parts[2]), (parts[3], parts[4]))
    assert_close(found, expected)
    for a, b in zip(torch.autograd.grad(found.sum(), own), torch.autograd.grad(expected.sum(), own), strict=True):
        assert (a - b).norm() <= 1e-4 * (b.norm() + 1)


@patiently
@given(seed=seeds, part=st.integers(0, 5), kind=KINDS, dim=st.integers(0, 2))
def test_loss_never_returns_numbers_for_wrong_tensors(seed, part, kind, dim):
    random = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, 7, (2, 3), generator=random)
    shapes = (2, 3, 4), (7, 4), (7,)
    hidden, weight, bias = (torch.randn(*shape, generator=random) for shape in shapes)
    logits = CandidateLogits.of(hidden, targets, weight, bias, None)
    names = ["candidate_weight", "offsets", "target_weight", "target_offsets", "target_columns"]
    if part == 5:
        hidden = changed(hidden, kind, dim)
    else:
        logits = logits._replace(**{names[part]: changed(getattr(logits, names[part]), kind, dim)})
    try:
        found = differentiate_natively(hidden, logits)
    except InputError:
        assert kind not in SAME_NUMBERS
        return
    expected = differentiate_by_chunks(hidden, logits, softmax=softmax_)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_nan_in_a_table_of_characters_is_not_lost():
    table = torch.randn(CHARACTERS, SIZE)
    table[3, 1] = torch.nan
    characters = torch.tensor([[3, 5, 6, 7, 7], [5, 3, 6, 7, 7], [5, 6, 3, 7, 7], [5, 6, 4, 7, 7]])
    filters = [(torch.randn(20, SIZE, 2), torch.randn(20))]
    found, expected = (pool(characters, table, filters) for pool in (pool_by_table, pool_by_convolution))
    assert torch.equal(found.isnan(), expected.isnan())


def test_nan_in_a_hidden_vector_makes_the_loss_of_its_position_nan():
    targets = torch.zeros(1, 4, dtype=torch.int64)
    hidden = torch.randn(1, 4, 4)
    hidden[0, 2, 1] = torch.nan
    for candidates in (2, 7, 100):
        logits = CandidateLogits.of(hidden, targets, torch.randn(candidates, 4), torch.randn(candidates), None)
        found = differentiate_natively(hidden, logits)
        assert found.losses.isnan().all()
        assert torch.equal(found.hidden.isnan().any(-1), torch.tensor([[False, False, True, False]]))


@pytest.mark.parametrize("column", [-1, 8])
def test_loss_rejects_columns_beyond_the_candidates(column):
    targets = torch.zeros(2, 3, dtype=torch.int64)
    logits = CandidateLogits.of(torch.ones(2, 3, 4), targets, torch.ones(7, 4), torch.ones(7), None)
    logits.target_columns[1, 2] = column
    with pytest.raises(InputError, match=f"the targets' columns contains {column}; it must be from 0 to 7"):
        differentiate_natively(torch.ones(2, 3, 4), logits)


@patiently
@given(seed=seeds, part=st.integers(0, 2), kind=KINDS, dim=st.integers(0, 1))
def test_product_never_returns_numbers_for_wrong_tensors(seed, part, kind, dim):
    random = torch.Generator().manual_seed(seed)
    parts = [torch.randn(shape, generator=random) for shape in ((3, 5), (5, 4), (3, 4))]
    parts[part] = changed(parts[part], kind, dim)
    try:
        multiply(*parts)
    except InputError:
        assert part == 2 or kind not in SAME_NUMBERS
        return
    torch.testing.assert_close(parts[2], parts[0] @ parts[1])


def test_product_rejects_result_with_gaps():
    with pytest.raises(InputError, match="numbers of a row must be adjacent"):
        multiply(torch.ones(3, 5), torch.ones(5, 4), torch.ones(4, 3).t())
