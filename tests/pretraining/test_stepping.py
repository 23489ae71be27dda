"""A step is forward, backward, clip and step, for every kind of model a recipe can ask for."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from elmore.nn.bilm import StateTensors
from elmore.nn.cross_entropy import Candidates
from elmore.nn.language_model import LanguageModel
from elmore.nn.word_encoder import WordIdTensors
from elmore.pretraining import stepping
from elmore.pretraining.recipe import Training
from elmore.pretraining.row_adam import RowAdam
from elmore.pretraining.stepping import Stepper
from elmore.pretraining.windows import Window
from elmore.text.word_ids import WordIndexer
from one_way import DIRECTIONS, one_way_state, one_way_tensors
from small_training import ABLATIONS, MODEL, TRAINING, TYPES, small_model, small_stepper, small_windows

ADAGRAD = replace(TRAINING, optimizer="adagrad", learning_rate=0.2)


def gradients_by_hand(
    model: LanguageModel, window: Window, state: StateTensors
) -> tuple[Tensor, list[Tensor], StateTensors]:
    """Of a row's whole window, all words spelled out in full, the counts of the sample in float64."""
    candidates = None
    if window.negatives is not None:
        classes = len(TYPES)
        k = torch.arange(classes, dtype=torch.float64)
        law = torch.log((k + 2) / (k + 1)) / torch.log(torch.tensor(classes + 1.0, dtype=torch.float64))
        counts = 1 - (1 - law) ** window.negatives.tries
        candidates = Candidates(torch.from_numpy(window.negatives.classes), counts.log().float())
    words = WordIdTensors.of(WordIndexer(MODEL).index([TYPES[n] for n in window.types]))
    inputs, targets = torch.from_numpy(window.inputs), torch.from_numpy(window.targets)
    losses, after = model(words, inputs, targets, state, candidates=candidates)
    loss = losses.mean() * inputs.shape[1]
    return losses.detach(), list(torch.autograd.grad(loss, list(model.parameters()))), after


def step_by_hand(model: LanguageModel, gradients: list[Tensor], optimizers: list[torch.optim.Optimizer], clip: float):
    norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient * min(1.0, clip / (norm.item() + 1e-6))
    for optimizer in optimizers:
        optimizer.step()
    return norm


def optimizers_by_hand(model: LanguageModel, training: Training) -> list[torch.optim.Optimizer]:
    if training.optimizer == "adagrad":
        return [torch.optim.Adagrad(model.parameters(), lr=0.2, initial_accumulator_value=1.0, eps=1e-10)]
    named = dict(model.named_parameters())
    softmax = [named.pop("softmax_weight"), named.pop("softmax_bias")]
    rate = training.learning_rate
    return [torch.optim.AdamW(named.values(), lr=rate, weight_decay=training.weight_decay), RowAdam(softmax, lr=rate)]


def assert_same(ours: LanguageModel, theirs: LanguageModel, **tolerance: float) -> None:
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, msg=lambda text, name=name: f"{name}: {text}", **tolerance)


@pytest.mark.parametrize(
    "training",
    [
        TRAINING,
        ADAGRAD,
        replace(TRAINING, negatives=0),
        replace(TRAINING, weight_decay=0.1),
        replace(TRAINING, max_grad_norm=0.05),
        replace(ADAGRAD, max_grad_norm=0.05),
    ],
    ids=["AdamW", "Adagrad", "full softmax", "weight decay", "clipped", "Adagrad, clipped"],
)
def test_three_steps_are_those_made_by_hand(training):
    stepper, windows = small_stepper(training), small_windows(training)
    model = small_model()
    optimizers = optimizers_by_hand(model, training)
    state = StateTensors.zeros(MODEL, rows=training.batch_size)
    for number in range(3):
        result = stepper.step([windows[number]], training.learning_rate)
        losses, gradients, state = gradients_by_hand(model, windows[number], state)
        norm = step_by_hand(model, gradients, optimizers, training.max_grad_norm)
        torch.testing.assert_close(result.losses, losses)
        torch.testing.assert_close(result.gradient_norm, norm)
        assert_same(stepper.model, model, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(stepper.state.h, state.h, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(stepper.state.c, state.c, rtol=1e-4, atol=1e-6)


def test_windows_that_are_accumulated_make_one_step_along_their_mean():
    stepper, windows = small_stepper(ADAGRAD), small_windows(ADAGRAD)
    model = small_model()
    optimizers = optimizers_by_hand(model, ADAGRAD)
    first_losses, first, state = gradients_by_hand(
        model, windows[0], StateTensors.zeros(MODEL, rows=ADAGRAD.batch_size)
    )
    second_losses, second, state = gradients_by_hand(model, windows[1], state)
    norm = step_by_hand(
        model, [(a + b) / 2 for a, b in zip(first, second, strict=True)], optimizers, ADAGRAD.max_grad_norm
    )

    result = stepper.step([windows[0], windows[1]], 0.2)
    torch.testing.assert_close(result.losses, (first_losses + second_losses) / 2)
    torch.testing.assert_close(result.gradient_norm, norm)
    assert_same(stepper.model, model)
    torch.testing.assert_close(stepper.state.c, state.c)


def test_the_rate_of_the_moment_is_the_one_that_counts():
    stepper, windows = small_stepper(), small_windows()
    before = small_model()
    stepper.step([windows[0]], 0.0)
    assert_same(stepper.model, before, rtol=0, atol=0)
    stepper.step([windows[1]], 0.1)
    # Adam's first steps are as large as the rate, whatever the gradient, where two gradients are alike.
    moved = (stepper.model.softmax_bias - before.softmax_bias).abs()
    assert moved.max().item() == pytest.approx(0.1, rel=0.01)


def test_a_frozen_part_stays_as_it_is_while_the_softmax_learns():
    stepper, windows = small_stepper(), small_windows()
    stepper.model.network.requires_grad_(requires_grad=False)
    stepper.step([windows[0], windows[1]], 0.1)
    before = small_model()
    assert_same(stepper.model.network, before.network, rtol=0, atol=0)
    assert not torch.equal(stepper.model.softmax_weight, before.softmax_weight)


def test_to_cut_the_padding_off_words_changes_nothing():
    windows = small_windows()
    assert "extraordinarily" not in {TYPES[n] for n in windows[0].types}
    cut, whole = small_stepper(), small_stepper()
    assert cut._shape(windows[0], block=1).width < whole._words.character_ids.shape[1]
    whole._characters_needed = None
    assert whole._shape(windows[0], block=1).width is None
    results = [stepper.step([windows[0]], 0.01) for stepper in (cut, whole)]
    torch.testing.assert_close(results[0].losses, results[1].losses)
    torch.testing.assert_close(results[0].gradient_norm, results[1].gradient_norm)


def mean_loss(stepper: Stepper, training: Training, *, config=MODEL, steps: int = 60) -> tuple[float, float]:
    """Of the first and the last five of so many steps."""
    windows = small_windows(training, config=config)
    losses = [stepper.step([windows[n]], training.learning_rate).losses.mean().item() for n in range(steps)]
    return sum(losses[:5]) / 5, sum(losses[-5:]) / 5


# The loss after 60 steps, measured once. This grammar leaves 0.5 to chance.
LEARNT = {
    "forward only": 0.730,
    "backward only": 0.691,
    "words instead of characters": 0.528,
    "words and characters": 0.513,
    "one layer": 0.600,
    "no skip connections": 1.185,
    "no projection": 0.981,
    "no clips": 0.564,
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_ablation_learns_as_much_as_it_did(name):
    config, training = ABLATIONS[name], replace(TRAINING, negatives=0, learning_rate=0.03)
    stepper = small_stepper(training, config=config)
    first, last = mean_loss(stepper, training, config=config)
    # From as good as nothing.
    assert first == pytest.approx(math.log(len(TYPES)), rel=0.05)
    assert last == pytest.approx(LEARNT[name], rel=0.03)
    assert all(parameter.grad is not None for parameter in stepper.model.parameters())


@pytest.mark.parametrize("negatives", [0, 6])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_direction_alone_has_the_loss_it_has_beside_the_other(direction, negatives):
    training, config = replace(TRAINING, negatives=negatives), replace(MODEL, directions=direction)
    both, alone = small_stepper(training), small_stepper(training, config=config)
    alone.model.load_state_dict(one_way_tensors(both.model.state_dict(), direction))
    # At a rate of zero, so that the second window is read by the same weights, from the state that the first one left.
    for number in range(2):
        expected = both.step([small_windows(training)[number]], 0.0).losses
        found = alone.step([small_windows(training, config=config)[number]], 0.0).losses
        torch.testing.assert_close(found, expected[[DIRECTIONS.index(direction)]], rtol=0, atol=1e-6)
        assert abs(expected[0] - expected[1]) > 1e-3
    torch.testing.assert_close(alone.state.h, one_way_state(both.state, direction).h, rtol=0, atol=1e-6)


def test_of_a_table_of_words_only_the_rows_that_are_read_move():
    config, training = ABLATIONS["words instead of characters"], replace(TRAINING, batch_size=1, window=3)
    stepper, windows = small_stepper(training, config=config), small_windows(training)
    table = stepper.model.network.words.table
    for number in range(4):
        before = table.detach().clone()
        stepper.step([windows[number]], 0.1)
        moved = (table != before).any(dim=1).nonzero()[:, 0]
        assert moved.tolist() == windows[number].types.tolist()


@pytest.mark.parametrize("negatives", [0, 6])
def test_bfloat16_stays_close_to_float32(negatives):
    training = replace(TRAINING, negatives=negatives)
    rounded = replace(training, precision="bfloat16")
    exact_ends = mean_loss(small_stepper(training), training)
    rounded_ends = mean_loss(small_stepper(rounded), rounded)
    assert rounded_ends == pytest.approx(exact_ends, rel=0.05)
    assert rounded_ends != exact_ends


class Through(nn.Module):
    """A model in another module, as for several processes: such a one is not captured in graphs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: object, **options: object) -> object:
        return self.model(*inputs, **options)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU is needed")
@pytest.mark.parametrize("accumulate", [1, 2])
def test_captured_graphs_train_as_single_steps_do(accumulate, monkeypatch):
    # Blocks so small that windows come in several shapes, and more windows than buffers of the transfer.
    monkeypatch.setattr(stepping, "WORDS_BLOCK", 4)
    monkeypatch.setattr(stepping, "CHARACTERS_BLOCK", 2)
    windows = small_windows()
    models = [small_model().cuda() for _ in range(2)]
    ids = WordIndexer(MODEL).index(TYPES)
    words, needed = (
        WordIdTensors.of(ids).to(torch.device("cuda")),
        WordIndexer(MODEL).characters_needed(ids.character_ids),
    )
    probabilities = windows.sampler.probabilities
    captured, single = (
        Stepper(
            model,
            words,
            TRAINING,
            rows=TRAINING.batch_size,
            characters_needed=needed,
            class_probabilities=probabilities,
            module=module,
        )
        for model, module in ((models[0], None), (models[1], Through(models[1])))
    )
    for number in range(0, 12, accumulate):
        group = [windows[number + more] for more in range(accumulate)]
        results = [stepper.step(group, 0.01) for stepper in (captured, single)]
        torch.testing.assert_close(results[0].losses, results[1].losses, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(results[0].gradient_norm, results[1].gradient_norm, rtol=1e-3, atol=1e-5)
    assert len(captured._graphs) > 1
    torch.testing.assert_close(captured.state.h, single.state.h, rtol=1e-3, atol=1e-4)


def test_bfloat16_trains_parameters_and_carries_cells_in_float32():
    stepper = small_stepper(replace(TRAINING, precision="bfloat16"))
    result = stepper.step([small_windows()[0]], 0.1)
    assert result.losses.dtype == torch.float32
    assert {parameter.dtype for parameter in stepper.model.parameters()} == {torch.float32}
    assert {parameter.grad.dtype for parameter in stepper.model.parameters()} == {torch.float32}
    assert stepper.state.c.dtype == torch.float32
    assert not torch.equal(stepper.state.c, stepper.state.c.bfloat16().float())
