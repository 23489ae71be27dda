"""The model that a training begins with: a new one with first values, or one that is there (fine-tuning).

A model that is there may have a softmax over the corpus's own vocabulary, and then keeps it. Otherwise it gets a fresh
one, which first learns alone for a while: a random softmax would drive the rest of the model out of its place.
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

MOST_FROZEN_STEPS = 1000


@dataclass(frozen=True, kw_only=True)
class InitialModel:
    """A model before its first step, and how it reads the words of a corpus."""

    recipe: Recipe
    model: LanguageModel
    indexer: WordIndexer
    vocabulary: Vocabulary  # of the softmax, and of the word table where there is one
    character_vocabulary: Mapping[str, int] | None = None
    init: Mapping[str, Any] | None = None  # of fine-tuning: which model this was, and what became of its softmax

    def word_ids(self, corpus: Corpus) -> WordIds:
        """The ids of all types of the corpus."""
        # The first two types are the corpus's marks for the boundaries of sentences.
        return self.indexer.index([self.recipe.model.bos_token, self.recipe.model.eos_token, *corpus.types[2:]])


def new_model(
    recipe: Recipe,
    corpus: Corpus,
    *,
    character_vocabulary: Mapping[str, int] | None = None,
    init: Mapping[str, Any] | None = None,
) -> InitialModel:
    """A model of the recipe's shape with first values; a run that goes on puts those of its checkpoint over them."""
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
    """The values of a model, whose shape replaces the recipe's."""
    vocabulary = _vocabulary(corpus, model.config)
    name = model.card.name or model.card.source or "the model"
    own_words = model.vocabulary is not None and model.vocabulary == vocabulary
    if model.config.word_embedding_dim and not own_words:
        raise InputError(
            f"{name} reads words by a table of its own vocabulary, and the corpus has another; prepare the corpus with "
            "that one: elmore prepare --vocabulary FILE"
        )
    keeps_softmax = model.softmax is not None and own_words
    if model.softmax is not None and not keeps_softmax:
        warnings.warn(
            f"the softmax of {name} has another vocabulary than the corpus, so a fresh one is trained; to keep it, "
            "prepare the corpus with the model's vocabulary file: elmore prepare --vocabulary FILE",
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
    """The recipe for a model with a vector for each word of the vocabulary instead of a reader of characters."""
    model = replace(
        recipe.model,
        characters=None,
        vocab_size=len(corpus.vocabulary),
        word_embedding_dim=recipe.model.vector_dim,
        token_projection=False,
    )
    return replace(recipe, model=model)


def _vocabulary(corpus: Corpus, config: ModelConfig) -> Vocabulary:
    """That of the corpus, with the model's own names for the three marks."""
    names = {BEGIN: config.bos_token, END: config.eos_token, UNKNOWN: config.unk_token}
    return Vocabulary(names.get(word, word) for word in corpus.vocabulary.words)


def _with_frozen_steps(recipe: Recipe, corpus: Corpus) -> Recipe:
    """As many steps for the softmax alone as the recipe asks for, else an epoch, at most a thousand."""
    training = recipe.training
    if training.frozen_steps:
        return recipe
    epoch = (len(corpus.train) - 1) // (training.batch_size * training.window * training.gradient_accumulation)
    return replace(recipe, training=replace(training, frozen_steps=min(max(epoch, 1), MOST_FROZEN_STEPS)))
