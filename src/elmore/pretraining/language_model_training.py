"""A biLM and the corpus it is trained on, as a run drives them (see `training.trainable`).

Here windows, sampler, word inputs and stepper are put together, for the run, for benchmarks and for tests.
"""

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
from elmore.pretraining.sampling import LogUniformSampler
from elmore.pretraining.stepping import Stepper, StepResult
from elmore.pretraining.windows import WindowPlan, Windows
from elmore.training.distributed import World
from elmore.training.learning_rate import learning_rate_at
from elmore.training.memory import MemoryMeter, training_state_bytes
from elmore.training.state_dicts import joint_state_dict, load_joint_state_dict
from elmore.training.trainable import Evaluation, Step

# On a GPU the loop runs ahead of the losses it reports: to look at one at once would make the GPU wait.
STEPS_AHEAD = 8


class LanguageModelTraining:
    """All that pre-training a biLM needs; a `Trainable`.

    The first phase, if the recipe has frozen steps, moves the softmax alone, the second everything.
    """

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
        self.loss_may_leap = False
        self.model = initial.model.to(device)
        ids = initial.word_ids(corpus)
        self._characters_needed = None
        if ids.character_ids is not None:
            self._characters_needed = initial.indexer.characters_needed(ids.character_ids)
        words = WordIdTensors.of(ids)
        if words.character_ids is not None:
            # Two bytes suffice for the id of a character, and there may be millions of words.
            words = words._replace(character_ids=words.character_ids.short())
        self.words = words.to(device)
        self.stepper = self._new_stepper(frozen=self._is_frozen_at(0))

    def _phase_ends(self) -> Sequence[int]:
        training = self.training
        steps = training.steps or round(training.epochs * self.windows.per_epoch / training.gradient_accumulation)
        if steps < 1:
            raise InputError("the recipe asks for less than one step; give more epochs, or steps")
        frozen = training.frozen_steps
        return (frozen, frozen + steps) if frozen else (steps,)

    def _baseline_at(self) -> int | None:
        """Of fine-tuning: when the model is as it came and can predict: at once, or after its softmax has learnt."""
        if self.initial.init is None:
            return None
        return self.training.frozen_steps if self.initial.init["softmax"] == "fresh" else 0

    @property
    def is_converged(self) -> bool:
        """Never: how long a biLM is trained, its recipe says."""
        return False

    def train(self, done: int, until: int, *, skipped: Collection[int] = (), rate_share: float = 1.0) -> Iterator[Step]:
        """Go on after `done` steps up to `until`; yield each, on a GPU a little later."""
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
            # Dropout depends on seed and step alone, so a run that was stopped goes on as if it had not been.
            stepper.seed((training.seed * 1_000_003 + number - 1) * 1_009 + self.world.rank)
            rate = rate_share * learning_rate_at(
                number - 1 - first,
                peak=training.learning_rate,
                steps=last - first,
                warmup_steps=training.warmup_steps,
                final_rate=training.final_rate,
            )
            waiting.append((number, rate, stepper.step(group, rate)))
            while len(waiting) > ahead:
                yield _finished(*waiting.popleft())
        while waiting:
            yield _finished(*waiting.popleft())
        self._enter_phase(until)

    def metrics(self, step: Step) -> Mapping[str, Mapping[str, float]]:
        """The perplexities of the training itself, by direction; of a sampled softmax they are far too good."""
        losses = zip(self.plan.directions, step.losses, strict=True)
        perplexities: dict[str, float] = {direction: perplexity_of(loss) for direction, loss in losses}
        return {"sampled_perplexities" if self.sampler else "perplexities": perplexities}

    def evaluate(self) -> Evaluation | None:
        """The perplexity on the held-out part, by the full softmax."""
        dtype = getattr(torch, self.training.precision)
        return heldout_perplexity(
            self.model, self.words, self.corpus.heldout, self.corpus.classes, self.plan, dtype=dtype
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Model, optimizers, and the states that the rows of all processes carry on."""
        tensors = joint_state_dict(self.model, self.stepper.optimizers)
        for name, state in (("state.h", self.stepper.state.h), ("state.c", self.stepper.state.c)):
            tensors[name] = self.world.all_gather(state, dim=2).detach().cpu()
        return tensors

    def load_state_dict(self, tensors: Mapping[str, Tensor], *, done: int) -> None:
        """Put everything back; each process takes its own rows."""
        self._enter_phase(done)
        load_joint_state_dict(self.model, self.stepper.optimizers, tensors)
        state = self.stepper.state
        own = slice(self.world.rank * state.rows, (self.world.rank + 1) * state.rows)
        # Into the tensors that are there: on a GPU they are part of captured graphs.
        state.h.copy_(tensors["state.h"][:, :, own])
        state.c.copy_(tensors["state.c"][:, :, own])

    def memory_bytes(self) -> int | None:
        return self._memory.peak_growth(training_state_bytes(self.model, self.stepper.optimizers))

    def _phase_at(self, done: int) -> tuple[int, int]:
        """Where the phase begins and ends that follows on `done` steps."""
        frozen = self.training.frozen_steps
        return (0, frozen) if done < frozen else (frozen, self.phase_ends[-1])

    def _is_frozen_at(self, done: int) -> bool:
        return done < self.training.frozen_steps

    def _enter_phase(self, done: int) -> None:
        """Have the stepper that the phase needs; a GPU's captured graphs are kept where it is the one there."""
        if self._frozen != self._is_frozen_at(done):
            state = self.stepper.state
            self.stepper = self._new_stepper(frozen=self._is_frozen_at(done))
            self.stepper.state.h.copy_(state.h)
            self.stepper.state.c.copy_(state.c)

    def _new_stepper(self, *, frozen: bool) -> Stepper:
        self._frozen = frozen
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


def _finished(number: int, rate: float, result: StepResult) -> Step:
    return Step(number, tuple(result.losses.tolist()), result.gradient_norm.item(), rate)
