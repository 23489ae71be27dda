"""Training updates equal to those of the original code, and gradients equal to a plain reference."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from elmore.config import CharacterConfig, ModelConfig, tensor_shapes
from elmore.engine.rows import PackedRows
from elmore.nn import bilm, language_model
from elmore.nn.bilm import StateTensors
from elmore.nn.cross_entropy import Candidates
from elmore.nn.language_model import LanguageModel, initialize
from elmore.nn.recurrence import run_by_autograd
from elmore.nn.word_encoder import WordIdTensors

TINY = ModelConfig(
    characters=CharacterConfig(embedding_dim=3, filters=((1, 4), (2, 4)), max_characters=8, num_highways=1),
    vector_dim=4,
    cell_dim=6,
    cell_clip=0.4,
    projection_clip=0.3,
)


class TestThreeUpdatesOfBilmTf:
    """Dropout 0, full softmax, Adagrad, clipping active, state carried: fixtures/training."""

    OPTIONS = ModelConfig(
        characters=CharacterConfig(embedding_dim=4, filters=((1, 4), (2, 8), (3, 8)), num_highways=2),
        vector_dim=8,
        cell_dim=16,
    )

    @pytest.fixture
    def steps(self, fixtures: Path):
        return np.load(fixtures / "training" / "train_steps.npz")

    def named(self, steps, moment: str) -> dict[str, torch.Tensor]:
        """The original's variables under our names, by the table of section 7.5 of the format notes."""

        def get(name: str) -> torch.Tensor:
            return torch.from_numpy(steps[f"{moment}/lm/{name}"])

        found = {"network.words.characters": get("char_embed")}
        for i in range(3):
            found[f"network.words.convolutions.{i}.weight"] = get(f"CNN/W_cnn_{i}")[0].permute(2, 1, 0)
            found[f"network.words.convolutions.{i}.bias"] = get(f"CNN/b_cnn_{i}")
        for k in range(2):
            for ours, theirs in (("gate", "carry"), ("transform", "transform")):
                found[f"network.words.highways.{k}.{ours}.weight"] = get(f"CNN_high_{k}/W_{theirs}").T
                found[f"network.words.highways.{k}.{ours}.bias"] = get(f"CNN_high_{k}/b_{theirs}")
        found["network.words.projection.weight"] = get("CNN_proj/W_proj").T
        found["network.words.projection.bias"] = get("CNN_proj/b_proj")
        for layer in range(2):
            cells = [f"RNN_{d}/rnn/multi_rnn_cell/cell_{layer}/lstm_cell" for d in range(2)]
            kernels = torch.stack([get(f"{cell}/kernel") for cell in cells])
            found[f"network.lstm.{layer}.input"] = kernels[:, :8]
            found[f"network.lstm.{layer}.recurrent"] = kernels[:, 8:]
            found[f"network.lstm.{layer}.bias"] = torch.stack([get(f"{cell}/bias") for cell in cells])
            found[f"network.lstm.{layer}.projection"] = torch.stack([get(f"{c}/projection/kernel") for c in cells])
        found["softmax_weight"], found["softmax_bias"] = get("softmax/W"), get("softmax/b")
        return found

    def test_losses_and_weights_after_each_update_are_those_of_the_original(self, fixtures: Path, steps) -> None:
        options = json.loads((fixtures / "training" / "options.json").read_text())
        model = LanguageModel(self.OPTIONS, classes=options["n_tokens_vocab"])
        model.load_state_dict(self.named(steps, "initial"))
        optimizer = torch.optim.Adagrad(model.parameters(), lr=0.2, initial_accumulator_value=1.0, eps=1e-10)
        state = StateTensors.zeros(self.OPTIONS, rows=2)
        for step in (1, 2, 3):
            batch = {key: torch.from_numpy(steps[f"batch{step}/{key}"]).long() for key in BATCH}
            characters = torch.stack([batch["tokens_characters"], batch["tokens_characters_reverse"]])
            distinct, where = torch.unique(characters.flatten(0, 2), dim=0, return_inverse=True)
            targets = torch.stack([batch["next_token_id"], batch["next_token_id_reverse"]])
            losses, state = model(
                WordIdTensors(distinct, None), where.view(2, 2, 10).transpose(1, 2), targets.transpose(1, 2), state
            )
            assert losses.mean().exp().item() == pytest.approx(float(steps[f"train_perplexity{step}"]), rel=2e-6)
            optimizer.zero_grad()
            (losses.mean() * options["unroll_steps"]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), options["all_clip_norm_val"])
            optimizer.step()
            for name, expected in self.named(steps, f"step{step}").items():
                torch.testing.assert_close(model.state_dict()[name], expected, atol=2e-6, rtol=0, msg=name)


BATCH = ("tokens_characters", "tokens_characters_reverse", "next_token_id", "next_token_id_reverse")


def window(model: LanguageModel, *, rows: int = 3, steps: int = 5) -> tuple[WordIdTensors, torch.Tensor, torch.Tensor]:
    words = torch.randint(0, 261, (7, TINY.characters.max_characters))
    shape = (model.config.num_directions, steps, rows)
    return WordIdTensors(words, None), torch.randint(0, 7, shape), torch.randint(0, len(model.softmax_bias), shape)


def plain_losses(model: LanguageModel, words, inputs, targets, state, candidates) -> torch.Tensor:
    """The same, by autograd through the plain recurrence and torch's own cross-entropy."""
    x = model.network.words.encode(words)[inputs]  # (G, T, R, P)
    for number, layer in enumerate(model.network.lstm):
        y, _ = run_by_autograd(layer.weights(), x, [x.shape[1]] * x.shape[2], (state.h[number], state.c[number]))
        x = x + y if number else y
    scores = x @ model.softmax_weight.T + model.softmax_bias
    if candidates is None:
        return torch.stack(
            [
                torch.nn.functional.cross_entropy(s.flatten(0, 1), t.flatten())
                for s, t in zip(scores, targets, strict=True)
            ]
        )
    scores = scores - candidates.log_expected_counts
    allowed = torch.zeros(scores.shape[-1], dtype=torch.bool)
    allowed[candidates.classes] = True
    allowed = allowed | torch.nn.functional.one_hot(targets, scores.shape[-1]).bool()
    right = scores.gather(-1, targets[..., None])[..., 0]
    return (scores.masked_fill(~allowed, -torch.inf).logsumexp(-1) - right).flatten(1).mean(dim=1)


@pytest.mark.parametrize("sampled", [False, True])
def test_loss_and_every_gradient_equal_a_plain_reference_in_float64(sampled: bool) -> None:
    torch.manual_seed(1)
    model = LanguageModel(TINY, classes=11).double()
    initialize(model, torch.Generator().manual_seed(1))
    words, inputs, targets = window(model)
    shape = (2, 2, 3)
    state = StateTensors(torch.rand(*shape, 4).double() - 0.5, torch.rand(*shape, 6).double() - 0.5)
    candidates = Candidates(torch.tensor([0, 3, 4, 9]), -torch.rand(11).double()) if sampled else None
    losses, _ = model(words, inputs, targets, state, candidates=candidates, dtype=torch.float64)
    ours = torch.autograd.grad(losses.mean(), model.parameters())
    expected = plain_losses(model, words, inputs, targets, state, candidates)
    torch.testing.assert_close(losses, expected, rtol=1e-12, atol=0)
    theirs = torch.autograd.grad(expected.mean(), model.parameters())
    for (name, _), a, b in zip(model.named_parameters(), ours, theirs, strict=True):
        assert a.abs().sum() > 0, name
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12, msg=name)


def test_the_gradient_of_a_frequent_word_is_summed_in_float32_also_in_bfloat16() -> None:
    """Of its places each has a gradient in bfloat16; their sum is gathered where it is not rounded."""
    config = ModelConfig(
        characters=None, vocab_size=2, word_embedding_dim=4, token_projection=False, vector_dim=4, cell_dim=6
    )
    model = LanguageModel(config, classes=3)
    initialize(model, torch.Generator().manual_seed(3))
    places = (2, 3, 50)
    inputs, targets = torch.ones(places, dtype=torch.int64), torch.arange(300).view(places) % 3
    slopes = []
    for dtype in (torch.float32, torch.bfloat16):
        words = WordIdTensors(None, torch.arange(2))
        losses, _ = model(words, inputs, targets, StateTensors.zeros(config, rows=50), dtype=dtype)
        slopes.append(torch.autograd.grad(losses.sum(), model.network.words.table)[0])
    exact, summed = slopes
    torch.testing.assert_close(summed, exact, rtol=0.05, atol=1e-3)
    assert not torch.equal(summed, summed.bfloat16().float())


def test_two_windows_with_the_state_handed_on_are_one_long_window() -> None:
    torch.manual_seed(2)
    model = LanguageModel(TINY, classes=11)
    initialize(model, torch.Generator().manual_seed(2))
    words, inputs, targets = window(model, steps=8)
    start = StateTensors.zeros(TINY, rows=3)
    whole, end = model(words, inputs, targets, start)
    first, state = model(words, inputs[:, :3], targets[:, :3], start)
    second, state = model(words, inputs[:, 3:], targets[:, 3:], state)
    torch.testing.assert_close((3 * first + 5 * second) / 8, whole)
    torch.testing.assert_close(state.c, end.c)
    assert not state.h.requires_grad


class TestDropout:
    """Where it is applied, and where it is not: on the input of every LSTM layer, and on what the softmax reads."""

    @pytest.fixture
    def model(self) -> LanguageModel:
        model = LanguageModel(TINY, classes=11).double().train()
        initialize(model, torch.Generator().manual_seed(6))
        return model

    def test_losses_are_those_of_the_plain_recurrence_with_the_same_masks(self, model, monkeypatch) -> None:
        """Masks drawn in the order of the layers, then that of the top; the skip connection adds what was dropped."""
        words, inputs, targets = window(model)
        start = StateTensors.zeros(TINY, rows=3).to(torch.float64)
        torch.manual_seed(7)
        losses, _ = model(words, inputs, targets, start, dropout=0.5, dtype=torch.float64)
        torch.manual_seed(7)
        x = model.network.words.encode(words)[inputs]
        for number, layer in enumerate(model.network.lstm):
            x = x * mask_like(x)
            y, _ = run_by_autograd(layer.weights(), x, [5] * 3, (start.h[number], start.c[number]))
            x = x + y if number else y
        scores = (x * mask_like(x)) @ model.softmax_weight.T + model.softmax_bias
        expected = [
            torch.nn.functional.cross_entropy(s.flatten(0, 1), t.flatten())
            for s, t in zip(scores, targets, strict=True)
        ]
        torch.testing.assert_close(losses, torch.stack(expected), rtol=1e-12, atol=0)

    def test_every_pass_draws_other_masks(self, model, monkeypatch) -> None:
        drawn = []
        real = torch.nn.functional.dropout
        for module in (bilm, language_model):
            monkeypatch.setattr(module, "drop_out", lambda x, p: drawn.append(real(torch.ones_like(x), p)) or x)
        words, inputs, targets = window(model)
        start = StateTensors.zeros(TINY, rows=3).to(torch.float64)
        for _ in range(2):
            model(words, inputs, targets, start, dropout=0.5, dtype=torch.float64)
        assert len(drawn) == 2 * 3  # two layers and the top
        assert not any(torch.equal(a, b) for n, a in enumerate(drawn) for b in drawn[:n])

    def test_there_is_none_in_evaluation(self, model) -> None:
        words, inputs, targets = window(model)
        start = StateTensors.zeros(TINY, rows=3).to(torch.float64)
        exact = {"dtype": torch.float64}
        without = model(words, inputs, targets, start, **exact)[0]
        assert torch.equal(model.eval()(words, inputs, targets, start, dropout=0.5, **exact)[0], without)
        assert not torch.equal(model.train()(words, inputs, targets, start, dropout=0.5, **exact)[0], without)


def mask_like(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(torch.ones_like(x), 0.5)


def test_first_values_are_those_of_the_original_code() -> None:
    config = ModelConfig(vector_dim=32, cell_dim=128)
    model = LanguageModel(config, classes=500)
    initialize(model, torch.Generator().manual_seed(4))
    values = dict(model.named_parameters())
    assert set(tensor_shapes(config)) == {name.removeprefix("network.") for name in values if "softmax" not in name}
    assert (values["network.words.highways.0.gate.bias"] == -2).all()
    assert (values["network.lstm.1.bias"] == 0).all()
    assert values["network.words.convolutions.3.weight"].abs().max() <= 0.05
    assert values["network.words.highways.1.transform.weight"].std().item() == pytest.approx(2048**-0.5, rel=0.02)
    assert values["softmax_weight"].std().item() == pytest.approx(32**-0.5, rel=0.05)
    bound = (6 / (64 + 512)) ** 0.5
    assert bound * 0.99 < values["network.lstm.0.input"].abs().max() <= bound


def test_the_backward_direction_reads_the_other_way_as_the_embedder_does() -> None:
    """A window in reading order gives what the biLM gives for the same words from the same state."""
    torch.manual_seed(5)
    model = LanguageModel(TINY, classes=11)
    initialize(model, torch.Generator().manual_seed(5))
    words = torch.randint(0, 261, (7, TINY.characters.max_characters))
    rows = torch.randint(0, 7, (2, 6))
    rows[:, 0], rows[:, -1] = 0, 1
    inputs = torch.stack([rows, rows.flip(1)]).transpose(1, 2)  # (G, T, R)
    packed = PackedRows.one_per_row(rows[:, 1:-1].flatten().numpy(), np.array([4, 4]), boundaries=(0, 1))
    vectors = model.network.words.encode(WordIdTensors(words, None))
    trained, after = model.network.run_lstm(vectors[inputs], [6, 6], StateTensors.zeros(TINY, rows=2))
    layers, read_after = model.network.run(vectors, packed, StateTensors.zeros(TINY, rows=2))
    forward, backward = trained[-1].transpose(1, 2)
    torch.testing.assert_close(layers[2], torch.cat([forward, backward.flip(1)], dim=-1))
    torch.testing.assert_close(after.h, read_after.h)
    torch.testing.assert_close(after.c, read_after.c)
