"""Build a task model: vocabulary, word vectors, mixes of a biLM's layers, and the network of the task.

A new model is built from a recipe and training examples, a stored model from the contents of its folder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from elmore.defaults import DEFAULT_COMPUTE, ComputeName
from elmore.embedding.embedder import Embedder
from elmore.errors import InputError, OutOfMemory
from elmore.model import Model
from elmore.nn.devices import is_out_of_memory
from elmore.tasks.core.batching import Collator
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.model_folder import BilmReference
from elmore.tasks.core.task import FittedModel, Labels, Task, TaskModel, token_sequences
from elmore.tasks.inputs.bilm import JointElmo, bilm_reference
from elmore.tasks.inputs.embedder import BilmShape, TokenEmbedder
from elmore.tasks.inputs.layer_cache import LayerCache, LayerReader
from elmore.tasks.inputs.vocabulary import TokenVocabulary, build_vocabulary
from elmore.text.style import TokenStyle
from elmore.text.token_styles import detect_token_style

E = TypeVar("E")
P = TypeVar("P")


@dataclass(frozen=True, kw_only=True)
class AssembledModel(Generic[E, P]):
    """A model, and the parts that turn examples into its inputs."""

    task: Task[E, P]
    recipe: TaskRecipe
    model: TaskModel[E, P] | FittedModel[E, P]
    embedder: TokenEmbedder
    maker: Collator[E]
    labels: Labels
    token_style: TokenStyle
    required: BilmReference | None  # the biLM that the model was trained with


def find_token_style(task: Task[E, P], recipe: TaskRecipe, examples: Sequence[E]) -> TokenStyle:
    """The token style of the data: the style in the recipe, or for "auto" the style that the tokens have."""
    if recipe.task.token_style != "auto":
        return recipe.task.token_style
    return detect_token_style(token_sequences(task, examples))


@dataclass(frozen=True, kw_only=True)
class InputResources:
    """The vocabulary, word vectors and biLM that turn tokens into vectors."""

    vocabulary: TokenVocabulary
    vectors: NDArray[np.float32] | None  # (words, size) of the words in the file of word vectors
    token_style: TokenStyle
    required: BilmReference | None = None
    bilm: Model | None = None
    compute: ComputeName = DEFAULT_COMPUTE  # the number type of a frozen biLM


def new_model(
    task: Task[E, P],
    recipe: TaskRecipe,
    labels: Labels,
    examples: Sequence[E],
    *,
    bilm: Model | None,
    token_style: TokenStyle,
    cache: Path,
    device: torch.device,
) -> AssembledModel[E, P]:
    """A new model. Its initial weights depend on the seed of the recipe."""
    vocabulary, vectors = build_vocabulary(token_sequences(task, examples), recipe.words)
    required = None if bilm is None else bilm_reference(bilm, recipe.elmo.model)
    sources = InputResources(
        vocabulary=vocabulary, vectors=vectors, token_style=token_style, required=required, bilm=bilm
    )
    torch.manual_seed(recipe.training.seed)
    return assemble(task, recipe, labels, sources, cache=cache, device=device)


def assemble(
    task: Task[E, P],
    recipe: TaskRecipe,
    labels: Labels,
    sources: InputResources,
    *,
    cache: Path | None,
    device: torch.device,
) -> AssembledModel[E, P]:
    """Build a model from its parts. The layers of a frozen biLM are stored in the folder `cache`, unless it is None."""
    joint, layers = None, None
    style, required = sources.token_style, sources.required
    if sources.bilm is not None and recipe.elmo.training == "joint":
        if sources.compute != DEFAULT_COMPUTE:
            raise InputError(f"compute is {sources.compute!r}; a biLM from joint training supports only float32")
        joint = JointElmo(sources.bilm, token_style=style, unfreeze_every=recipe.elmo.unfreeze_every)
    elif sources.bilm is not None:
        reader = LayerReader(Embedder(sources.bilm, device=device, compute=sources.compute), token_style=style)
        layers = reader if cache is None else LayerCache(reader, cache)
    shape = None if required is None else BilmShape(required.num_layers, required.dim)
    vocabulary = sources.vocabulary
    try:
        embedder = TokenEmbedder(
            recipe.words, recipe.elmo, vocabulary, vectors=sources.vectors, bilm=shape, joint=joint
        )
        model = task.build(recipe.task, labels, embedder).to(device)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            f"the model of this recipe does not fit into the memory of {device}; set smaller sizes in the recipe"
        ) from None
    return AssembledModel(
        task=task,
        recipe=recipe,
        model=model,
        embedder=embedder,
        maker=Collator(task, vocabulary, device, layers, joint),
        labels=labels,
        token_style=style,
        required=required,
    )
