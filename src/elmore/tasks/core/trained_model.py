"""A trained task model, or several of one task that decide together: predictions for raw text, scores for files."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch

from elmore.defaults import DEFAULT_COMPUTE, ComputeName
from elmore.display import join_names
from elmore.errors import FormatError, InputError, InputWarning, error_context
from elmore.fields import check_value, read_fields
from elmore.model import Model
from elmore.nn.devices import choose_device, to_arrays, to_tensors
from elmore.nn.mix import LayerMix
from elmore.sources.urls import without_credentials
from elmore.tasks.core.assembly import AssembledModel, InputResources, assemble
from elmore.tasks.core.batching import predict_together
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.model_folder import (
    CARD_FILE,
    WEIGHTS,
    BilmReference,
    MixWeights,
    StoredTaskModel,
    TaskModelCard,
    find_task_model,
    member_folders,
    read_task_model,
)
from elmore.tasks.core.registry import TASKS, find_task
from elmore.tasks.core.task import NO_ENSEMBLE, Dataset, FittedModel, Task, check_labels
from elmore.tasks.inputs.bilm import load_required
from elmore.tasks.inputs.layer_cache import LayerSource
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.metrics.metric import Score

E = TypeVar("E")
P = TypeVar("P")
TEXTS_AT_ONCE = 64


class NamedText(NamedTuple):
    """A text, and where it is from."""

    place: str  # for complaints; of a document its name
    text: str


@dataclass(frozen=True)
class TrainedModel(Generic[E, P]):
    """What `load` gives."""

    assembled: AssembledModel[E, P]
    card: TaskModelCard
    others: tuple[AssembledModel[E, P], ...] = ()  # the further members of an ensemble

    @property
    def task(self) -> Task[E, P]:
        return self.assembled.task

    @property
    def members(self) -> tuple[AssembledModel[E, P], ...]:
        """Those that decide together, or the only one."""
        return self.assembled, *self.others

    def __repr__(self) -> str:
        elmo = f", elmo={self.card.elmo.name!r}" if self.card.elmo else ""
        members = f", members={len(self.members)}" if self.others else ""
        return f"TrainedModel({self.card.task!r}{elmo}{members})"

    def predict(self, texts: Iterable[str]) -> list[Any]:
        """One result for each text, with the text, its labels and where they stand."""
        return list(self.predict_iter(texts))

    def predict_iter(self, texts: Iterable[str]) -> Iterator[Any]:
        """As `predict`, for a stream of any length."""
        if isinstance(texts, str):
            raise InputError("predict takes a list of texts; put the string into a list")
        return self.predict_named(NamedText(f"text {number}", text) for number, text in enumerate(texts, start=1))

    def predict_named(self, texts: Iterable[NamedText]) -> Iterator[Any]:
        """As `predict_iter`; a text that cannot be read, or looks odd, is named by its place."""
        group: list[NamedText] = []
        for placed in texts:
            group.append(placed)
            if len(group) == TEXTS_AT_ONCE:
                yield from self._predict_group(group)
                group = []
        yield from self._predict_group(group)

    def _predict_group(self, texts: Sequence[NamedText]) -> Iterator[Any]:
        parsed: list[list[E]] = []
        for place, text in texts:
            tokenizer = StyledTokenizer(self.card.token_style, name=place)
            with error_context(place):
                if not isinstance(text, str):
                    raise InputError(
                        f"a text is to be a string, and this is a {type(text).__name__}; what has several parts, as a "
                        "pair or a paragraph with questions, comes as a string of JSON"
                    )
                parsed.append(self.task.parse(text, tokenizer))
        found = iter(self.predict_examples([example for examples in parsed for example in examples]))
        for (place, text), examples in zip(texts, parsed, strict=True):
            result = self.task.result(text, examples, [next(found) for _ in examples], self.card.labels)
            # Documents are long, and many may go into one file: there each says which it is.
            yield replace(result, name=place) if self.task.reads_documents else result

    def predict_examples(self, examples: Sequence[E]) -> list[P]:
        """What the model says of examples as the task's reader gives them."""
        return predict_together([(one.maker, one.model) for one in self.members], examples)

    def evaluate(self, paths: str | Path | Sequence[str | Path]) -> Score:
        """The task's official score on labelled files, with what there is to say of them."""
        data = self._read(paths)
        self.task.check(data.examples, self.card.labels)
        notices = (*data.notices, *self.task.unseen(data.examples, self.card.labels))
        return self.task.metric.score(data.examples, self.predict_examples(data.examples))._replace(notices=notices)

    def official_predictions(self, paths: str | Path | Sequence[str | Path]) -> str:
        """What the model says of files of data, as the file that the task's official scorer takes.

        The files need no labels. What is left out of them is warned of (`InputWarning`).
        """
        if self.task.official is None:
            raise InputError(f"the task {self.task.name} has no official form of predictions; take --json")
        data = self._read(paths)
        for notice in data.notices:
            warnings.warn(notice, InputWarning, stacklevel=2)
        return self.task.official(data.examples, self.predict_examples(data.examples))

    def _read(self, paths: str | Path | Sequence[str | Path]) -> Dataset[E]:
        files = [paths] if isinstance(paths, str | Path) else list(paths)
        try:
            data = self.task.read(files, self.assembled.recipe.task, to_train=False)
        except InputError as error:
            # It may be another task's data, of which its own reader has odd things to say.
            raise InputError(f"{error} (read as data of {self.task.name}, which this model is for)") from None
        if not data.examples:
            raise InputError("; ".join([f"{', '.join(map(str, files))}: no examples to score", *data.notices]))
        return data


def load(
    path: str | Path | Sequence[str | Path],
    *,
    task: str | Task[Any, Any] | None = None,
    elmo: str | None = None,
    device: str | torch.device | None = None,
    compute: ComputeName = DEFAULT_COMPUTE,
) -> TrainedModel[Any, Any]:
    """Load a trained task model: the folder of a run or of a model, or the name of a model shipped with Elmore.

    A folder wins over a name. Several folders, or the folder of a training of several seeds, are an ensemble: one model
    whose members predict together. `task` is the `Task` object of a model whose task is not one of Elmore's, or its
    `module:OBJECT`; loading a folder never imports code. `elmo` is the location of the biLM, if it has moved since
    training. A biLM with another fingerprint is rejected. `compute` is the number type of a frozen biLM, as for an
    `Embedder`.
    """
    check_value("compute", compute, ComputeName)
    names = [path] if isinstance(path, str | Path) else list(path)
    folders = [member for name in names for member in member_folders(find_task_model(name))]
    if not folders:
        raise InputError("no model was named; give the folder of one, or of several")
    task = find_task(task) if isinstance(task, str) else task
    loader = _Loader(task, elmo, choose_device(device), compute)
    first, *others = [loader.load(folder) for folder in folders]
    if elmo is not None and not any(model.card.elmo for model in (first, *others)):
        raise InputError(f"{folders[0]}: is without ELMo, and has no use for the biLM {elmo}; leave --elmo out")
    for folder, other in zip(folders[1:], others, strict=True):
        with error_context(folder):
            _check_goes_with(other, first, folders[0])
    return TrainedModel(first.assembled, first.card, tuple(other.assembled for other in others))


class _Loader:
    """Loads models, and what several of them need once: biLMs, and what reads with them."""

    def __init__(
        self, task: Task[Any, Any] | None, elmo: str | None, device: torch.device, compute: ComputeName
    ) -> None:
        self._task, self._elmo, self._device, self._compute = task, elmo, device, compute
        self._bilms: dict[str, Model] = {}  # by fingerprint
        self._readers: dict[tuple[str, str], LayerSource] = {}  # by fingerprint and token style

    def load(self, path: Path) -> TrainedModel[Any, Any]:
        stored = read_task_model(path)
        card = stored.card
        with error_context(path):
            described = task_from_card(card, self._task)
            sources = InputResources(
                vocabulary=stored.vocabulary,
                vectors=_empty_vectors(stored),
                token_style=card.token_style,
                required=card.elmo,
                bilm=None if card.elmo is None else self._bilm(card.elmo, stored.elmo),
                compute=self._compute,
            )
            assembled = assemble(*described, card.labels, sources, cache=None, device=self._device)
            _restore(assembled, stored)
        assembled = self._sharing(assembled)
        assembled.model.eval().requires_grad_(requires_grad=False)
        return TrainedModel(assembled, card)

    def _bilm(self, required: BilmReference, inside: Path | None) -> Model:
        if required.fingerprint not in self._bilms:
            bilm = load_required(required, inside=inside, given=self._elmo)
            self._bilms[required.fingerprint] = bilm
        return self._bilms[required.fingerprint]

    def _sharing(self, assembled: AssembledModel[Any, Any]) -> AssembledModel[Any, Any]:
        """The same model, which reads by what another one reads by already."""
        layers, required = assembled.maker.layers, assembled.required
        if layers is None or required is None:
            return assembled
        shared = self._readers.setdefault((required.fingerprint, assembled.token_style), layers)
        return replace(assembled, maker=replace(assembled.maker, layers=shared))


class TaskAndRecipe(NamedTuple):
    """What a stored model is a model of."""

    task: Task[Any, Any]
    recipe: TaskRecipe


def task_from_card(card: TaskModelCard, task: Task[Any, Any] | None = None) -> TaskAndRecipe:
    """The task and the recipe of a stored model, checked. `task` is the caller's, for a task outside of Elmore."""
    with error_context(CARD_FILE):
        if task is None:
            if card.task not in TASKS:
                raise InputError(
                    f"the task {card.task!r} is not one of Elmore's ({', '.join(TASKS)}); give its Task object: "
                    "--task module:OBJECT, or elmore.tasks.load(path, task=...)"
                )
            task = TASKS[card.task]
        elif card.task != task.name:
            raise InputError(f"the model is of the task {card.task!r}, not {task.name!r}; pass the Task of the model")
        recipe = read_fields(task.recipe, card.recipe, where="recipe", error=FormatError)
        check_labels(task, card.labels)
        if recipe.elmo.is_used != (card.elmo is not None):
            state = "missing" if card.elmo is None else "there"
            raise FormatError(f"the biLM, elmo, is {state}, and recipe.elmo.where is {recipe.elmo.where}")
        return TaskAndRecipe(task, recipe)


def _check_goes_with(model: TrainedModel[Any, Any], first: TrainedModel[Any, Any], name: Path) -> None:
    """Refuse a member of an ensemble that speaks of something else than the first, which is called `name`."""
    for what, own, theirs in (
        ("task", model.card.task, first.card.task),
        ("token style", model.card.token_style, first.card.token_style),
        ("labels", model.card.labels, first.card.labels),
    ):
        if own != theirs:
            shown = f"the {what} {own}, and {name} {theirs}" if what != "labels" else f"other labels than {name}"
            raise InputError(f"has {shown}; models that decide together are of one task and trained on the same data")
    for field in first.task.ensemble_fields:
        own, theirs = (getattr(one.assembled.recipe.task, field) for one in (model, first))
        if own != theirs:
            raise InputError(f"has task.{field} {own}, and {name} {theirs}; their scores cannot be put together")
    for one, called in ((model, "the model"), (first, f"the model {name} beside it")):
        if isinstance(one.assembled.model, FittedModel):
            raise InputError(f"{called} {NO_ENSEMBLE}")


def stored_model(
    assembled: AssembledModel[Any, Any], *, scores: dict[str, Any], training: dict[str, Any]
) -> StoredTaskModel:
    """A trained model as plain data; the biLM's own weights are not part of it."""
    vocabulary, table = assembled.maker.vocabulary, assembled.embedder.words
    card = TaskModelCard(
        task=assembled.task.name,
        labels=assembled.labels,
        recipe=_without_credentials(asdict(assembled.recipe)),
        token_style=assembled.token_style,
        characters="".join(vocabulary.characters),
        learnt_words=vocabulary.learnt,
        lowercase=vocabulary.lowercase,
        vector_dim=table.dim if table is not None and table.given is not None else 0,
        elmo=assembled.required,
        scores=scores,
        mixes=learnt_mixes(assembled),
        training=training,
    )
    tensors = {name: tensor for name, tensor in assembled.model.state_dict().items() if not _is_bilm(name)}
    return StoredTaskModel(card, vocabulary.words, to_arrays(tensors))


def _without_credentials(recipe: dict[str, Any]) -> dict[str, Any]:
    """A recipe as a model stores it: the address of a biLM may be signed."""
    elmo = recipe["elmo"]
    return {**recipe, "elmo": {**elmo, "model": without_credentials(elmo["model"])}}


def learnt_mixes(assembled: AssembledModel[Any, Any]) -> dict[str, MixWeights]:
    """The weights of the layers that a task has learnt, by the place where ELMo enters."""
    mixes = {place: mix for place, mix in assembled.embedder.mixes.items() if isinstance(mix, LayerMix)}
    return {
        place: MixWeights(weights=tuple(mix.weights.tolist()), gamma=mix.gamma.item()) for place, mix in mixes.items()
    }


def _empty_vectors(stored: StoredTaskModel) -> np.ndarray[Any, np.dtype[np.float32]] | None:
    if not stored.card.vector_dim:
        return None
    return np.zeros((len(stored.words) - stored.card.learnt_words, stored.card.vector_dim), np.float32)


def _restore(assembled: AssembledModel[Any, Any], stored: StoredTaskModel) -> None:
    own = {name: tensor for name, tensor in assembled.model.state_dict().items() if not _is_bilm(name)}
    with error_context(WEIGHTS):
        if missing := sorted(own.keys() - stored.arrays.keys()):
            raise FormatError(f"lacks {join_names(missing)}, which {CARD_FILE} asks for")
        if odd := sorted(stored.arrays.keys() - own.keys()):
            raise FormatError(f"holds {join_names(odd)}, which {CARD_FILE} knows nothing of")
        for name, tensor in own.items():
            found = stored.arrays[name].shape
            if tuple(tensor.shape) != found:
                raise FormatError(f"{name} has shape {found}; {CARD_FILE} asks for {tuple(tensor.shape)}")
    assembled.model.load_state_dict(to_tensors(stored.arrays), strict=False)


def _is_bilm(name: str) -> bool:
    return ".joint." in f".{name}"
