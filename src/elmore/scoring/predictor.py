"""Reads sentences in each direction and says how probable each word was where it stood.

G directions, B rows, T steps, N positions of all rows, P vector size.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.options import EngineArguments, InferenceOptions, check_engine_options
from elmore.embedding.sentences import Sentence, check_sentences, tokenize_sentence
from elmore.engine.open_engine import open_engine
from elmore.engine.rows import RowSteps, bucket_by_length
from elmore.engine.state import State
from elmore.engine.word_store import WordStore
from elmore.errors import InputError
from elmore.fields import check_value
from elmore.model import Model, load
from elmore.scoring.rows import Predicted, ReadingStep, Rows, Scores, Words, steps_of
from elmore.scoring.softmax import Softmax
from elmore.text.brackets import BracketedWords, parse_brackets, retokenize_brackets
from elmore.text.input_checks import InputCheck
from elmore.text.paragraphs import UNWRAP_ADVICE
from elmore.text.splitting import split_text
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle
from elmore.text.token_styles import retokenize
from elmore.text.tokenizer import Tokenizer

AnyModel: TypeAlias = "str | Path | Model | Predictor | None"  # a name or a path too; None is elmore-en

SENTENCES_AHEAD = 1024  # among which those of like length are batched together
BATCH_STEPS = 2048


class Predictor:
    """A model with its softmax, ready to be asked.

    Making one loads the model and reads its softmax, which takes seconds: whoever asks often makes it once, and gives
    it to `perplexity`, `surprisal` or `substitutes` as their `model`.
    """

    def __init__(self, model: Model, **options: Unpack[EngineArguments]) -> None:
        self.options = InferenceOptions(**options)
        self.engine = open_engine(model.checkpoint, **self.options.engine_arguments())
        self.softmax = Softmax.of(model, self.engine)
        self.model = model.without_weights()
        self.tokenizer = Tokenizer(model.card.text)
        self._store = WordStore(self.engine, model.word_indexer)
        self.check = InputCheck(model.card.text)

    @classmethod
    def from_pretrained(cls, name: str | Path | None = None, **options: Unpack[EngineArguments]) -> "Predictor":
        """Load a model by its path, its URL or its name; `device="auto"` is a GPU if there is one."""
        return cls(load(name), **options)

    @classmethod
    def of(cls, model: "AnyModel", **options: Unpack[EngineArguments]) -> "Predictor":
        """A predictor for a model or for its name; a predictor is returned unchanged."""
        if isinstance(model, Predictor):
            opened = replace(model.options, device=model.engine.device)
            check_engine_options(options, **opened.engine_arguments())
            return model
        if not isinstance(model, Model | str | Path | None):
            raise InputError(f"model is {model!r}; give a name, a path, a Model or a Predictor")
        return cls(model, **options) if isinstance(model, Model) else cls.from_pretrained(model, **options)

    def words_of(
        self, sentences: str | Iterable[Sentence], *, token_style: TokenStyle = DEFAULT_TOKEN_STYLE
    ) -> Iterator[list[str]]:
        """The words of every sentence: of a text, which is split first, or of strings and lists of words.

        Lists in any `token_style` but "moses" are turned into the model's own words. What looks wrong with them for
        this model is told once.
        """
        check_value("token_style", token_style, TokenStyle)
        check_sentences(sentences)
        if isinstance(sentences, str):
            found = split_text(sentences, style=self.model.card.text, advice=UNWRAP_ADVICE)
            sentences = [sentence.text for sentence in found]
        words = (self._words(sentence, number, token_style) for number, sentence in enumerate(sentences))
        return self.check.check_stream(words)

    def bracketed_words(self, sentence: Sentence, *, token_style: TokenStyle = DEFAULT_TOKEN_STYLE) -> BracketedWords:
        """The words of a sentence with one place in [brackets], and which of them stand there; see `words_of`."""
        check_value("token_style", token_style, TokenStyle)
        given = sentence if isinstance(sentence, str) else tokenize_sentence(sentence, self.tokenizer)
        found = parse_brackets(given, self.tokenizer)
        if token_style != "moses" and not isinstance(sentence, str):
            found = retokenize_brackets(found, self.tokenizer, style=token_style)
        self.check.check([found.words], stacklevel=4)
        return found

    def read_from_fixed_state(self, sentences: Iterable[Words]) -> Iterator[Predicted]:
        """Read every sentence from the model's start state: what is said of one does not depend on the others."""
        source = iter(sentences)
        while ahead := list(islice(source, SENTENCES_AHEAD)):
            results: dict[int, Predicted] = {}
            for numbers in bucket_by_length((len(words) + 1 for words in ahead), tokens=BATCH_STEPS):
                rows = [steps_of([ahead[number]], self.model.config) for number in numbers]
                scores, _ = self._predict(rows, self.model.start.repeat(len(rows)))
                results.update((n, Predicted(ahead[n], found)) for n, found in zip(numbers, scores, strict=True))
            yield from (results.pop(number) for number in range(len(ahead)))

    def read_carrying_state(self, sentences: Iterable[Words], *, rows: int, passage: int) -> Iterator[Predicted]:
        """Read in rows that carry their state on, from zeros; a row that is free takes the next `passage` sentences.

        In a passage each sentence is read with the memory of its neighbours, forwards of those before it, backwards of
        those after it, as in our training. Passages of one sentence are what bilm-tf reads.
        """
        source = iter(sentences)
        passages = iter(lambda: list(islice(source, passage)), [])
        text = Rows(passages, rows=rows, config=self.model.config)
        state = self.model.start.first(0).first(rows)
        while True:
            places, chunks = text.next_chunks()
            if not chunks:
                return
            scores, state = self._predict(chunks, state.select(np.array(places, dtype=np.int64)))
            yield from text.completed(scores)

    def hidden_states(self, words: Words) -> Any:
        """(G, words + 1, P) the top layer before each word of a sentence, each direction in its reading order."""
        return self._read([steps_of([words], self.model.config)], self.model.start)[0]

    def _predict(self, rows: Sequence[list[ReadingStep]], state: State) -> tuple[list[Scores], State]:
        """The log-probabilities (G, T) of each row, longest first, and the state after them."""
        hidden, after = self._read(rows, state)
        classes = np.array(
            [[self.softmax.class_of(word) for _, word in steps] for steps in _by_direction(rows)], dtype=np.int64
        )
        found = self.softmax.log_probabilities(hidden.reshape(classes.size, -1), classes.ravel())
        ends = np.cumsum([len(row) for row in rows])
        return np.split(found.reshape(classes.shape), ends[:-1], axis=1), after

    def _read(self, rows: Sequence[list[ReadingStep]], state: State) -> tuple[Any, State]:
        """(G, N, P) the top outputs at all steps of all rows, longest first, and the state after them."""
        read = [[word for word, _ in steps] for steps in _by_direction(rows)]
        numbered = self._store.number(list(chain.from_iterable(read)))
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        positions = _positions(lengths)
        words = np.zeros((len(read), int(lengths[0]) * len(rows)), dtype=np.int64)
        words[:, positions] = numbered.numbers.reshape(len(read), -1)
        steps = RowSteps(words.reshape(len(read), -1, len(rows)), lengths, None)
        outputs, after = self.engine.run_steps(numbered.table, steps, state)
        return outputs.reshape(len(read), words.shape[1], -1)[:, positions], after

    def _words(self, sentence: Sentence, number: int, token_style: TokenStyle) -> list[str]:
        words = tokenize_sentence(sentence, self.tokenizer, number)
        # A string was tokenised in the model's style just now.
        if token_style == "moses" or isinstance(sentence, str):
            return words
        return retokenize(words, self.tokenizer, style=token_style).words


def _positions(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) where the steps of each row are in (T, R) flattened, row after row."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    first = np.cumsum(lengths) - lengths
    return (np.arange(len(rows)) - first[rows]) * len(lengths) + rows


def _by_direction(rows: Sequence[list[ReadingStep]]) -> list[tuple[tuple[str, str], ...]]:
    """(G, N) what each direction reads and predicts, row after row."""
    return list(zip(*chain.from_iterable(rows), strict=True))
