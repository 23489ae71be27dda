"""Elmo as a module: mixes, gradients, freezing, saving."""

from pathlib import Path

import numpy as np
import pytest
import torch

from elmore import Elmo, Embedder, LayerMix
from elmore.errors import FormatError, InputError
from elmore.network.mix import normalize_masked_batch

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
    forward = type(elmo.network).forward

    def counted(*arguments, **options):
        nonlocal passes
        passes += 1
        return forward(*arguments, **options)

    monkeypatch.setattr(type(elmo.network), "forward", counted)
    (first, second, third), _ = elmo(SENTENCES)
    assert passes == 1
    layers = Embedder.from_pretrained("tiny-random").encode([SENTENCES[0]], layers="all")[0]
    np.testing.assert_allclose(first[0].detach(), layers[0], atol=1e-6)
    np.testing.assert_allclose(second[0].detach(), layers[1], atol=1e-6)
    np.testing.assert_allclose(third[0].detach(), 2 * layers.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize(
    ("requires_grad", "trained"),
    [
        (False, {"mixes"}),
        (True, {"mixes", "network.words", "network.lstm"}),
        (["lstm"], {"mixes", "network.lstm"}),
        (["words"], {"mixes", "network.words"}),
    ],
)
def test_gradients_reach_what_is_to_be_trained_and_nothing_else(requires_grad, trained: set[str]) -> None:
    elmo = Elmo.from_pretrained("tiny-random", mixes=2, dropout=0.0, requires_grad=requires_grad, projection=7)
    mixed, _ = elmo(SENTENCES)
    torch.stack(mixed).square().sum().backward()
    for name, parameter in elmo.named_parameters():
        wanted = name.startswith((*trained, "projections"))
        assert (parameter.grad is not None and parameter.grad.abs().sum() > 0) == wanted, name


def test_frozen_mixes_stay_as_they_are() -> None:
    elmo = Elmo.from_pretrained("tiny-random", mixes=[LayerMix(3, weights=[0.2, 0.3, 0.5], trainable=False)])
    assert not any(parameter.requires_grad for parameter in elmo.parameters())


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


def test_normalisation_counts_the_boundaries_as_the_peers_do(tiny: Embedder) -> None:
    elmo = Elmo.from_pretrained("tiny-random", mixes=[LayerMix(3, normalize="masked-batch")]).eval()
    layers = tiny.layers(tiny.batch(SENTENCES))
    normal = normalize_masked_batch(layers.stack(boundaries=True), layers.mask(boundaries=True)).mean(dim=0)
    torch.testing.assert_close(elmo(SENTENCES).mixed[0][0], normal[0, 1:5])


def test_a_batch_made_by_workers_gives_the_same() -> None:
    elmo = Elmo.from_pretrained("tiny-random").eval()
    torch.testing.assert_close(elmo(elmo.batch(SENTENCES)).mixed[0], elmo(SENTENCES).mixed[0])


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
    ("options", "complaint"),
    [
        ({"mixes": 0}, "at least one"),
        ({"mixes": [LayerMix(2)]}, "3 layers"),
        ({"requires_grad": ["cnn"]}, "requires_grad"),
        ({"requires_grad": "lstm"}, "requires_grad"),
    ],
)
def test_a_wrong_option_is_named(options: dict, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Elmo.from_pretrained("tiny-random", **options)


def test_a_bare_string_is_refused() -> None:
    with pytest.raises(InputError, match="list of sentences"):
        Elmo.from_pretrained("tiny-random")("one string")
