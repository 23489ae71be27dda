"""Load a trained task model or an ensemble. Predict for raw text, evaluate files."""

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
TEXTS_PER_GROUP = 64


class NamedText(NamedTuple):
    """A text and its name."""

    name: str  # file and line, for error messages; for a document its name in the result
    text: str


@dataclass(frozen=True)
class TrainedModel(Generic[E, P]):
    """A trained model or an ensemble, as returned by `load`."""

    assembled: AssembledModel[E, P]
    card: TaskModelCard
    others: tuple[AssembledModel[E, P], ...] = ()  # the other members of an ensemble

    @property
    def task(self) -> Task[E, P]:
        return self.assembled.task

    @property
    def members(self) -> tuple[AssembledModel[E, P], ...]:
        """The members of an ensemble; a single model is its only member."""
        return self.assembled, *self.others

    def __repr__(self) -> str:
        elmo = f", elmo={self.card.elmo.name!r}" if self.card.elmo else ""
        members = f", members={len(self.members)}" if self.others else ""
        return f"TrainedModel({self.card.task!r}{elmo}{members})"

    def predict(self, texts: Iterable[str]) -> list[Any]:
        """One result for each text, with the text, labels and offsets."""
        return list(self.predict_iter(texts))

    def predict_iter(self, texts: Iterable[str]) -> Iterator[Any]:
        """As `predict`, for a stream of texts."""
        if isinstance(texts, str):
            raise InputError("predict requires a list of texts, not a string; write predict([text])")
        return self.predict_named(NamedText(f"text {number}", text) for number, text in enumerate(texts, start=1))

    def predict_named(self, texts: Iterable[NamedText]) -> Iterator[Any]:
        """As `predict_iter`. Error messages and warnings contain the name of the text."""
        group: list[NamedText] = []
        for text in texts:
            group.append(text)
            if len(group) == TEXTS_PER_GROUP:
                yield from self._predict_group(group)
                group = []
        yield from self._predict_group(group)

    def _predict_group(self, texts: Sequence[NamedText]) -> Iterator[Any]:
        parsed: list[list[E]] = []
        for name, text in texts:
            tokenizer = StyledTokenizer(self.card.token_style, name=name)
            with error_context(name):
                if not isinstance(text, str):
                    raise InputError(
                        f"the text is a {type(text).__name__}, not a string; write texts with several parts, such as "
                        "a pair or a paragraph with questions, as a JSON string"
                    )
                parsed.append(self.task.parse(text, tokenizer))
        predictions = iter(self.predict_examples([example for examples in parsed for example in examples]))
        for (name, text), examples in zip(texts, parsed, strict=True):
            result = self.task.result(text, examples, [next(predictions) for _ in examples], self.card.labels)
            # One output file may contain the results of many documents, so each result has the document's name.
            yield replace(result, name=name) if self.task.reads_documents else result

    def predict_examples(self, examples: Sequence[E]) -> list[P]:
        """The predictions for examples from the task's reader."""
        return predict_together([(member.maker, member.model) for member in self.members], examples)

    def evaluate(self, paths: str | Path | Sequence[str | Path]) -> Score:
        """The task's official score on labeled files, with notices about the files."""
        data = self._read(paths)
        self.task.check(data.examples, self.card.labels)
        notices = (*data.notices, *self.task.unseen(data.examples, self.card.labels))
        return self.task.metric.score(data.examples, self.predict_examples(data.examples))._replace(notices=notices)

    def official_predictions(self, paths: str | Path | Sequence[str | Path]) -> str:
        """The predictions for data files, in the file format of the task's official scorer.

        The files need no labels. An `InputWarning` reports skipped data.
        """
        if self.task.official is None:
            raise InputError(f"the task {self.task.name} has no official format of predictions; use --json")
        data = self._read(paths)
        for notice in data.notices:
            warnings.warn(notice, InputWarning, stacklevel=2)
        return self.task.official(data.examples, self.predict_examples(data.examples))

    def _read(self, paths: str | Path | Sequence[str | Path]) -> Dataset[E]:
        files = [paths] if isinstance(paths, str | Path) else list(paths)
        try:
            data = self.task.read(files, self.assembled.recipe.task, to_train=False)
        except InputError as error:
            # The files may be data of another task, for which the reader's message is misleading.
            raise InputError(f"{error} (the model requires data of the task {self.task.name})") from None
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

    A folder takes precedence over a name. Several folders, or the folder of `train_ensemble`, are loaded as an
    ensemble: one model whose members predict together. `task` is the `Task` object of a model whose task is not one of
    Elmore's, or its `module:OBJECT`; loading a folder never imports code. `elmo` is the location of the biLM, if it has
    moved since training. A biLM with another fingerprint is rejected. `compute` is the number type of a frozen biLM, as
    for an `Embedder`.
    """
    check_value("compute", compute, ComputeName)
    names = [path] if isinstance(path, str | Path) else list(path)
    folders = [member for name in names for member in member_folders(find_task_model(name))]
    if not folders:
        raise InputError("no model given; give the folders of one or more models")
    task = find_task(task) if isinstance(task, str) else task
    loader = _Loader(task, elmo, choose_device(device), compute)
    first, *others = [loader.load(folder) for folder in folders]
    if elmo is not None and not any(model.card.elmo for model in (first, *others)):
        raise InputError(f"{folders[0]}: the model has no ELMo and cannot use the biLM {elmo}; remove --elmo")
    for folder, other in zip(folders[1:], others, strict=True):
        with error_context(folder):
            _check_same_ensemble(other, first, folders[0])
    return TrainedModel(first.assembled, first.card, tuple(other.assembled for other in others))


class _Loader:
    """Loads the members of an ensemble. Members share biLMs and layer readers."""

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
            task, recipe = task_from_card(card, self._task)
            sources = InputResources(
                vocabulary=stored.vocabulary,
                vectors=_empty_vectors(stored),
                token_style=card.token_style,
                required=card.elmo,
                bilm=None if card.elmo is None else self._bilm(card.elmo, stored.elmo),
                compute=self._compute,
            )
            assembled = assemble(task, recipe, card.labels, sources, cache=None, device=self._device)
            _load_weights(assembled, stored)
        assembled = self._with_shared_reader(assembled)
        assembled.model.eval().requires_grad_(requires_grad=False)
        return TrainedModel(assembled, card)

    def _bilm(self, required: BilmReference, inside: Path | None) -> Model:
        if required.fingerprint not in self._bilms:
            bilm = load_required(required, inside=inside, given=self._elmo)
            self._bilms[required.fingerprint] = bilm
        return self._bilms[required.fingerprint]

    def _with_shared_reader(self, assembled: AssembledModel[Any, Any]) -> AssembledModel[Any, Any]:
        """The model with the layer reader of an earlier member, if both have the same biLM and token style."""
        layers, required = assembled.maker.layers, assembled.required
        if layers is None or required is None:
            return assembled
        shared = self._readers.setdefault((required.fingerprint, assembled.token_style), layers)
        return replace(assembled, maker=replace(assembled.maker, layers=shared))


class TaskAndRecipe(NamedTuple):
    """The task and the recipe of a stored model."""

    task: Task[Any, Any]
    recipe: TaskRecipe


def task_from_card(card: TaskModelCard, task: Task[Any, Any] | None = None) -> TaskAndRecipe:
    """The task and the recipe of a stored model, checked. `task` is given for a task outside of Elmore."""
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
            state = "is missing" if card.elmo is None else "is given"
            raise FormatError(f"elmo, the reference to the biLM, {state}, but recipe.elmo.where is {recipe.elmo.where}")
        return TaskAndRecipe(task, recipe)


def _check_same_ensemble(model: TrainedModel[Any, Any], first: TrainedModel[Any, Any], name: Path) -> None:
    """Reject a member that cannot be in an ensemble with the first. `name` is the folder of the first."""
    for what, value, other in (
        ("task", model.card.task, first.card.task),
        ("token style", model.card.token_style, first.card.token_style),
        ("labels", model.card.labels, first.card.labels),
    ):
        if value != other:
            shown = f"the {what} {value}, but {name} has {other}" if what != "labels" else f"other labels than {name}"
            raise InputError(f"has {shown}; members of an ensemble have the same task and the same training data")
    for field in first.task.ensemble_fields:
        value, other = (getattr(member.assembled.recipe.task, field) for member in (model, first))
        if value != other:
            raise InputError(f"has task.{field} {value}, but {name} has {other}; their scores cannot be combined")
    for member, member_name in ((model, "the model"), (first, f"the model {name}")):
        if isinstance(member.assembled.model, FittedModel):
            raise InputError(f"{member_name} {NO_ENSEMBLE}")


def stored_model(
    assembled: AssembledModel[Any, Any], *, scores: dict[str, Any], training: dict[str, Any]
) -> StoredTaskModel:
    """A trained model as plain data, without the weights of the biLM."""
    vocabulary, table = assembled.maker.vocabulary, assembled.embedder.words
    card = TaskModelCard(
        task=assembled.task.name,
        labels=assembled.labels,
        recipe=_without_credentials(asdict(assembled.recipe)),
        token_style=assembled.token_style,
        characters="".join(vocabulary.characters),
        learnt_words=vocabulary.num_trained,
        lowercase=vocabulary.lowercase,
        vector_dim=table.dim if table is not None and table.given is not None else 0,
        elmo=assembled.required,
        scores=scores,
        mixes=layer_mixes(assembled),
        training=training,
    )
    tensors = {name: tensor for name, tensor in assembled.model.state_dict().items() if not _is_bilm(name)}
    return StoredTaskModel(card, vocabulary.words, to_arrays(tensors))


def _without_credentials(recipe: dict[str, Any]) -> dict[str, Any]:
    """The recipe for the card. The URL of a biLM may contain credentials, which are removed."""
    elmo = recipe["elmo"]
    return {**recipe, "elmo": {**elmo, "model": without_credentials(elmo["model"])}}


def layer_mixes(assembled: AssembledModel[Any, Any]) -> dict[str, MixWeights]:
    """The mix weights of a model, by the position where ELMo enters."""
    mixes = {position: mix for position, mix in assembled.embedder.mixes.items() if isinstance(mix, LayerMix)}
    return {
        position: MixWeights(weights=tuple(mix.weights.tolist()), gamma=mix.gamma.item())
        for position, mix in mixes.items()
    }


def _empty_vectors(stored: StoredTaskModel) -> np.ndarray[Any, np.dtype[np.float32]] | None:
    if not stored.card.vector_dim:
        return None
    return np.zeros((len(stored.words) - stored.card.learnt_words, stored.card.vector_dim), np.float32)


def _load_weights(assembled: AssembledModel[Any, Any], stored: StoredTaskModel) -> None:
    tensors = {name: tensor for name, tensor in assembled.model.state_dict().items() if not _is_bilm(name)}
    with error_context(WEIGHTS):
        if missing := sorted(tensors.keys() - stored.arrays.keys()):
            raise FormatError(f"lacks {join_names(missing)}, which {CARD_FILE} requires")
        if extra := sorted(stored.arrays.keys() - tensors.keys()):
            raise FormatError(f"contains {join_names(extra)}, which {CARD_FILE} does not have")
        for name, tensor in tensors.items():
            shape = stored.arrays[name].shape
            if tuple(tensor.shape) != shape:
                raise FormatError(f"{name} has shape {shape}; {CARD_FILE} requires {tuple(tensor.shape)}")
    assembled.model.load_state_dict(to_tensors(stored.arrays), strict=False)


def _is_bilm(name: str) -> bool:
    return ".joint." in f".{name}"
