"""A training small enough for a test: a corpus of a few sentences, models of every kind, and all that trains them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from elmore.config import CharacterConfig, ModelConfig
from elmore.corpus.corpus import Corpus, Manifest
from elmore.nn.language_model import LanguageModel
from elmore.pretraining.initial_model import new_model
from elmore.pretraining.language_model_training import LanguageModelTraining
from elmore.pretraining.recipe import Recipe, Training
from elmore.pretraining.stepping import Stepper
from elmore.pretraining.windows import Windows
from elmore.text.style import TokenizerConfig
from elmore.text.vocabulary import Vocabulary
from elmore.training.trainable import World

WORDS = ["the", "a", "cat", "dog", "bird", "sees", "hears", "small", "big", ".", "extraordinarily"]
TYPES = ["<S>", "</S>", "<UNK>", *WORDS]
CLASSES = np.arange(len(TYPES), dtype=np.uint32)

MODEL = ModelConfig(
    characters=CharacterConfig(embedding_dim=4, filters=((1, 4), (2, 8)), num_highways=1), vector_dim=8, cell_dim=16
)
# What the paper leaves out in turn.
ABLATIONS = {
    "forward only": replace(MODEL, directions="forward"),
    "backward only": replace(MODEL, directions="backward"),
    "words instead of characters": replace(MODEL, characters=None, vocab_size=len(TYPES), word_embedding_dim=8),
    "words and characters": replace(MODEL, vocab_size=len(TYPES), word_embedding_dim=8),
    "one layer": replace(MODEL, lstm_layers=1),
    "no skip connections": replace(MODEL, skip_connections=False),
    "no projection": replace(MODEL, cell_dim=8, lstm_projection=False),
    "no clips": replace(MODEL, cell_clip=None, projection_clip=None),
}

TRAINING = Training(
    steps=20, batch_size=4, window=5, negatives=6, dropout=0.0, learning_rate=0.02, warmup_steps=0, final_rate=1.0
)


def small_stream(sentences: int = 60, *, seed: int = 1) -> np.ndarray:
    """The numbers of words in sentences of a small grammar, 0 between them."""
    random = np.random.default_rng(seed)
    number = {word: place for place, word in enumerate(TYPES)}
    stream = [0]
    for _ in range(sentences):
        words = []
        for part in (
            ["the", "a"],
            ["small", "big"],
            ["cat", "dog", "bird"],
            ["sees", "hears"],
            ["the"],
            ["cat", "dog"],
        ):
            words.append(part[random.integers(len(part))])
        stream += [*(number[word] for word in [*words, "."]), 0]
    return np.array(stream, dtype=np.uint32)


EMPTY_MANIFEST = Manifest(
    written_by="",
    text=TokenizerConfig(),
    parts={},
    types=0,
    vocabulary={},
    seed=1,
    heldout_share=0.0,
    inputs=(),
    files={},
)


def small_corpus_in_memory(sentences: int = 60) -> Corpus:
    """Nothing of it lies on disk."""
    return Corpus(
        path=Path("nowhere"),
        train=small_stream(sentences),
        heldout=small_stream(20, seed=2),
        types=TYPES,
        classes=CLASSES,
        vocabulary=Vocabulary(TYPES),
        style=TokenizerConfig(),
        manifest=EMPTY_MANIFEST,
    )


def small_language_model_training(
    training: Training = TRAINING, *, config: ModelConfig = MODEL, sentences: int = 60, world: World | None = None
) -> LanguageModelTraining:
    corpus = small_corpus_in_memory(sentences)
    initial = new_model(Recipe(model=config, training=training), corpus)
    return LanguageModelTraining(corpus, initial, device=torch.device("cpu"), world=world)


def small_model(config: ModelConfig = MODEL) -> LanguageModel:
    return new_model(Recipe(model=config, training=TRAINING), small_corpus_in_memory()).model


def small_windows(training: Training = TRAINING, *, config: ModelConfig = MODEL, sentences: int = 60) -> Windows:
    return small_language_model_training(training, config=config, sentences=sentences).windows


def small_stepper(training: Training = TRAINING, *, config: ModelConfig = MODEL) -> Stepper:
    return small_language_model_training(training, config=config).stepper
