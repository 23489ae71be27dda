"""A biLM with its corpus as a `Trainable`: windows, negatives, word inputs, learning rate, steps and evaluation."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from elmore.corpus.corpus import Corpus
from elmore.errors import InputError
from elmore.nn.word_encoder import WordIdTensors
from elmore.pretraining.heldout_perplexity import heldout_perplexity, perplexity_of
from elmore.pretraining.initial_model import InitialModel
from elmore.pretraining.schedule import LossSpikeDetector, learning_rate_at
from elmore.pretraining.stepping import Stepper, StepResult
from elmore.pretraining.windows import LogUniformSampler, WindowPlan, Windows
from elmore.training.checkpoints import joint_state_dict, load_joint_state_dict
from elmore.training.memory import MemoryMeter, training_state_bytes
from elmore.training.trainable import Evaluation, Step, World

# On a GPU, losses are read some steps later: reading at once would make the GPU wait.
STEPS_AHEAD = 8


class LanguageModelTraining:
    """Pre-training of a biLM. With frozen steps, a first phase trains only the softmax, and a second phase all."""

    def __init__(
        self, corpus: Corpus, initial: InitialModel, *, device: torch.device, world: World | None = None
    ) -> None:
        self.corpus, self.initial, self.world = corpus, initial, world or World()
        self.training = training = initial.recipe.training
        self._memory = MemoryMeter(device)
        directions = initial.recipe.model.direction_names
        self.plan = WindowPlan(
            batch_size=training.batch_size, length=training.window, seed=training.seed, directions=directions
        )
        classes = len(initial.vocabulary)
        self.sampler = (
            LogUniformSampler(classes=classes, num_sampled=training.negatives) if training.negatives else None
        )
        self.windows = Windows(
            corpus.train,
            corpus.classes,
            self.plan,
            sampler=self.sampler,
            rank=self.world.rank,
            processes=self.world.size,
        )
        self.steps_per_epoch = self.windows.per_epoch / training.gradient_accumulation
        self.tokens_per_step = self.plan.tokens * training.gradient_accumulation
        self.phase_ends = self._phase_ends()
        self.baseline_at = self._baseline_at()
        self.model = initial.model.to(device)
        ids = initial.word_ids(corpus)
        self._characters_needed = None
        if ids.character_ids is not None:
            self._characters_needed = initial.indexer.characters_needed(ids.character_ids)
        words = WordIdTensors.of(ids)
        if words.character_ids is not None:
            # Two bytes are enough for the id of a character, and there may be millions of words.
            words = words._replace(character_ids=words.character_ids.short())
        self.words = words.to(device)
        self.stepper = self._new_stepper(frozen=self._is_frozen_at(0))

    def _phase_ends(self) -> Sequence[int]:
        training = self.training
        steps = training.steps or round(training.epochs * self.windows.per_epoch / training.gradient_accumulation)
        if steps < 1:
            raise InputError("the recipe has less than one step; increase training.epochs or training.steps")
        frozen = training.frozen_steps
        return (frozen, frozen + steps) if frozen else (steps,)

    def _baseline_at(self) -> int | None:
        """In fine-tuning, the last step with the initial biLM: 0, or after the first phase if the softmax is new."""
        if self.initial.init is None:
            return None
        return self.training.frozen_steps if self.initial.init["softmax"] == "fresh" else 0

    @property
    def should_stop(self) -> bool:
        """Always False: pre-training has no early stopping."""
        return False

    def train(self, done: int, until: int, *, skipped: Collection[int] = (), lr_scale: float = 1.0) -> Iterator[Step]:
        """Make the steps after `done` up to `until`; on a GPU, yield each a few steps later."""
        training, stepper = self.training, self.stepper
        ahead = STEPS_AHEAD if stepper.device.type == "cuda" else 0
        first, last = self._phase_at(done)
        stepper.model.train()
        waiting: deque[tuple[int, float, StepResult]] = deque()
        stream = self.windows.prefetch(done * training.gradient_accumulation, until * training.gradient_accumulation)
        for number in range(done + 1, until + 1):
            group = list(islice(stream, training.gradient_accumulation))
            if number in skipped:
                continue
            # Dropout depends only on seed, step and rank, so that a resumed run makes the same steps.
            stepper.seed((training.seed * 1_000_003 + number - 1) * 1_009 + self.world.rank)
            rate = lr_scale * learning_rate_at(
                number - 1 - first,
                peak=training.learning_rate,
                steps=last - first,
                warmup_steps=training.warmup_steps,
                final_rate=training.final_rate,
            )
            waiting.append((number, rate, stepper.step(group, rate)))
            while len(waiting) > ahead:
                yield _step(*waiting.popleft())
        while waiting:
            yield _step(*waiting.popleft())
        self._enter_phase(until)

    def is_loss_spike(self, step: Step) -> bool:
        """Whether a loss is far above the losses of this phase before."""
        return self._spikes.is_spike(step.losses)

    def metrics(self, step: Step) -> Mapping[str, Mapping[str, float]]:
        """Training perplexities by direction. With a sampled softmax they are far lower than true perplexities."""
        losses = zip(self.plan.directions, step.losses, strict=True)
        perplexities: dict[str, float] = {direction: perplexity_of(loss) for direction, loss in losses}
        return {"sampled_perplexities" if self.sampler else "perplexities": perplexities}

    def evaluate(self) -> Evaluation | None:
        """The perplexity of the held-out part, by the full softmax."""
        dtype = getattr(torch, self.training.precision)
        return heldout_perplexity(
            self.model, self.words, self.corpus.heldout, self.corpus.classes, self.plan, dtype=dtype
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Model, optimizers, and the LSTM states of the rows of all processes."""
        tensors = joint_state_dict(self.model, self.stepper.optimizers)
        for name, state in (("state.h", self.stepper.state.h), ("state.c", self.stepper.state.c)):
            tensors[name] = self.world.all_gather(state, dim=2).detach().cpu()
        return tensors

    def load_state_dict(self, tensors: Mapping[str, Tensor], *, done: int) -> None:
        """Restore the tensors of `state_dict`; each process takes its rows."""
        self._enter_phase(done)
        load_joint_state_dict(self.model, self.stepper.optimizers, tensors)
        state = self.stepper.state
        rows = slice(self.world.rank * state.rows, (self.world.rank + 1) * state.rows)
        # Copied into the existing tensors, which on a GPU are part of captured graphs.
        state.h.copy_(tensors["state.h"][:, :, rows])
        state.c.copy_(tensors["state.c"][:, :, rows])

    def memory_bytes(self) -> int | None:
        return self._memory.peak_growth(training_state_bytes(self.model, self.stepper.optimizers))

    def _phase_at(self, done: int) -> tuple[int, int]:
        """First and last step of the phase after `done` steps."""
        frozen = self.training.frozen_steps
        return (0, frozen) if done < frozen else (frozen, self.phase_ends[-1])

    def _is_frozen_at(self, done: int) -> bool:
        return done < self.training.frozen_steps

    def _enter_phase(self, done: int) -> None:
        """Replace the stepper if the phase changes; otherwise a GPU's captured graphs remain valid."""
        if self._frozen != self._is_frozen_at(done):
            state = self.stepper.state
            self.stepper = self._new_stepper(frozen=self._is_frozen_at(done))
            self.stepper.state.h.copy_(state.h)
            self.stepper.state.c.copy_(state.c)

    def _new_stepper(self, *, frozen: bool) -> Stepper:
        self._frozen = frozen
        self._spikes = LossSpikeDetector()
        self.model.network.requires_grad_(requires_grad=not frozen)
        return Stepper(
            self.model,
            self.words,
            self.training,
            rows=self.training.batch_size // self.world.size,
            characters_needed=self._characters_needed,
            class_probabilities=self.sampler.probabilities if self.sampler else None,
            module=DistributedDataParallel(self.model) if self.world.size > 1 else None,
        )


def _step(number: int, rate: float, result: StepResult) -> Step:
    return Step(number, tuple(result.losses.tolist()), result.gradient_norm.item(), rate)
