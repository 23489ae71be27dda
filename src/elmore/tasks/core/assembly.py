"""A task's model put together: vocabulary, word vectors, mixes of a biLM's layers, and the task's own part on top.

New ones are made from a recipe and training examples; stored ones from what their folder holds.
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
    """A model and all that it needs to read examples."""

    task: Task[E, P]
    recipe: TaskRecipe
    model: TaskModel[E, P] | FittedModel[E, P]
    embedder: TokenEmbedder
    maker: Collator[E]
    labels: Labels
    token_style: TokenStyle
    required: BilmReference | None  # the biLM it belongs to


def find_token_style(task: Task[E, P], recipe: TaskRecipe, examples: Sequence[E]) -> TokenStyle:
    """The style of the data's tokens, as the recipe says, or as they look."""
    if recipe.task.token_style != "auto":
        return recipe.task.token_style
    return detect_token_style(token_sequences(task, examples))


@dataclass(frozen=True, kw_only=True)
class InputResources:
    """What the tokens of a model are made into vectors by."""

    vocabulary: TokenVocabulary
    vectors: NDArray[np.float32] | None  # of the words that came with one
    token_style: TokenStyle
    required: BilmReference | None = None
    bilm: Model | None = None
    compute: ComputeName = DEFAULT_COMPUTE  # what a frozen biLM computes in


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
    """A model with first values, which follow from the recipe's seed."""
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
    """Put a model together; the layers of a frozen biLM are kept in `cache`, if there is one."""
    joint, layers = None, None
    style, required = sources.token_style, sources.required
    if sources.bilm is not None and recipe.elmo.training == "joint":
        if sources.compute != DEFAULT_COMPUTE:
            raise InputError(f"compute is {sources.compute!r}; a biLM that was trained with its task is float32 only")
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
        raise OutOfMemory(f"the model that the recipe asks for does not fit into the memory of {device}") from None
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
