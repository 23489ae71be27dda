import copy
import inspect
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from elmore.compat import allennlp
from elmore.compat.allennlp import Elmo, ElmoTokenEmbedder, ScalarMix, batch_to_ids
from elmore.errors import InputError
from reference.mixing import masked_batch_norm
from reference.mixing import mix as reference_mix

SENTENCES = [["I", "took", "a", "bow"], ["Me", "too"], ["So", "did", "she"]]
TOLERANCE = 5e-6


def trained_elmo(pair: Any, **options: Any) -> Elmo:
    """An Elmo with the scalars and gammas of the fixtures."""
    elmo = Elmo(*pair, 2, **options).eval()
    for mix, scalars, gamma in (
        (elmo.scalar_mix_0, [0.1, 0.3, 0.5], 1.1),
        (elmo.scalar_mix_1, [0.2, -0.4, 0.6], 0.88),
    ):
        for parameter, scalar in zip(mix.scalar_parameters, scalars, strict=True):
            parameter.data.fill_(scalar)
        mix.gamma.data.fill_(gamma)
    return elmo


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("plain", {}),
        ("norm", {"do_layer_norm": True}),
        ("plain_boundaries", {"keep_sentence_boundaries": True}),
        ("norm_boundaries", {"keep_sentence_boundaries": True, "do_layer_norm": True}),
    ],
)
def test_elmo_representations_equal_allennlp(
    mixes: dict[str, NDArray[Any]], allennlp_pair: Any, name: str, options: dict[str, bool]
) -> None:
    output = trained_elmo(allennlp_pair, **options)(torch.from_numpy(mixes["char_ids"]))
    for number, representation in enumerate(output["elmo_representations"]):
        assert_close(representation, mixes[f"{name}_rep{number}"])
    assert output["mask"].dtype == torch.bool
    np.testing.assert_array_equal(output["mask"], mixes[f"{name}_mask"])


def test_elmo_over_several_calls_equals_allennlp(mixes: dict[str, NDArray[Any]], allennlp_pair: Any) -> None:
    elmo, ids = trained_elmo(allennlp_pair), torch.from_numpy(mixes["char_ids"])
    elmo(ids)
    assert_close(elmo(ids)["elmo_representations"][0], mixes["second_call_plain_rep0"])
    assert_close(elmo(ids[1:])["elmo_representations"][0], mixes["third_call_rows_1_2_as_batch_of_2_rep0"])
    assert_close(elmo(ids)["elmo_representations"][0], mixes["fourth_call_plain_rep0"])
    elmo._elmo_lstm._elmo_lstm.reset_states()
    output = elmo(torch.from_numpy(mixes["4d_char_ids"]))
    assert_close(output["elmo_representations"][0], mixes["reset_4d_rep0"])
    np.testing.assert_array_equal(output["mask"], mixes["reset_4d_mask"])


@pytest.mark.parametrize(("boundaries", "width"), [(False, 4), (True, 6)])
def test_elmo_flattens_more_dimensions(tiny_pair: Any, boundaries: bool, width: int) -> None:
    elmo = Elmo(*tiny_pair, 1, keep_sentence_boundaries=boundaries).eval()
    ids = batch_to_ids(SENTENCES * 2)
    flat = elmo(ids)
    elmo.reset_states()
    deep = elmo(ids.unflatten(0, (1, 2, 3)))
    assert deep["mask"].shape == (1, 2, 3, width)
    assert torch.equal(deep["mask"].flatten(0, 2), flat["mask"])
    assert deep["elmo_representations"][0].shape == (1, 2, 3, width, 32)
    assert torch.equal(deep["elmo_representations"][0].flatten(0, 2), flat["elmo_representations"][0])


def test_elmo_flattens_more_dimensions_of_word_ids(tiny_pair: Any) -> None:
    elmo = Elmo(*tiny_pair, 1, vocab_to_cache=["@@PADDING@@", "Me", "too"]).eval()
    ids, word_ids = batch_to_ids([["Me", "too"], ["too"]]), torch.tensor([[1, 2], [2, 0]])
    flat = elmo(ids, word_ids)
    elmo.reset_states()
    deep = elmo(ids[:, None], word_ids[:, None])
    assert torch.equal(deep["elmo_representations"][0][:, 0], flat["elmo_representations"][0])
    assert deep["mask"].tolist() == [[[True, True]], [[True, False]]]


def test_elmo_ignores_word_ids_without_cached_vocabulary(tiny_pair: Any, caplog: pytest.LogCaptureFixture) -> None:
    elmo, ids = Elmo(*tiny_pair, 1).eval(), batch_to_ids(SENTENCES)
    expected = elmo(ids)["elmo_representations"][0]
    elmo.reset_states()
    assert torch.equal(elmo(ids, torch.ones(3, 4, dtype=torch.int64))["elmo_representations"][0], expected)
    assert "have no effect" in caplog.text


def test_elmo_with_scalar_mix_parameters_freezes_them(tiny_pair: Any) -> None:
    elmo = Elmo(*tiny_pair, 1, scalar_mix_parameters=[-9e10, 1, -9e10]).eval()
    ids = batch_to_ids(SENTENCES)
    chosen = elmo(ids)["elmo_representations"][0]
    elmo.reset_states()
    output = elmo._elmo_lstm(ids)
    torch.testing.assert_close(chosen, output["activations"][1][:, 1:-1] * output["mask"][:, 2:, None])
    assert not any(parameter.requires_grad for parameter in elmo.parameters())


def test_elmo_representations_are_equal_until_trained(tiny_pair: Any) -> None:
    elmo = Elmo(*tiny_pair, 2).eval()
    first, second = elmo(batch_to_ids(SENTENCES))["elmo_representations"]
    assert torch.equal(first, second)
    elmo.scalar_mix_1.scalar_parameters[0].data.fill_(3)
    first, second = elmo(batch_to_ids(SENTENCES))["elmo_representations"]
    assert not torch.allclose(first, second)


def test_elmo_draws_dropout_for_each_mix_in_training_only(tiny_pair: Any) -> None:
    elmo, ids = Elmo(*tiny_pair, 2, dropout=0.5), batch_to_ids(SENTENCES)
    torch.manual_seed(1)
    first, second = (x[0] for x in elmo(ids)["elmo_representations"])
    assert (first == 0).float().mean().item() == pytest.approx(0.5, abs=0.1)
    assert not torch.equal(first == 0, second == 0)
    # A new Elmo starts from zeros, like the first call above.
    whole = Elmo(*tiny_pair, 2, dropout=0.5).eval()(ids)["elmo_representations"][0][0]
    assert not (whole == 0).any()
    torch.testing.assert_close(first, torch.where(first == 0, 0.0, 2 * whole))


@pytest.mark.parametrize("requires_grad", [False, True])
def test_elmo_gradients_reach_trainable_parameters_only(tiny_pair: Any, requires_grad: bool) -> None:
    elmo, ids = Elmo(*tiny_pair, 1, requires_grad=requires_grad, dropout=0.0), batch_to_ids(SENTENCES)
    for _ in range(2):  # twice: no gradient may flow into the first pass
        elmo(ids)["elmo_representations"][0].square().sum().backward()
    reached = {name for name, parameter in elmo.named_parameters() if parameter.grad is not None}
    mixes = {"scalar_mix_0.scalar_parameters", "scalar_mix_0.gamma"}
    assert reached == ({name for name, _ in elmo.named_parameters()} if requires_grad else mixes)


def test_elmo_accepts_the_bilm_of_another_elmo(tiny_pair: Any) -> None:
    first = Elmo(*tiny_pair, 1).eval()
    second = Elmo(None, None, 2, module=first._elmo_lstm).eval()
    assert second.get_output_dim() == 32
    expected = first(batch_to_ids(SENTENCES))["elmo_representations"][0]
    second.reset_states()
    assert torch.equal(second(batch_to_ids(SENTENCES))["elmo_representations"][1], expected)


def test_elmo_accepts_any_module_with_activations_and_mask() -> None:
    class Ones(nn.Module):
        num_layers = 2

        def get_output_dim(self) -> int:
            return 4

        def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
            return {"activations": [torch.ones(1, 4, 4)] * 2, "mask": torch.tensor([[1, 1, 1, 0]])}

    output = Elmo(None, None, 1, module=Ones()).eval()(torch.ones(1, 2, 50))
    assert output["elmo_representations"][0].tolist() == [[[1.0] * 4, [0.0] * 4]]
    assert output["mask"].tolist() == [[True, False]]


def test_elmo_requires_either_files_or_a_module(tiny_pair: Any) -> None:
    with pytest.raises(InputError, match="both files must be None"):
        Elmo(*tiny_pair, 1, module=nn.Identity())
    with pytest.raises(InputError, match="give both options_file and weight_file"):
        Elmo(None, None, 1)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda elmo: pickle.loads(pickle.dumps(elmo))])
def test_copied_elmo_continues_with_its_own_state(tiny_pair: Any, copied: Callable[[Elmo], Elmo]) -> None:
    elmo, ids = Elmo(*tiny_pair, 1, vocab_to_cache=["@@PADDING@@", "a"]).eval(), batch_to_ids(SENTENCES)
    elmo(ids)
    other = copied(elmo)
    second = elmo(ids)["elmo_representations"][0]
    elmo(ids)
    assert torch.equal(other(ids)["elmo_representations"][0], second)


def test_data_parallel_replicas_have_all_parts_and_own_states(tiny_pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    elmo, ids = Elmo(*tiny_pair, 2, do_layer_norm=True).eval(), batch_to_ids(SENTENCES)
    expected = elmo(ids)["elmo_representations"]
    elmo.reset_states()
    # torch makes replicas on GPUs only, so only the copying between GPUs is replaced here.
    replicating = sys.modules["torch.nn.parallel.replicate"]
    monkeypatch.setattr(replicating, "_get_device_index", lambda device, _: device)
    monkeypatch.setattr(
        replicating,
        "_broadcast_coalesced_reshape",
        lambda tensors, devices, detach=False: [[tensor.clone() for tensor in tensors] for _ in devices],
    )
    for replica in nn.parallel.replicate(elmo, [0, 1]):
        for representation, own in zip(replica(ids)["elmo_representations"], expected, strict=True):
            assert torch.equal(representation, own)
    assert elmo._elmo_lstm._elmo_lstm._states is None  # each replica has a state of its own


def test_token_embedder_returns_the_only_representation(tiny_pair: Any) -> None:
    ids = batch_to_ids(SENTENCES)
    embedder = ElmoTokenEmbedder(*tiny_pair).eval()
    assert embedder.get_output_dim() == 32
    vectors = embedder(elmo_tokens=ids)
    assert torch.equal(vectors, Elmo(*tiny_pair, 1).eval()(ids)["elmo_representations"][0])


def test_token_embedder_projects_to_projection_dim(tiny_pair: Any) -> None:
    embedder = ElmoTokenEmbedder(*tiny_pair, projection_dim=7, requires_grad=True, dropout=0.0)
    assert embedder.get_output_dim() == 7
    vectors = embedder(batch_to_ids(SENTENCES).unflatten(0, (3, 1)))
    assert vectors.shape == (3, 1, 4, 7)
    vectors.sum().backward()
    assert all(parameter.grad is not None for parameter in embedder.parameters())


def test_new_scalar_mix_is_the_average() -> None:
    layers = list(torch.randn(3, 2, 5, 4))
    torch.testing.assert_close(ScalarMix(3)(layers), sum(layers) / 3)


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=3), st.floats(-3, 3))
def test_scalar_mix_equals_its_equation(scalars: list[float], gamma: float) -> None:
    layers = torch.linspace(-1, 2, 3 * 4 * 8).reshape(3, 4, 8)
    scalar_mix = ScalarMix(3, initial_scalar_parameters=scalars)
    scalar_mix.gamma.data.fill_(gamma)
    expected = reference_mix([layer.double().numpy() for layer in layers], scalars, gamma)
    np.testing.assert_allclose(scalar_mix(list(layers)).detach().numpy(), expected, rtol=0, atol=5e-6)


def test_scalar_mix_layer_norm_ignores_padding() -> None:
    layers = torch.randn(2, 3, 5, 4)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]).bool()
    mixed = ScalarMix(2, do_layer_norm=True)(list(layers), mask)
    normalised = [
        masked_batch_norm([x[m].double().numpy() for x, m in zip(layer, mask, strict=True)]) for layer in layers
    ]
    for row, (first, second) in enumerate(zip(*normalised, strict=True)):
        np.testing.assert_allclose(mixed[row][mask[row]].detach().numpy(), (first + second) / 2, rtol=0, atol=5e-6)


def test_scalar_mix_layer_norm_accepts_any_shape() -> None:
    layers, mask = torch.randn(2, 6, 5, 4), torch.rand(6, 5) > 0.3
    scalar_mix = ScalarMix(2, do_layer_norm=True)
    flat = scalar_mix(list(layers), mask)
    deep = scalar_mix(list(layers.unflatten(1, (2, 3))), mask.unflatten(0, (2, 3)))
    torch.testing.assert_close(deep.flatten(0, 1), flat)


def test_scalar_parameters_are_a_list_and_one_parameter() -> None:
    scalar_mix = ScalarMix(3, initial_scalar_parameters=[0.1, 0.2, 0.3])
    assert [scalar.shape for scalar in scalar_mix.scalar_parameters] == [(1,)] * 3
    assert torch.cat(list(scalar_mix.scalar_parameters)).tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert [name for name, _ in scalar_mix.named_parameters()] == ["scalar_parameters", "gamma"]
    scalar_mix.scalar_parameters[1].data.fill_(7)
    assert scalar_mix.scalar_parameters[1].item() == 7


def test_scalar_mix_parameters_follow_trainable() -> None:
    assert not any(p.requires_grad for p in ScalarMix(3, trainable=False).parameters())
    trained = ScalarMix(3)
    trained(list(torch.randn(3, 2, 4))).sum().backward()
    assert trained.scalar_parameters.grad is not None
    assert trained.gamma.grad is not None


def test_scalar_mix_loads_state_dict_with_a_list() -> None:
    old = {f"scalar_parameters.{k}": torch.tensor([float(k)]) for k in range(3)} | {"gamma": torch.tensor([2.0])}
    # A copy: hooks must be copied with the module.
    scalar_mix = copy.deepcopy(ScalarMix(3))
    scalar_mix.load_state_dict(old)
    assert scalar_mix.scalar_parameters.flatten().tolist() == [0, 1, 2]
    assert scalar_mix.gamma.item() == 2
    assert "scalar_parameters.0" in old
    again = ScalarMix(3)
    again.load_state_dict(scalar_mix.state_dict())
    assert torch.equal(again.scalar_parameters, scalar_mix.scalar_parameters)


def test_scalar_mix_rejects_state_dict_of_another_size() -> None:
    with pytest.raises(RuntimeError, match=r"scalar_parameters"):
        ScalarMix(3).load_state_dict({"scalar_parameters.0": torch.zeros(1), "gamma": torch.ones(1)})


def test_scalar_mix_rejects_wrong_numbers_of_layers() -> None:
    with pytest.raises(InputError, match="has 2 numbers; a mix of 3 layers needs 3"):
        ScalarMix(3, initial_scalar_parameters=[1.0, 2.0])
    with pytest.raises(InputError, match="takes 3 layers, not 2"):
        ScalarMix(3)(list(torch.zeros(2, 4, 4)))
    with pytest.raises(InputError, match="needs the mask"):
        ScalarMix(2, do_layer_norm=True)(list(torch.zeros(2, 4, 4)))


# Copied from AllenNLP 0.9.0; the default files of the token embedder from 2.10.1.
SIGNATURES = {
    allennlp.Elmo: "options_file weight_file num_output_representations requires_grad=False do_layer_norm=False "
    "dropout=0.5 vocab_to_cache=None keep_sentence_boundaries=False scalar_mix_parameters=None module=None",
    allennlp.Elmo.forward: "self inputs word_inputs=None",
    allennlp._ElmoBiLm: "options_file weight_file requires_grad=False vocab_to_cache=None",
    allennlp._ElmoBiLm.forward: "self inputs word_inputs=None",
    allennlp._ElmoBiLm.create_cached_cnn_embeddings: "self tokens",
    allennlp.ElmoTokenEmbedder: f"options_file={allennlp.DEFAULT_OPTIONS_FILE} "
    f"weight_file={allennlp.DEFAULT_WEIGHT_FILE} do_layer_norm=False dropout=0.5 requires_grad=False "
    "projection_dim=None vocab_to_cache=None scalar_mix_parameters=None",
    allennlp.ElmoTokenEmbedder.forward: "self elmo_tokens word_inputs=None",
    allennlp.ElmoEmbedder: f"options_file={allennlp.DEFAULT_OPTIONS_FILE} "
    f"weight_file={allennlp.DEFAULT_WEIGHT_FILE} cuda_device=-1",
    allennlp.ElmoEmbedder.embed_sentence: "self sentence",
    allennlp.ElmoEmbedder.embed_batch: "self batch",
    allennlp.ElmoEmbedder.batch_to_embeddings: "self batch",
    allennlp.ElmoEmbedder.embed_sentences: "self sentences batch_size=64",
    allennlp.ElmoEmbedder.embed_file: "self input_file output_file_path output_format=all batch_size=64 "
    "forget_sentences=False use_sentence_keys=False",
    allennlp.batch_to_ids: "batch",
    allennlp.ScalarMix: "mixture_size do_layer_norm=False initial_scalar_parameters=None trainable=True",
    allennlp.ScalarMix.forward: "self tensors mask=None",
}


@pytest.mark.parametrize(("thing", "expected"), SIGNATURES.items())
def test_signatures_equal_allennlp(thing: Callable[..., Any], expected: str) -> None:
    parameters = inspect.signature(thing).parameters.values()
    assert all(p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters)
    assert " ".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in parameters) == expected


def test_default_files_are_the_published_original_model() -> None:
    folder = "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/"
    files = [allennlp.DEFAULT_OPTIONS_FILE, allennlp.DEFAULT_WEIGHT_FILE]
    assert files == [f"{folder}elmo_2x4096_512_2048cnn_2xhighway_{name}" for name in ("options.json", "weights.hdf5")]


def assert_close(actual: Tensor, expected: NDArray[Any]) -> None:
    np.testing.assert_allclose(actual.detach(), expected, rtol=0, atol=TOLERANCE)
