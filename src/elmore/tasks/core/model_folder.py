"""A trained task model on disk: data only, which loads anywhere, with or without the biLM inside it.

task.json           the task, its recipe, labels, token style, which biLM it needs, scores
words.txt           the words that have vectors of their own, one a line
model.safetensors   the weights, in float32, or their matrices in float16
elmo/               the biLM, where it was put inside, or was trained with the task

An ensemble is a folder with several of them:

ensemble.json       the names of its members' folders, which lie beside it
"""

import difflib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.display import join_names, pluralize
from elmore.errors import FormatError, InputWarning, NotFound, error_context
from elmore.fields import check_fields, check_value, checked_field, read_fields
from elmore.files.atomic_files import atomic_write, atomic_write_folder, restore_folder
from elmore.formats.storage.container import Container, open_container, read_json
from elmore.formats.storage.safetensors_files import read_tensors, write_tensors
from elmore.model import Model, save
from elmore.sources.local import local_path
from elmore.tasks.inputs.vocabulary import TokenVocabulary
from elmore.text.style import TokenStyle
from elmore.version import __version__

CARD_FILE, ENSEMBLE = "task.json", "ensemble.json"
WORDS, WEIGHTS, ELMO = "words.txt", "model.safetensors", "elmo"
RUN_MODEL = "model"  # in the folder of a run
FORMAT = 1
# What `elmore info` goes by, of all that may be known of a training.
TRAINING_FACT_TYPES = {"examples": int, "best_epoch": int, "epochs": int, "chosen": str, "command": str}

_SHIPPED = Path(__file__).resolve().parents[2] / "task_models"  # package data


@dataclass(frozen=True, kw_only=True)
class BilmReference:
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
    elmo: BilmReference | None = None
    license: str = checked_field("", former_name="licence")  # "" if none is stated
    data: str = ""  # what it was trained on, and whom to credit
    scores: Mapping[str, float] = field(default_factory=dict)
    mixes: Mapping[str, MixWeights] = field(default_factory=dict)  # by the place where ELMo enters
    training: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT
    written_by: str = f"elmore {__version__}"

    def __post_init__(self) -> None:
        check_fields(self)
        for name, kind in TRAINING_FACT_TYPES.items():
            if name in self.training:
                check_value(f"training.{name}", self.training[name], kind)


@dataclass(frozen=True)
class StoredTaskModel:
    """A task model as plain data."""

    card: TaskModelCard
    words: tuple[str, ...]
    arrays: Mapping[str, NDArray[Any]]
    elmo: Path | None = None  # the biLM inside the folder, where there is one

    @property
    def vocabulary(self) -> TokenVocabulary:
        card = self.card
        return TokenVocabulary(self.words, card.learnt_words, tuple(card.characters), card.lowercase)


def in_half_precision(stored: StoredTaskModel) -> StoredTaskModel:
    """The same model with its matrices in float16, which take half the space; vectors and biases stay as they are.

    The numbers are computed with in float32 as before, and differ in their fourth digit.
    """
    with np.errstate(over="ignore"):  # checked below
        arrays = {name: array.astype(np.float16) if array.ndim > 1 else array for name, array in stored.arrays.items()}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise FormatError(f"{name} holds numbers that are too large for float16; keep the model in float32")
    return replace(stored, arrays=arrays)


def write_task_model(stored: StoredTaskModel, path: Path, *, bilm: Model | None = None) -> None:
    """Write the folder whole or not at all; `bilm` goes inside."""
    with atomic_write_folder(path, replaces=(CARD_FILE, WORDS, WEIGHTS, ELMO)) as folder:
        (folder / CARD_FILE).write_text(
            json.dumps(asdict(stored.card), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        (folder / WORDS).write_text("".join(f"{word}\n" for word in stored.words), encoding="utf-8", newline="\n")
        write_tensors(stored.arrays, folder / WEIGHTS)
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
    folder = path if (path / CARD_FILE).is_file() else path / RUN_MODEL
    with error_context(path):
        if not (folder / CARD_FILE).is_file():
            raise NotFound(f"has no {CARD_FILE}; a task model is a folder that elmore train has finished")
        files = open_container(folder)
        values, words = read_json(files, CARD_FILE), _read_words(files)
        with error_context(CARD_FILE):
            card = read_fields(TaskModelCard, values, error=FormatError)
            if card.format > FORMAT:
                raise FormatError(f"has format {card.format}, of a newer elmore; this one reads up to {FORMAT}")
            # Without a file of vectors all words were learnt, and with one those that it lacks.
            if card.learnt_words > len(words) or (not card.vector_dim and card.learnt_words < len(words)):
                raise FormatError(
                    f"learnt_words is {card.learnt_words}, and {WORDS} has {pluralize(len(words), 'word')}"
                )
        inside = folder / ELMO
        arrays = read_tensors(files, WEIGHTS, types=("float32", "float16"))
        return StoredTaskModel(card, words, arrays, inside if inside.is_dir() else None)


def _read_words(files: Container) -> tuple[str, ...]:
    try:
        text = files.read(WORDS).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{WORDS}: is not UTF-8 ({error}); train the model anew, or fetch it again") from None
    return tuple(text.replace("\r\n", "\n").split("\n")[:-1])


def is_task_model(path: Path) -> bool:
    """Whether a folder is a task model, the folder of a run with one, or an ensemble."""
    return any((folder / CARD_FILE).is_file() for folder in (path, path / RUN_MODEL)) or (path / ENSEMBLE).is_file()


def find_task_model(name: str | Path) -> Path:
    """The folder of a task model, by its path or by the name of one that comes with Elmore."""
    shipped = None if isinstance(name, Path) else _find_shipped(name)
    path = local_path(str(name))
    restore_folder(path)
    if not path.exists():
        if shipped is None:
            raise NotFound(_not_found_message(str(name)))
        return shipped
    if not is_task_model(path):
        what = "has no task.json" if path.is_dir() else "is a file, and no folder"
        hidden = f"; the {name} that comes with Elmore lies in {shipped}" if shipped else ""
        raise NotFound(f"{name}: {what}; a task model is a folder that elmore train has finished{hidden}")
    if shipped is not None:
        warnings.warn(
            f"{name} is a folder here, which is used, and also a model that comes with Elmore, in {shipped}; "
            f"write ./{name} to say that the folder is meant",
            InputWarning,
            stacklevel=3,
        )
    return path


def names_task_model(name: str | Path) -> bool:
    """Whether `find_task_model` has something by this name, and not a biLM is meant."""
    path = local_path(str(name))
    restore_folder(path)
    return is_task_model(path) if path.exists() else isinstance(name, str) and _find_shipped(name) is not None


def shipped_names() -> list[str]:
    """The names of the task models that come with Elmore."""
    return sorted(path.name for path in _SHIPPED.iterdir() if is_task_model(path)) if _SHIPPED.is_dir() else []


def _find_shipped(name: str) -> Path | None:
    # Compared with what is there, so that no name leads out of the folder.
    return _SHIPPED / name if name in shipped_names() else None


def _not_found_message(name: str) -> str:
    from elmore.tasks.core.registry import TASKS  # imported here: the tasks need torch, and finding a model does not

    shipped = shipped_names()
    close = difflib.get_close_matches(name, shipped)
    with_elmore = f", and no model of that name comes with Elmore, as {', '.join(shipped)} does" if shipped else ""
    advice = f"train one: elmore train {name}" if name in TASKS else "a task model is a folder that elmore train wrote"
    return f"{name}: no such folder{with_elmore}; " + (f"did you mean {close[0]}?" if close else advice)
