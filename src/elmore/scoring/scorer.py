"""Log-probabilities of the words of sentences, in each direction: a language model with its softmax.

G directions, N positions, P vector size, V classes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.options import EngineArguments, InferenceOptions, check_engine_options
from elmore.embedding.sentences import SENTENCES_PER_READ, Sentence, check_sentences, tokenize_sentence
from elmore.embedding.stream import SentenceBatch, SentenceEncoder, count_words
from elmore.engine.engine import Engine, SoftmaxScorer
from elmore.engine.open_engine import open_engine
from elmore.engine.rows import RowSteps
from elmore.engine.state import State
from elmore.engine.weights import as_float
from elmore.engine.word_store import WordStore
from elmore.errors import FormatError, InputError
from elmore.fields import check_value
from elmore.model import Model, load
from elmore.scoring.rows import ReadingStep, Rows, ScoredSentence, Scores, Words
from elmore.text.brackets import BracketedWords, parse_brackets, retokenize_brackets
from elmore.text.input_checks import InputCheck
from elmore.text.paragraphs import UNWRAP_ADVICE
from elmore.text.splitting import split_text
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle
from elmore.text.token_styles import retokenize
from elmore.text.tokenizer import Tokenizer
from elmore.text.vocabulary import Vocabulary

AnyModel: TypeAlias = "str | Path | Model | LanguageModelScorer | None"  # also a name or a path; None is elmore-en


class LanguageModelScorer:
    """A model with its softmax.

    Opening a model and its softmax takes seconds. To score several texts, open it once, and pass it to `perplexity`,
    `surprisal` or `substitutes` as their `model`.
    """

    def __init__(self, model: Model, **options: Unpack[EngineArguments]) -> None:
        self.options = InferenceOptions(**options)
        self.engine = open_engine(model.checkpoint, **self.options.engine_arguments())
        self.softmax = Softmax.of(model, self.engine)
        self.model = model.without_weights()
        self.tokenizer = Tokenizer(model.card.text)
        self._store = WordStore(self.engine, model.word_indexer)
        self._check = InputCheck(model.card.text)

    @classmethod
    def from_pretrained(
        cls, name: str | Path | None = None, **options: Unpack[EngineArguments]
    ) -> "LanguageModelScorer":
        """Load a model by its path, its URL or its name; `device="auto"` is a GPU if there is one."""
        return cls(load(name), **options)

    @classmethod
    def of(cls, model: AnyModel, **options: Unpack[EngineArguments]) -> "LanguageModelScorer":
        """A scorer for a model or for its name; a scorer is returned unchanged."""
        if isinstance(model, LanguageModelScorer):
            opened = replace(model.options, device=model.engine.device)
            check_engine_options(options, **opened.engine_arguments())
            return model
        if not isinstance(model, Model | str | Path | None):
            raise InputError(f"model is {model!r}; give a name, a path, a Model or a LanguageModelScorer")
        return cls(model, **options) if isinstance(model, Model) else cls.from_pretrained(model, **options)

    def tokenize_sentences(
        self, sentences: str | Iterable[Sentence], *, token_style: TokenStyle = DEFAULT_TOKEN_STYLE
    ) -> Iterator[list[str]]:
        """The words of each sentence: of a text, which is split first, or of strings and lists of words.

        Lists in any `token_style` but "moses" are converted to the model's words. Warns once about input that does not
        suit the model.
        """
        check_value("token_style", token_style, TokenStyle)
        check_sentences(sentences)
        if isinstance(sentences, str):
            spans = split_text(sentences, style=self.model.card.text, advice=UNWRAP_ADVICE)
            sentences = [span.text for span in spans]
        words = (self._words(sentence, number, token_style) for number, sentence in enumerate(sentences))
        return self._check.check_stream(words)

    def parse_brackets(self, sentence: Sentence, *, token_style: TokenStyle = DEFAULT_TOKEN_STYLE) -> BracketedWords:
        """The words of a sentence, and the position of the words in [brackets]; see `tokenize_sentences`."""
        check_value("token_style", token_style, TokenStyle)
        text = sentence if isinstance(sentence, str) else tokenize_sentence(sentence, self.tokenizer)
        words = parse_brackets(text, self.tokenizer)
        if token_style != "moses" and not isinstance(sentence, str):
            words = retokenize_brackets(words, self.tokenizer, style=token_style)
        self._check.check([words.words], stacklevel=4)
        return words

    def score(self, sentences: Iterable[Words]) -> Iterator[ScoredSentence]:
        """Score each sentence from the model's start state, independent of the other sentences."""
        source = iter(sentences)
        groups = iter(lambda: list(islice(source, SENTENCES_PER_READ)), [])
        for batch in self._encoder().encode(SentenceBatch(group, group) for group in groups):
            yield from self._score(batch.payloads, batch.vectors)

    def score_carrying_state(self, sentences: Iterable[Words], *, rows: int, passage: int) -> Iterator[ScoredSentence]:
        """Score in rows that carry their state, starting from zeros; a free row takes the next `passage` sentences.

        In a passage the forward direction continues from the previous sentence, and the backward direction from the
        next sentence, as in pretraining. Passages of one sentence are what bilm-tf reads.
        """
        source = iter(sentences)
        passages = iter(lambda: list(islice(source, passage)), [])
        text = Rows(passages, rows=rows, config=self.model.config)
        state = self.model.start.first(0).first(rows)
        while True:
            indices, chunks = text.next_chunks()
            if not chunks:
                return
            scores, state = self._run_chunks(chunks, state.select(np.array(indices, dtype=np.int64)))
            yield from text.completed(scores)

    def hidden_states(self, words: Words) -> list[Any]:
        """For each direction (words + 1, P) the top layer before each word, in the direction's reading order."""
        batch = next(self._encoder().encode([SentenceBatch([words], [None])]))
        hidden = batch.vectors.reshape(len(words) + 2, -1, self.model.config.vector_dim)
        return [
            hidden[:-1, number] if direction == "forward" else hidden[np.arange(len(words) + 1, 0, -1), number]
            for number, direction in enumerate(self.model.config.direction_names)
        ]

    def _encoder(self) -> SentenceEncoder:
        return SentenceEncoder(
            self.engine, self._store, self.model.start, InferenceOptions(layers="top"), to_host=False, boundaries=True
        )

    def _score(self, sentences: Sequence[Words], hidden: Any) -> Iterator[ScoredSentence]:
        """Score sentences by the top layer (N, G * P) at all of their words and boundaries."""
        config = self.model.config
        hidden = hidden.reshape(len(hidden), -1, config.vector_dim)  # (N, G, P)
        lengths = count_words(sentences) + 2
        ends = np.cumsum(lengths)
        by_direction: list[list[Scores]] = []
        for number, direction in enumerate(config.direction_names):
            if direction == "forward":
                without, targets = ends - 1, ([*words, config.eos_token] for words in sentences)
            else:
                without, targets = ends - lengths, ([config.bos_token, *words] for words in sentences)
            positions = np.delete(np.arange(len(hidden)), without)
            classes = self._class_ids(chain.from_iterable(targets), len(positions))
            scores = self.softmax.log_probabilities(hidden[positions, number], classes)
            parts = np.split(scores, np.cumsum(lengths - 1)[:-1])
            by_direction.append([part if direction == "forward" else part[::-1] for part in parts])
        for words, *scored in zip(sentences, *by_direction, strict=True):
            yield ScoredSentence(words, np.stack(scored))

    def _run_chunks(self, rows: Sequence[list[ReadingStep]], state: State) -> tuple[list[Scores], State]:
        """The log-probabilities (G, steps) of the steps of each row, longest first, and the state after them."""
        steps = list(zip(*chain.from_iterable(rows), strict=True))  # (G, N) pairs of a word and its target, row by row
        numbered = self._store.number([word for direction in steps for word, _ in direction])
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        positions = _positions(lengths)
        words = np.zeros((len(steps), int(lengths[0]) * len(rows)), dtype=np.int64)
        words[:, positions] = numbered.numbers.reshape(len(steps), -1)
        row_steps = RowSteps(words.reshape(len(steps), -1, len(rows)), lengths, None)
        outputs, after = self.engine.run_steps(numbered.table, row_steps, state)
        hidden = outputs.reshape(len(steps), words.shape[1], -1)[:, positions]  # (G, N, P)
        size = len(steps) * len(positions)
        classes = self._class_ids((target for direction in steps for _, target in direction), size)
        scores = self.softmax.log_probabilities(hidden.reshape(size, -1), classes).reshape(len(steps), -1)
        return np.split(scores, np.cumsum(lengths)[:-1], axis=1), after

    def _class_ids(self, words: Iterable[str], count: int) -> NDArray[np.int64]:
        return np.fromiter(map(self.softmax.class_id, words), dtype=np.int64, count=count)

    def _words(self, sentence: Sentence, number: int, token_style: TokenStyle) -> list[str]:
        words = tokenize_sentence(sentence, self.tokenizer, number)
        # Strings have the model's token style already.
        if token_style == "moses" or isinstance(sentence, str):
            return words
        return retokenize(words, self.tokenizer, style=token_style).words


def _positions(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) the steps of each row, row after row, as positions in (T, R) flattened."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    first = np.cumsum(lengths) - lengths
    return (np.arange(len(rows)) - first[rows]) * len(lengths) + rows


@dataclass(frozen=True)
class Softmax:
    """A model's softmax in the memory of its engine, with the words of its classes."""

    scorer: SoftmaxScorer
    vocabulary: Vocabulary
    unknown: str  # the class of all words outside the vocabulary

    @classmethod
    def of(cls, model: Model, engine: Engine) -> "Softmax":
        """Read a model's softmax; InputError if the model has none."""
        name = model.card.name or model.card.source or "this model"
        if model.softmax is None:
            form = f" ({model.card.format})" if model.card.format else ""
            raise InputError(
                f"{name}{form} has no softmax layer, which perplexity, surprisal and substitutes need. Models with "
                "one: elmore-en, models from `elmore pretrain`, TensorFlow checkpoints, and ELMoForManyLangs models "
                "with classifier.pkl"
            )
        if model.vocabulary is None:
            raise InputError(
                f"{name} has a softmax, but the vocabulary of its classes is missing; give the file with "
                "--vocabulary FILE or load(..., vocabulary=FILE)"
            )
        if missing := [
            mark for mark in (model.config.bos_token, model.config.eos_token) if mark not in model.vocabulary
        ]:
            raise FormatError(f"{name}: the vocabulary lacks {' and '.join(missing)}, the boundaries of a sentence")
        arrays = model.softmax()
        weight, bias = as_float(arrays["weight"]), as_float(arrays["bias"])
        if len(bias) != len(model.vocabulary):
            raise FormatError(
                f"{name}: the softmax has {len(bias):,} classes and the vocabulary {len(model.vocabulary):,} words; "
                "give the vocabulary the model was trained with: --vocabulary FILE or load(..., vocabulary=FILE)"
            )
        return cls(engine.new_softmax(weight, bias), model.vocabulary, model.config.unk_token)

    def class_id(self, word: str) -> int:
        """The class of the word; for a word outside the vocabulary the class of `<UNK>`."""
        return self.vocabulary.word_id(word, unknown=self.unknown)

    def has_class(self, word: str) -> bool:
        """Whether the word has its own class."""
        return word in self.vocabulary and word != self.unknown

    def log_probabilities(self, hidden: Any, classes: NDArray[np.int64]) -> NDArray[np.float32]:  # (N, P), (N,) -> (N,)
        """The natural logarithm of the probability of one class at each position."""
        return self.scorer.log_probabilities(hidden, classes)

    def log_distribution(self, hidden: Any) -> NDArray[np.float32]:  # (P,) -> (V,)
        """The natural logarithms of the probabilities of all classes at one position."""
        return self.scorer.log_distribution(hidden)
