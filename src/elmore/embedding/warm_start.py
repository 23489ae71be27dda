"""A warm start state, and the vectors of a vocabulary: computed once and stored with a model.

A warm start state is the mean state of the network after a sentence of a given text.

In training the network never starts from zeros, so with a zero state it predicts the first words of a sentence a little
worse. AllenNLP and bilm-tf carry the state from sentence to sentence, and one sentence gets different vectors on each
call. A fixed warm state has both advantages: it resembles the states of training, and vectors do not change.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from elmore.engine import open_engine
from elmore.engine.open_engine import AUTO
from elmore.engine.rows import PackedRows
from elmore.engine.state import State
from elmore.engine.word_store import WordStore
from elmore.errors import InputError
from elmore.model import Model


def compute_warm_start(
    model: Model, sentences: Iterable[Sequence[str]], *, text_name: str, device: object = AUTO
) -> Model:
    """The model with a warm start state: the mean of its states after each sentence, read one after another."""
    engine = open_engine(model.checkpoint, device=device)
    store = WordStore(engine, model.word_indexer)
    state = State.zeros(model.config)
    h, c = (np.zeros(part.shape, dtype=np.float64) for part in (state.h, state.c))
    count = 0
    for words in sentences:
        numbered = store.number(list(words))
        lengths = np.array([len(words)], dtype=np.int64)
        rows = PackedRows.one_per_row(numbered.numbers, lengths, boundaries=numbered.boundaries)
        _, state = engine.run(numbered.table, rows, state)
        h, c, count = h + state.h, c + state.c, count + 1
    if count == 0:
        raise InputError(f"{text_name} contains no sentence to compute a warm state from")
    mean = State((h / count).astype(np.float32), (c / count).astype(np.float32))
    return model.with_start(mean, f"the mean state after each of {count} sentences of {text_name}")


def embed_vocabulary(model: Model, *, device: object = AUTO) -> NDArray[np.float32]:
    """(words, vector_dim) the context-free vector of each word of the model's vocabulary, in its order."""
    if model.vocabulary is None:
        raise InputError("the words to embed are missing: give a vocabulary file with one word per line")
    engine = open_engine(model.checkpoint, device=device)
    words = model.vocabulary.words
    groups = [words[first : first + engine.word_group] for first in range(0, len(words), engine.word_group)]
    return np.concatenate([engine.fetch(engine.encode_words(model.word_indexer.index(group)))() for group in groups])
