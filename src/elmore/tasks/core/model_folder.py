"""Read and write the folder of a trained task model. It contains only data, no code.

    task.json           card: task, recipe, labels, token style, reference to the biLM, scores
    words.txt           the words with vectors, one per line
    model.safetensors   the weights, in float32, or the matrices in float16
    elmo/               the biLM, if it is stored with the model or was trained with the task

The folder of an ensemble contains such folders, and:

    ensemble.json       the names of the members' folders
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
# The training facts that `elmore info` reads. A card may contain others.
TRAINING_FACT_TYPES = {"examples": int, "best_epoch": int, "epochs": int, "chosen": str, "command": str}

_SHIPPED = Path(__file__).resolve().parents[2] / "task_models"  # package data


@dataclass(frozen=True, kw_only=True)
class BilmReference:
    """The biLM that a task model was trained with."""

    name: str  # the name or path that was loaded
    fingerprint: str
    num_layers: int
    dim: int


@dataclass(frozen=True, kw_only=True)
class MixWeights:
    """The mix of a biLM's layers at one position."""

    weights: tuple[float, ...]
    gamma: float


@dataclass(frozen=True, kw_only=True)
class TaskModelCard:
    """The contents of task.json: the facts about a task model, without words and weights."""

    task: str
    labels: Mapping[str, Any]
    recipe: Mapping[str, Any]
    token_style: TokenStyle
    characters: str = ""
    learnt_words: int = checked_field(0, at_least=0)  # words without a vector in the file of word vectors
    lowercase: bool = False
    vector_dim: int = checked_field(0, at_least=0)  # of the file of word vectors; 0: no file
    elmo: BilmReference | None = None
    license: str = checked_field("", former_name="licence")  # "" if none is stated
    data: str = ""  # training data and credits
    scores: Mapping[str, float] = field(default_factory=dict)
    mixes: Mapping[str, MixWeights] = field(default_factory=dict)  # by the position where ELMo enters
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
    elmo: Path | None = None  # the biLM in the folder, if it has one

    @property
    def vocabulary(self) -> TokenVocabulary:
        card = self.card
        return TokenVocabulary(self.words, card.learnt_words, tuple(card.characters), card.lowercase)


def in_half_precision(stored: StoredTaskModel) -> StoredTaskModel:
    """The same model with float16 matrices, for half the size. Vectors and biases are unchanged.

    Inference still computes in float32. Rounded weights differ in the fourth digit.
    """
    with np.errstate(over="ignore"):  # checked below
        arrays = {name: array.astype(np.float16) if array.ndim > 1 else array for name, array in stored.arrays.items()}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise FormatError(f"{name} contains numbers that are too large for float16; store the model in float32")
    return replace(stored, arrays=arrays)


def write_task_model(stored: StoredTaskModel, path: Path, *, bilm: Model | None = None) -> None:
    """Write the folder atomically, with `bilm` if given."""
    with atomic_write_folder(path, replaces=(CARD_FILE, WORDS, WEIGHTS, ELMO)) as folder:
        (folder / CARD_FILE).write_text(
            json.dumps(asdict(stored.card), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        (folder / WORDS).write_text("".join(f"{word}\n" for word in stored.words), encoding="utf-8", newline="\n")
        write_tensors(stored.arrays, folder / WEIGHTS)
        if bilm is not None:
            save(bilm, folder / ELMO)


def write_ensemble(path: Path, members: Sequence[str]) -> None:
    """Mark a folder as an ensemble of the models in these subfolders. The members may be trained later."""
    with atomic_write(path / ENSEMBLE) as unfinished:
        unfinished.write_text(json.dumps({"members": list(members)}, indent=2) + "\n", encoding="utf-8")


def ensemble_members(path: Path) -> list[Path]:
    """The folders of an ensemble's members, finished or not; empty if the folder is not an ensemble."""
    if not (path / ENSEMBLE).is_file():
        return []
    with error_context(path / ENSEMBLE):
        try:
            values = json.loads((path / ENSEMBLE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FormatError(f"cannot be read ({error})") from None
        members = values.get("members") if isinstance(values, dict) else None
        names = members if isinstance(members, list) else []
        # Only names: a path could point outside the folder.
        if not names or not all(isinstance(name, str) and name == Path(name).name for name in names):
            raise FormatError('must contain the names of subfolders of its folder: {"members": ["seed-1", "seed-2"]}')
        return [path / name for name in names]


def member_folders(path: Path) -> list[Path]:
    """The folder of a single model, or the folders of an ensemble's members. An unfinished ensemble is rejected."""
    members = ensemble_members(path)
    if missing := [member.name for member in members if not is_task_model(member)]:
        raise NotFound(
            f"{path}: {len(missing)} of {len(members)} members not finished: {join_names(missing)}; run elmore train … "
            "--resume, or list the folders of the finished members"
        )
    return members or [path]


def read_task_model(path: Path) -> StoredTaskModel:
    """Read the folder of a model, or of a run with a model. Weights are read as float32."""
    folder = path if (path / CARD_FILE).is_file() else path / RUN_MODEL
    with error_context(path):
        if not (folder / CARD_FILE).is_file():
            raise NotFound(f"has no {CARD_FILE}; a task model is a folder written by a finished elmore train")
        files = open_container(folder)
        values, words = read_json(files, CARD_FILE), _read_words(files)
        with error_context(CARD_FILE):
            card = read_fields(TaskModelCard, values, error=FormatError)
            if card.format > FORMAT:
                raise FormatError(
                    f"has format {card.format}, but this Elmore reads formats up to {FORMAT}; install a newer one"
                )
            # Without a file of word vectors, all words have trained vectors.
            if card.learnt_words > len(words) or (not card.vector_dim and card.learnt_words < len(words)):
                raise FormatError(
                    f"learnt_words is {card.learnt_words}, but {WORDS} has {pluralize(len(words), 'word')}"
                )
        inside = folder / ELMO
        arrays = read_tensors(files, WEIGHTS, types=("float32", "float16"))
        return StoredTaskModel(card, words, arrays, inside if inside.is_dir() else None)


def _read_words(files: Container) -> tuple[str, ...]:
    try:
        text = files.read(WORDS).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{WORDS}: is not UTF-8 ({error}); train or download the model again") from None
    return tuple(text.replace("\r\n", "\n").split("\n")[:-1])


def is_task_model(path: Path) -> bool:
    """Whether a folder is a task model, the folder of a run with one, or an ensemble."""
    return any((folder / CARD_FILE).is_file() for folder in (path, path / RUN_MODEL)) or (path / ENSEMBLE).is_file()


def find_task_model(name: str | Path) -> Path:
    """The folder of a task model, from its path or the name of a model shipped with Elmore."""
    shipped = None if isinstance(name, Path) else _find_shipped(name)
    path = local_path(str(name))
    restore_folder(path)
    if not path.exists():
        if shipped is None:
            raise NotFound(_not_found_message(str(name)))
        return shipped
    if not is_task_model(path):
        what = f"has no {CARD_FILE}" if path.is_dir() else "is a file, not a folder"
        hidden = f"; the model {name} shipped with Elmore is in {shipped}" if shipped else ""
        raise NotFound(f"{name}: {what}; a task model is a folder written by a finished elmore train{hidden}")
    if shipped is not None:
        warnings.warn(
            f"the folder {name} is used, not the model of this name shipped with Elmore, in {shipped}; write ./{name} "
            "to avoid this warning",
            InputWarning,
            stacklevel=3,
        )
    return path


def names_task_model(name: str | Path) -> bool:
    """Whether `find_task_model` finds a task model with this name; if not, it may be a biLM."""
    path = local_path(str(name))
    restore_folder(path)
    return is_task_model(path) if path.exists() else isinstance(name, str) and _find_shipped(name) is not None


def shipped_names() -> list[str]:
    """The names of the task models shipped with Elmore."""
    return sorted(path.name for path in _SHIPPED.iterdir() if is_task_model(path)) if _SHIPPED.is_dir() else []


def _find_shipped(name: str) -> Path | None:
    # Compared with the existing folders: a path such as ../x must not leave the folder.
    return _SHIPPED / name if name in shipped_names() else None


def _not_found_message(name: str) -> str:
    from elmore.tasks.core.registry import TASKS  # imported here: the tasks require torch

    shipped = shipped_names()
    close = difflib.get_close_matches(name, shipped)
    names = f", and no model shipped with Elmore ({', '.join(shipped)})" if shipped else ""
    advice = f"train a model: elmore train {name}" if name in TASKS else "give the folder of a trained task model"
    return f"{name}: no such folder{names}; " + (f"did you mean {close[0]}?" if close else advice)
