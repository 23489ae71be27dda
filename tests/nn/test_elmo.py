"""Elmo as a module: mixes, gradients, freezing, saving."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from elmore import Elmo, Embedder, LayerMix
from elmore.errors import FormatError, InputError
from elmore.nn.mix import normalize_masked_batch
from elmore.nn.pretrained import PretrainedBiLM, WordBatch

SENTENCES = [["I", "took", "a", "bow"], ["Me", "too"]]


def test_an_untrained_mix_is_the_average_of_the_layers(tiny: Embedder) -> None:
    elmo = Elmo.from_pretrained("tiny-random").eval()
    (mixed,), mask = elmo(SENTENCES)
    assert mask.tolist() == [[True] * 4, [True, True, False, False]]
    for row, words, expected in zip(mixed, SENTENCES, tiny.encode(SENTENCES), strict=True):
        np.testing.assert_allclose(row[: len(words)].detach(), expected, atol=1e-6)
    assert not mixed[1, 2:].any()


def test_several_mixes_come_from_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    mixes = [LayerMix(3, weights=[1, 0, 0]), LayerMix(3, scalars=[-9e10, 1.0, -9e10]), LayerMix(3, gamma=2.0)]
    elmo = Elmo.from_pretrained("tiny-random", mixes=mixes).eval()
    passes = 0
    layers = PretrainedBiLM.layers

    def counted(*arguments, **options):
        nonlocal passes
        passes += 1
        return layers(*arguments, **options)

    monkeypatch.setattr(PretrainedBiLM, "layers", counted)
    (first, second, third), _ = elmo(SENTENCES)
    assert passes == 1
    layers = Embedder.from_pretrained("tiny-random").encode([SENTENCES[0]], layers="all")[0]
    np.testing.assert_allclose(first[0].detach(), layers[0], atol=1e-6)
    np.testing.assert_allclose(second[0].detach(), layers[1], atol=1e-6)
    np.testing.assert_allclose(third[0].detach(), 2 * layers.mean(axis=0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("requires_grad", "trained"),
    [
        (False, {"mixes"}),
        (True, {"mixes", "network.words", "network.lstm"}),
        (["lstm"], {"mixes", "network.lstm"}),
        (["words"], {"mixes", "network.words"}),
        (["lstm.0"], {"mixes", "network.lstm.0"}),
        (["lstm.1", "words"], {"mixes", "network.lstm.1", "network.words"}),
        ([], {"mixes"}),
    ],
)
def test_gradients_reach_what_is_to_be_trained_and_nothing_else(requires_grad, trained: set[str]) -> None:
    elmo = Elmo.from_pretrained("tiny-random", mixes=2, dropout=0.0, requires_grad=requires_grad, projection=7)
    mixed, _ = elmo(SENTENCES)
    torch.stack(mixed).square().sum().backward()
    for name, parameter in elmo.named_parameters():
        wanted = name.startswith((*trained, "projections"))
        assert (parameter.grad is not None and parameter.grad.abs().sum() > 0) == wanted, name


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("gamma", [True, False])
def test_weights_and_gamma_of_a_mix_are_frozen_apart(weights: bool, gamma: bool, tmp_path: Path) -> None:
    mix = LayerMix(3, weights=[0.2, 0.3, 0.5], train_weights=weights, train_gamma=gamma)
    elmo = Elmo.from_pretrained("tiny-random", mixes=[mix])
    elmo.save_pretrained(tmp_path / "saved")
    for own in (elmo, Elmo.from_pretrained(tmp_path / "saved")):
        assert own.mixes[0].scalars.requires_grad == weights
        assert own.mixes[0].gamma.requires_grad == gamma
        assert not any(parameter.requires_grad for parameter in own.network.parameters())


def test_elmo_uses_engine_only_without_gradients() -> None:
    for requires_grad in (False, ["lstm"], ["words"], True):
        elmo = Elmo.from_pretrained("tiny-random", requires_grad=requires_grad)
        elmo(SENTENCES)
        assert (elmo.network._engine is None) == bool(requires_grad)
        with torch.no_grad():
            elmo.eval()(SENTENCES)
        assert elmo.network._engine is not None


def test_kernels_asked_for_by_name_give_the_same_vectors() -> None:
    elmo = Elmo.from_pretrained("tiny-random", requires_grad=True, dropout=0.0)
    (chosen,), _ = elmo(SENTENCES)
    elmo.network.use_kernels("reference")
    (plain,), _ = elmo(SENTENCES)
    assert not torch.equal(chosen, plain)
    torch.testing.assert_close(chosen, plain, rtol=1e-5, atol=1e-6)
    elmo.network.use_kernels("unknown")
    with pytest.raises(InputError, match="no kernels 'unknown'"):
        elmo(SENTENCES)


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="the device 'cuda:77' cannot be used here"):
        Elmo.from_pretrained("tiny-random", device="cuda:77")


def test_it_fits_on_a_line() -> None:
    elmo = Elmo.from_pretrained("tiny-random", mixes=2, projection=7)
    assert repr(elmo) == "Elmo('tiny-random', dim=7, mixes=2, dropout=0.5, trained=470)"


def test_dropout_works_in_training_only() -> None:
    elmo = Elmo.from_pretrained("tiny-random", dropout=0.5)
    torch.manual_seed(0)
    dropped = elmo.train()(SENTENCES).mixed[0][0]
    assert 0.3 < (dropped == 0).float().mean() < 0.7
    assert (elmo.eval()(SENTENCES).mixed[0][0] != 0).all()


def test_boundaries_are_kept_when_asked() -> None:
    inside = Elmo.from_pretrained("tiny-random").eval()(SENTENCES)
    kept = Elmo.from_pretrained("tiny-random", boundaries=True).eval()(SENTENCES)
    assert kept.mixed[0].shape == (2, 6, 32)
    assert kept.mask.sum() == inside.mask.sum() + 4
    torch.testing.assert_close(kept.mixed[0][:, 1:5][inside.mask], inside.mixed[0][inside.mask])


def test_normalisation_counts_the_boundaries_as_allennlp_does() -> None:
    elmo = Elmo.from_pretrained("tiny-random", mixes=[LayerMix(3, normalize="masked-batch")]).eval()
    layers = elmo.network.layers(elmo.batch(SENTENCES), boundaries=True)
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    normal = normalize_masked_batch(layers, mask).mean(dim=0)
    torch.testing.assert_close(elmo(SENTENCES).mixed[0][0], normal[0, 1:5])


@pytest.mark.parametrize("requires_grad", [False, True])
def test_batches_of_dataloader_workers_give_the_same(requires_grad: bool) -> None:
    elmo = Elmo.from_pretrained("tiny-random", requires_grad=requires_grad, dropout=0.0)
    loader = DataLoader(SENTENCES, batch_size=2, collate_fn=elmo.batch, num_workers=1)  # type: ignore[arg-type]
    (batch,) = loader
    assert isinstance(batch, WordBatch)
    assert torch.equal(elmo(batch).mixed[0], elmo(SENTENCES).mixed[0])


def test_a_trained_elmo_comes_back_with_its_mixes(tmp_path: Path) -> None:
    elmo = Elmo.from_pretrained(
        "tiny-random",
        mixes=[LayerMix(3), LayerMix(3, normalize="token")],
        requires_grad=True,
        projection=6,
        dropout=0.2,
    )
    optimizer = torch.optim.Adam(elmo.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        sum(mixed.square().sum() for mixed in elmo(SENTENCES).mixed).backward()
        optimizer.step()
    elmo.save_pretrained(tmp_path / "saved")
    again = Elmo.from_pretrained(tmp_path / "saved")
    assert again.dropout.p == 0.2
    assert [mix.normalize for mix in again.mixes] == [None, "token"]
    for before, after in zip(elmo.eval()(SENTENCES).mixed, again.eval()(SENTENCES).mixed, strict=True):
        torch.testing.assert_close(after, before)
    fresh = Elmo.from_pretrained(tmp_path / "saved", mixes=1)
    assert fresh.mixes[0].weights.tolist() == pytest.approx([1 / 3] * 3)
    assert Embedder.from_pretrained(tmp_path / "saved").dim == 32


def test_mixes_that_do_not_fit_are_named(tmp_path: Path) -> None:
    elmo = Elmo.from_pretrained("tiny-random", mixes=2)
    elmo.save_pretrained(tmp_path / "saved")
    card = tmp_path / "saved" / "card.json"
    card.write_text(card.read_text().replace('"projection": null', '"projection": 5'))
    with pytest.raises(FormatError, match=r"mixes do not fit.*projections"):
        Elmo.from_pretrained(tmp_path / "saved")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"dropout": 2}, r"card\.json: elmo\.dropout is 2; it must be a number from 0 to 1"),
        ({"boundaries": 1}, r"elmo\.boundaries is 1; it must be true or false"),
        ({"projection": "five"}, r"elmo\.projection is 'five'; it must be a whole number, at least 1"),
        ({"mixes": 2}, r"elmo\.mixes is 2; it must be a list, each of it a table of fields"),
        (
            {"mixes": [{}, {"normalize": "batch"}]},
            r"elmo\.mixes\[1\]\.normalize is 'batch'; it must be token or masked",
        ),
        ({"mixes": [{"trainable": True}]}, r"unknown field elmo\.mixes\[0\]\.trainable"),
        ({"gamma": 1}, r"unknown field elmo\.gamma; known are dropout"),
    ],
)
def test_settings_that_make_no_sense_are_named(tmp_path: Path, change: dict, complaint: str) -> None:
    Elmo.from_pretrained("tiny-random").save_pretrained(tmp_path / "saved")
    path = tmp_path / "saved" / "card.json"
    card = json.loads(path.read_text())
    card["elmo"] |= change
    path.write_text(json.dumps(card))
    with pytest.raises(FormatError, match=complaint):
        Elmo.from_pretrained(tmp_path / "saved")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"mixes": 0}, "at least one"),
        ({"mixes": [LayerMix(2)]}, "3 layers"),
        ({"requires_grad": ["cnn"]}, "requires_grad"),
        ({"requires_grad": "lstm"}, "requires_grad"),
        ({"requires_grad": ["lstm.2"]}, r"some of \['words', 'lstm', 'lstm.0', 'lstm.1'\]"),
    ],
)
def test_a_wrong_option_is_named(options: dict, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Elmo.from_pretrained("tiny-random", **options)


def test_a_bare_string_is_refused() -> None:
    with pytest.raises(InputError, match="list of sentences"):
        Elmo.from_pretrained("tiny-random")("one string")


class Tagger(torch.nn.Module):
    """Somebody's own model, with ELMo at the bottom."""

    def __init__(self) -> None:
        super().__init__()
        self.elmo = Elmo.from_pretrained("tiny-random", dropout=0.0)
        self.top = torch.nn.Linear(32, 5)

    def forward(self, batch: WordBatch) -> torch.Tensor:
        (mixed,), mask = self.elmo(batch)
        return self.top(mixed) * mask[..., None]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # dynamo's own
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
def test_a_compiled_model_gives_the_same_and_is_not_compiled_anew_for_every_length() -> None:
    tagger = Tagger()
    compiled = torch.compile(tagger, backend="eager")
    counters = torch._dynamo.utils.counters
    graphs = []
    for lengths in ([4, 2], [3, 1, 6], [5, 8, 2, 3], [9, 2, 7, 4, 3], [2, 6]):
        batch = tagger.elmo.batch([["word"] * length for length in lengths])
        scores = compiled(batch)
        torch.testing.assert_close(scores, tagger(batch))
        (gradient,) = torch.autograd.grad(scores.square().sum(), tagger.elmo.mixes[0].scalars)
        assert gradient.any()
        graphs.append(counters["stats"]["unique_graphs"])
    # What stands above ELMo, for the first shape and then for any.
    assert graphs[-1] - graphs[0] == 1


def test_an_export_is_refused() -> None:
    """It would hold for sentences of these lengths and no others."""
    elmo = Elmo.from_pretrained("tiny-random")
    # A sentence of torch's own, in the words of now and of before.
    with pytest.raises(Exception, match=r"Unsupported input type.*Batch|skip function disable"):
        torch.export.export(elmo, (elmo.batch(SENTENCES),))


def test_a_notebook_shows_what_the_mixes_have_learnt() -> None:
    elmo = Elmo.from_pretrained("tiny-random", mixes=[LayerMix(3, weights=[0.25, 0.25, 0.5], train_gamma=False)])
    shown = elmo._repr_html_()
    assert shown.startswith("<table><caption>Elmo tiny-random</caption>")
    assert "<tr><th>mix 0</th><td>25.0% 25.0% 50.0%</td></tr>" in shown
    assert "<tr><th>trained parameters</th><td>3</td></tr>" in shown


@pytest.mark.parametrize("size", [0, -3, 2.5])
def test_a_projection_to_nothing_is_refused(size: float) -> None:
    with pytest.raises(InputError, match=f"projection is {size}; it must be a whole number, at least 1"):
        Elmo.from_pretrained("tiny-random", projection=size)
