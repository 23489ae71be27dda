"""A trained task model on disk: data only, which loads anywhere, with or without the biLM inside it.

task.json           the task, its recipe, labels, token style, which biLM it needs, scores
words.txt           the words that have vectors of their own, one a line
model.safetensors   the weights, in float32, or their matrices in float16
elmo/               the biLM, where it was put inside, or was trained with the task

An ensemble is a folder with several of them:

ensemble.json       the names of its members' folders, which lie beside it
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from elmore.display import join_names, pluralize
from elmore.errors import FormatError, NotFound, error_context
from elmore.fields import check_fields, check_value, checked_field, read_fields
from elmore.files.atomic_files import atomic_write, atomic_write_folder
from elmore.formats.storage.container import Container, open_container, read_json
from elmore.formats.storage.safetensors_files import read_tensors, write_tensors
from elmore.model import Model, save
from elmore.nn.devices import to_arrays, to_tensors
from elmore.tasks.find_model import ABOUT, ENSEMBLE, RUN_MODEL, is_task_model
from elmore.tasks.token_vocabulary import TokenVocabulary
from elmore.text.style import TokenStyle
from elmore.version import __version__

WORDS, WEIGHTS, ELMO = "words.txt", "model.safetensors", "elmo"
FORMAT = 1
# What `elmore info` goes by, of all that may be known of a training.
TOLD_OF_TRAINING = {"examples": int, "best_epoch": int, "epochs": int, "chosen": str, "command": str}


@dataclass(frozen=True, kw_only=True)
class RequiredBilm:
    """The biLM that a task model was trained with."""

    name: str  # or path, by which it was loaded
    fingerprint: str
    num_layers: int
    dim: int


@dataclass(frozen=True, kw_only=True)
class MixWeights:
    """What was learnt about a biLM's layers at one place."""

    weights: tuple[float, ...]
    gamma: float


@dataclass(frozen=True, kw_only=True)
class TaskModelCard:
    """All that is known of a task model beside its numbers: task.json."""

    task: str
    labels: Mapping[str, Any]
    recipe: Mapping[str, Any]
    token_style: TokenStyle
    characters: str = ""
    learnt_words: int = checked_field(0, at_least=0)
    lowercase: bool = False
    vector_dim: int = checked_field(0, at_least=0)  # of the file of word vectors it began with; 0: none
    elmo: RequiredBilm | None = None
    license: str = checked_field("", former_name="licence")  # "" if none is stated
    data: str = ""  # what it was trained on, and whom to credit
    scores: Mapping[str, float] = field(default_factory=dict)
    mixes: Mapping[str, MixWeights] = field(default_factory=dict)  # by the place where ELMo enters
    training: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT
    written_by: str = f"elmore {__version__}"

    def __post_init__(self) -> None:
        check_fields(self)
        for name, kind in TOLD_OF_TRAINING.items():
            if name in self.training:
                check_value(f"training.{name}", self.training[name], kind)


@dataclass(frozen=True)
class StoredTaskModel:
    """A task model as plain data."""

    card: TaskModelCard
    words: tuple[str, ...]
    tensors: Mapping[str, Tensor]
    elmo: Path | None = None  # the biLM inside the folder, where there is one

    @property
    def vocabulary(self) -> TokenVocabulary:
        card = self.card
        return TokenVocabulary(self.words, card.learnt_words, tuple(card.characters), card.lowercase)


def in_half_precision(stored: StoredTaskModel) -> StoredTaskModel:
    """The same model with its matrices in float16, which take half the space; vectors and biases stay as they are.

    The numbers are computed with in float32 as before, and differ in their fourth digit.
    """
    tensors = {name: tensor.half() if tensor.ndim > 1 else tensor for name, tensor in stored.tensors.items()}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise FormatError(f"{name} holds numbers that are too large for float16; keep the model in float32")
    return replace(stored, tensors=tensors)


def write_task_model(stored: StoredTaskModel, path: Path, *, bilm: Model | None = None) -> None:
    """Write the folder whole or not at all; `bilm` goes inside."""
    with atomic_write_folder(path, replaces=(ABOUT, WORDS, WEIGHTS, ELMO)) as folder:
        (folder / ABOUT).write_text(
            json.dumps(asdict(stored.card), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        (folder / WORDS).write_text("".join(f"{word}\n" for word in stored.words), encoding="utf-8", newline="\n")
        write_tensors(to_arrays(stored.tensors), folder / WEIGHTS)
        if bilm is not None:
            save(bilm, folder / ELMO)


def write_ensemble(path: Path, members: Sequence[str]) -> None:
    """Say that a folder is an ensemble, of the models in these folders inside it, which may come later."""
    with atomic_write(path / ENSEMBLE) as unfinished:
        unfinished.write_text(json.dumps({"members": list(members)}, indent=2) + "\n", encoding="utf-8")


def ensemble_members(path: Path) -> list[Path]:
    """The folders of an ensemble's members, finished or not; none where a folder is no ensemble."""
    if not (path / ENSEMBLE).is_file():
        return []
    with error_context(path / ENSEMBLE):
        try:
            values = json.loads((path / ENSEMBLE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FormatError(f"cannot be read ({error})") from None
        members = values.get("members") if isinstance(values, dict) else None
        names = members if isinstance(members, list) else []
        # A name, and no way out of the folder.
        if not names or not all(isinstance(name, str) and name == Path(name).name for name in names):
            raise FormatError('is to hold the names of folders beside it: {"members": ["seed-1", "seed-2"]}')
        return [path / name for name in names]


def member_folders(path: Path) -> list[Path]:
    """The folder of a single model, or those of all members of an ensemble; one that is unfinished is refused."""
    members = ensemble_members(path)
    if missing := [member.name for member in members if not is_task_model(member)]:
        raise NotFound(
            f"{path}: of {len(members)} members {join_names(missing)} is not trained to its end; go on with elmore "
            "train … --resume, or name those that are there one by one"
        )
    return members or [path]


def read_task_model(path: Path) -> StoredTaskModel:
    """Read what `write_task_model` wrote, its weights as float32; a run's folder leads to the model inside it."""
    folder = path if (path / ABOUT).is_file() else path / RUN_MODEL
    with error_context(path):
        if not (folder / ABOUT).is_file():
            raise NotFound(f"has no {ABOUT}; a task model is a folder that elmore train has finished")
        files = open_container(folder)
        values, words = read_json(files, ABOUT), _read_words(files)
        with error_context(ABOUT):
            card = read_fields(TaskModelCard, values, error=FormatError)
            if card.format > FORMAT:
                raise FormatError(f"has format {card.format}, of a newer elmore; this one reads up to {FORMAT}")
            # Without a file of vectors all words were learnt, and with one those that it lacks.
            if card.learnt_words > len(words) or (not card.vector_dim and card.learnt_words < len(words)):
                raise FormatError(
                    f"learnt_words is {card.learnt_words}, and {WORDS} has {pluralize(len(words), 'word')}"
                )
        inside = folder / ELMO
        tensors = to_tensors(read_tensors(files, WEIGHTS, types=("float32", "float16")))
        return StoredTaskModel(card, words, tensors, inside if inside.is_dir() else None)


def _read_words(files: Container) -> tuple[str, ...]:
    try:
        text = files.read(WORDS).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{WORDS}: is not UTF-8 ({error}); train the model anew, or fetch it again") from None
    return tuple(text.replace("\r\n", "\n").split("\n")[:-1])
