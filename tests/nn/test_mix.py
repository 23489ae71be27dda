"""The mix of layers: the formula, both normalisations, and what training needs of it."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.errors import InputError
from elmore.nn.bilm import padding_mask
from elmore.nn.mix import LayerMix, Normalization, l2_penalty, normalize_masked_batch
from reference import masked_batch_norm, mix, read_published
from reference.strategies import patiently, seeds
from reference.twin import Twin

NORMALIZATIONS: list[Normalization | None] = [None, "token", "masked-batch"]

# Scalars and gamma of the fixtures, as their README has them.
FIRST_MIX: dict[str, Any] = {"scalars": [0.1, 0.3, 0.5], "gamma": 1.1}
SECOND_MIX: dict[str, Any] = {"scalars": [0.2, -0.4, 0.6], "gamma": 0.88}

lengths_of_sentences = st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any)
some_scalars = st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=5)


def random_layers(seed: int, lengths: list[int], *, layers: int = 3, dim: int = 4) -> tuple[Tensor, Tensor]:
    """Layers (L, B, T, dim), zero beyond the end of a sentence, and the mask."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    values = torch.randn(layers, *mask.shape, dim, generator=torch.Generator().manual_seed(seed))
    return values * mask[..., None], mask


@patiently
@given(seeds, lengths_of_sentences, some_scalars, st.floats(-3, 3, width=32))
def test_a_mix_is_that_of_the_reference(seed: int, lengths: list[int], scalars: list[float], gamma: float) -> None:
    layers, mask = random_layers(seed, lengths, layers=len(scalars))
    mixed = LayerMix(len(scalars), scalars=scalars, gamma=gamma)(layers, mask).detach()
    for row, length in enumerate(lengths):
        own = list(layers[:, row, :length].double().numpy())
        np.testing.assert_allclose(mixed[row, :length], mix(own, scalars, gamma), rtol=0, atol=5e-6)


@patiently
@given(seeds, lengths_of_sentences, some_scalars)
def test_the_normalisation_of_allennlp_is_that_of_the_reference(
    seed: int, lengths: list[int], scalars: list[float]
) -> None:
    layers, mask = random_layers(seed, lengths, layers=len(scalars))
    mixed = LayerMix(len(scalars), scalars=scalars, normalize="masked-batch")(layers, mask).detach()
    sentences = [layers[:, row, :length].double().numpy() for row, length in enumerate(lengths)]
    normal = [masked_batch_norm([sentence[k] for sentence in sentences]) for k in range(len(scalars))]
    for row, length in enumerate(lengths):
        expected = mix([layer[row] for layer in normal], scalars, 1.0)
        np.testing.assert_allclose(mixed[row, :length], expected, rtol=1e-5, atol=1e-5)


@patiently
@given(seeds, lengths_of_sentences)
def test_normalisation_by_token_is_torchs_layer_norm_and_knows_no_batch_mates(seed: int, lengths: list[int]) -> None:
    layers, mask = random_layers(seed, lengths)
    mixed = LayerMix(3, normalize="token")(layers, mask)
    expected = torch.nn.functional.layer_norm(layers, (4,)).mean(dim=0)
    torch.testing.assert_close(mixed, expected)
    alone = LayerMix(3, normalize="token")(layers[:, :1], mask[:1])
    torch.testing.assert_close(mixed[:1], alone)


def test_an_untrained_mix_is_the_plain_average() -> None:
    layers, mask = random_layers(0, [3, 1])
    torch.testing.assert_close(LayerMix(3)(layers, mask), layers.mean(dim=0))
    assert LayerMix(4).weights.tolist() == [0.25] * 4


def test_weights_are_given_after_the_softmax() -> None:
    weights = [0.2, 0.5, 0.3]
    torch.testing.assert_close(LayerMix(3, weights=weights).weights, torch.tensor(weights))


def test_scalars_are_given_before_the_softmax() -> None:
    own = LayerMix(3, scalars=[0.0, 1.0, 2.0])
    assert own.scalars.tolist() == [0.0, 1.0, 2.0]
    torch.testing.assert_close(own.weights, torch.tensor([0.0, 1.0, 2.0]).softmax(0))


def test_huge_scalars_choose_one_layer_as_in_allennlp() -> None:
    layers, mask = random_layers(0, [3, 1])
    assert torch.equal(LayerMix(3, scalars=[-9e10, 1, -9e10])(layers, mask), layers[1])


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_a_layer_without_a_share_counts_exactly_nothing_and_its_gradients_are_finite(
    normalize: Normalization | None,
) -> None:
    layers, mask = random_layers(0, [3, 1])
    layers.requires_grad_()
    own = LayerMix(3, weights=[0.5, 0.0, 0.5], normalize=normalize)
    assert own.weights.tolist() == [0.5, 0.0, 0.5]
    own(layers, mask).square().sum().backward()
    assert own.scalars.grad is not None
    assert own.scalars.grad[1] == 0
    assert own.scalars.grad.isfinite().all()
    assert own.scalars.grad[0] != 0
    assert layers.grad is not None
    assert layers.grad.isfinite().all()
    assert not layers.grad[1].any()


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_gradients_reach_scalars_gamma_and_layers(normalize: Normalization | None) -> None:
    layers, mask = random_layers(0, [3, 1])
    layers.requires_grad_()
    own = LayerMix(3, scalars=[0.1, 0.2, 0.3], normalize=normalize)
    own(layers, mask).square().sum().backward()
    for part in (own.scalars, own.gamma, layers):
        assert part.grad is not None
        assert part.grad.isfinite().all()
        assert part.grad.any()


def test_a_frozen_mix_trains_nothing() -> None:
    own = LayerMix(3, weights=[1.0, 0.0, 0.0], gamma=2.0, train_weights=False, train_gamma=False)
    assert not any(parameter.requires_grad for parameter in own.parameters())
    layers, mask = random_layers(0, [2])
    assert torch.equal(own(layers, mask), 2 * layers[0])


def test_what_is_saved_is_two_tensors() -> None:
    """Lists of parameters stay behind when DataParallel copies a module; a tensor does not."""
    own = LayerMix(3, **FIRST_MIX)
    assert {name: tuple(tensor.shape) for name, tensor in own.state_dict().items()} == {"scalars": (3,), "gamma": ()}
    other = LayerMix(3)
    other.load_state_dict(own.state_dict())
    assert torch.equal(other.weights, own.weights)
    assert torch.equal(other.gamma, own.gamma)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_a_copy_is_equal_and_independent(copied: Any) -> None:
    layers, mask = random_layers(0, [3, 1])
    own = LayerMix(3, **FIRST_MIX, normalize="masked-batch")
    other = copied(own)
    assert torch.equal(own(layers, mask), other(layers, mask))
    with torch.no_grad():
        other.scalars.fill_(7.0)
    assert own.scalars.tolist() != other.scalars.tolist()


def test_a_mix_keeps_the_kind_of_number_it_is_given() -> None:
    layers, mask = random_layers(0, [3, 1])
    for normalize in NORMALIZATIONS:
        own = LayerMix(3, normalize=normalize).double()
        assert own(layers.double(), mask).dtype == torch.float64


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"weights": [0.5, 0.5]}, "3 layers, and there are 2 weights"),
        ({"scalars": [0.0, 0.0, 0.0, 0.0]}, "3 layers, and there are 4 weights"),
        ({"weights": [0.3, 0.3, 0.3]}, "sum to 1"),
        ({"weights": [1.5, -0.5, 0.0]}, "at least 0"),
        ({"weights": [float("nan"), 0.5, 0.5]}, "sum to 1"),
        ({"weights": [1, 0, 0], "scalars": [0, 0, 0]}, "one of the two"),
        ({"normalize": "batch"}, "normalize is 'batch'"),
    ],
)
def test_options_that_make_no_mix_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        LayerMix(3, **options)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_another_number_of_layers_is_refused(count: int) -> None:
    layers, mask = random_layers(0, [3, 1], layers=count)
    with pytest.raises(InputError, match=f"has weights for 3 layers, and the argument has {count} layers"):
        LayerMix(3)(layers, mask)


def test_the_penalty_is_on_the_scalars_alone_and_can_be_trained_against() -> None:
    own = LayerMix(3, scalars=[0.1, 0.3, 0.5], gamma=9.0)
    loss = l2_penalty(own, 0.5)
    assert loss.item() == pytest.approx(0.5 * (0.01 + 0.09 + 0.25))
    loss.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(own.scalars.grad, torch.tensor([0.1, 0.3, 0.5]))
    assert own.gamma.grad is None


def test_masked_normalisation_leaves_out_what_is_masked() -> None:
    layers, mask = random_layers(3, [4, 2])
    normal = normalize_masked_batch(layers, mask)
    for layer in normal:
        real = layer[mask]
        assert real.mean().item() == pytest.approx(0, abs=1e-6)
        assert real.square().mean().item() == pytest.approx(1, abs=1e-5)
    # What stands at padding is moved along, yet has no say.
    changed = torch.where(mask[None, ..., None], layers, 100.0)
    assert torch.equal(normalize_masked_batch(changed, mask)[:, mask], normal[:, mask])


class FixtureLayers(NamedTuple):
    layers: Tensor  # (L + 1, B, T + 2, dim)
    mask: Tensor  # (B, T + 2)
    mask_of_words: Tensor  # (B, T)


@pytest.fixture(scope="module")
def fixture_layers(fixtures: Path) -> FixtureLayers:
    """The layers from which AllenNLP and bilm-tf made their mixes."""
    model = read_published(fixtures / "allennlp" / "options.json", fixtures / "allennlp" / "lm_weights.hdf5")
    twin = Twin.of(model, dtype=torch.float32)
    sentences = json.loads((fixtures / "mixes" / "sentences.json").read_text(encoding="utf-8"))
    batch = twin.batch(sentences)
    layers, _ = twin.bilm.forward(batch.ids, batch.rows, twin.zeros(len(sentences)))
    lengths = batch.rows.lengths
    masks = (torch.from_numpy(padding_mask(lengths, boundaries=boundaries)) for boundaries in (True, False))
    return FixtureLayers(layers, *masks)


@pytest.mark.parametrize(("number", "parameters"), [(0, FIRST_MIX), (1, SECOND_MIX)])
@pytest.mark.parametrize(("kind", "normalize"), [("plain", None), ("norm", "masked-batch")])
def test_mixes_are_those_of_allennlp_which_counts_boundaries(
    fixture_layers: FixtureLayers,
    fixtures: Path,
    number: int,
    parameters: dict[str, Any],
    kind: str,
    normalize: Normalization | None,
) -> None:
    layers, mask, mask_of_words = fixture_layers
    mixed = LayerMix(3, **parameters, normalize=normalize)(layers, mask).detach()
    without = mixed[:, 1:-1] * mask_of_words[..., None]
    with np.load(fixtures / "mixes" / "allennlp_0.9.npz") as expected:
        # Padding included: AllenNLP zeroes it only where it drops the boundaries.
        np.testing.assert_allclose(mixed, expected[f"{kind}_boundaries_rep{number}"], rtol=0, atol=5e-6)
        np.testing.assert_allclose(without, expected[f"{kind}_rep{number}"], rtol=0, atol=5e-6)
        assert np.array_equal(mask_of_words, expected[f"{kind}_mask"])


def test_mixes_are_those_of_bilm_tf_which_does_not(fixture_layers: FixtureLayers, fixtures: Path) -> None:
    layers, mask = fixture_layers.layers[:, :, 1:-1], fixture_layers.mask_of_words
    layers = layers * mask[..., None]
    with np.load(fixtures / "mixes" / "bilm_tf.npz") as expected:
        for name, normalize in (("mix", None), ("mix_norm", "masked-batch")):
            own = LayerMix(3, **FIRST_MIX, normalize=normalize)  # type: ignore[arg-type]
            np.testing.assert_allclose(own(layers, mask).detach()[mask], expected[name][mask], rtol=0, atol=5e-6)
            assert l2_penalty(own, 0.5).item() == pytest.approx(expected["l2"][0])
        top = LayerMix(3, weights=[0, 0, 1], gamma=1.1)(layers, mask).detach()
        np.testing.assert_allclose(top[mask], expected["top"][mask], rtol=0, atol=5e-6)


def test_a_mix_shows_its_weights() -> None:
    mix = LayerMix(3, weights=[0.2, 0.3, 0.5], gamma=1.5, train_gamma=False, normalize="token")
    assert repr(mix) == "LayerMix(weights=[0.20, 0.30, 0.50], gamma=1.50, normalize='token', frozen=['gamma'])"
    assert "<tr><th>layer 2</th><td>50.0%</td></tr><tr><th>gamma</th><td>1.500</td></tr>" in mix._repr_html_()
