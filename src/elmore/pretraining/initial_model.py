"""The initial model of a pre-training run: a new model, or a pretrained one (fine-tuning).

A pretrained model keeps its softmax if it is over the corpus's vocabulary. Otherwise it gets a new softmax, and the
first steps train only that: the gradients of a random softmax would damage the pretrained weights.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from elmore.config import ModelConfig
from elmore.corpus.corpus import BEGIN, END, UNKNOWN, Corpus
from elmore.errors import InputError, InputWarning
from elmore.formats.arrays import dequantize
from elmore.model import Model
from elmore.nn.devices import to_tensors
from elmore.nn.language_model import LanguageModel, initialize
from elmore.pretraining.recipe import Recipe
from elmore.text.vocabulary import Vocabulary
from elmore.text.word_ids import WordIds, WordIndexer

MAX_FROZEN_STEPS = 1000


@dataclass(frozen=True, kw_only=True)
class InitialModel:
    """A model before its first step, and its word indexer and vocabularies."""

    recipe: Recipe
    model: LanguageModel
    indexer: WordIndexer
    vocabulary: Vocabulary  # of the softmax, and of the word table if there is one
    character_vocabulary: Mapping[str, int] | None = None
    init: Mapping[str, Any] | None = None  # of fine-tuning: the pretrained model, and whether its softmax is used

    def word_ids(self, corpus: Corpus) -> WordIds:
        """The word ids of all types of the corpus."""
        # The first two types are the corpus's markers for sentence boundaries.
        return self.indexer.index([self.recipe.model.bos_token, self.recipe.model.eos_token, *corpus.types[2:]])


def new_model(
    recipe: Recipe,
    corpus: Corpus,
    *,
    character_vocabulary: Mapping[str, int] | None = None,
    init: Mapping[str, Any] | None = None,
) -> InitialModel:
    """A model of the recipe's shape with random values. A resumed run replaces them by those of its checkpoint."""
    vocabulary = _vocabulary(corpus, recipe.model)
    model = LanguageModel(recipe.model, classes=len(vocabulary))
    initialize(model, torch.Generator().manual_seed(recipe.training.seed))
    return InitialModel(
        recipe=recipe,
        model=model,
        indexer=WordIndexer(recipe.model, vocabulary=vocabulary, character_vocabulary=character_vocabulary),
        vocabulary=vocabulary,
        character_vocabulary=character_vocabulary,
        init=init,
    )


def from_model(model: Model, recipe: Recipe, corpus: Corpus) -> InitialModel:
    """A pretrained model, whose shape replaces that of the recipe."""
    vocabulary = _vocabulary(corpus, model.config)
    name = model.card.name or model.card.source or "the model"
    has_same_vocabulary = model.vocabulary is not None and model.vocabulary == vocabulary
    if model.config.word_embedding_dim and not has_same_vocabulary:
        raise InputError(
            f"{name} has a word table for another vocabulary than that of the corpus; prepare the corpus with the "
            "vocabulary of the model: elmore prepare --vocabulary FILE"
        )
    keeps_softmax = model.softmax is not None and has_same_vocabulary
    if model.softmax is not None and not keeps_softmax:
        warnings.warn(
            f"the softmax of {name} has another vocabulary than the corpus, so a new softmax is trained; to use the "
            "softmax of the model, prepare the corpus with the model's vocabulary: elmore prepare --vocabulary FILE",
            InputWarning,
            stacklevel=2,
        )
    if not keeps_softmax:
        recipe = _with_frozen_steps(recipe, corpus)
    initial = new_model(
        replace(recipe, model=model.config),
        corpus,
        character_vocabulary=model.checkpoint.character_vocabulary,
        init={
            "name": model.card.name,
            "source": model.card.source,
            "license": model.card.license,
            "fingerprint": model.fingerprint(),
            "softmax": "its own" if keeps_softmax else "fresh",
        },
    )
    initial.model.network.load_state_dict(to_tensors(model.checkpoint.float_arrays()))
    if keeps_softmax:
        assert model.softmax is not None
        softmax = to_tensors(dequantize(model.softmax()))
        with torch.no_grad():
            initial.model.softmax_weight.copy_(softmax["weight"])
            initial.model.softmax_bias.copy_(softmax["bias"])
    return initial


def with_word_table(recipe: Recipe, corpus: Corpus) -> Recipe:
    """The recipe with a table of word vectors instead of a character CNN."""
    model = replace(
        recipe.model,
        characters=None,
        vocab_size=len(corpus.vocabulary),
        word_embedding_dim=recipe.model.vector_dim,
        token_projection=False,
    )
    return replace(recipe, model=model)


def _vocabulary(corpus: Corpus, config: ModelConfig) -> Vocabulary:
    """The vocabulary of the corpus, with the model's names for the three markers."""
    names = {BEGIN: config.bos_token, END: config.eos_token, UNKNOWN: config.unk_token}
    return Vocabulary(names.get(word, word) for word in corpus.vocabulary.words)


def _with_frozen_steps(recipe: Recipe, corpus: Corpus) -> Recipe:
    """The recipe with frozen steps: those of the recipe, or one epoch, at most MAX_FROZEN_STEPS."""
    training = recipe.training
    if training.frozen_steps:
        return recipe
    epoch = (len(corpus.train) - 1) // (training.batch_size * training.window * training.gradient_accumulation)
    return replace(recipe, training=replace(training, frozen_steps=min(max(epoch, 1), MAX_FROZEN_STEPS)))
