"""Reads sentences in each direction and says how probable each word was where it stood.

G directions, B rows, T steps, N positions of all rows, P vector size.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from elmore.devices import choose_device
from elmore.embedding.sentences import Sentence, words_of
from elmore.embedding.word_cache import WordCache
from elmore.fields import check_value
from elmore.model import Model, load
from elmore.network.state import State
from elmore.scoring.rows import Predicted, ReadingStep, Rows, Scores, Words, steps_of
from elmore.scoring.softmax import Softmax
from elmore.text.batch import bucket_by_length
from elmore.text.brackets import BracketedWords, convert_bracketed, find_bracketed
from elmore.text.checks import InputCheck
from elmore.text.paragraphs import WRITE_PARAGRAPHS
from elmore.text.splitting import split_text
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle
from elmore.text.token_style import convert_tokens
from elmore.text.tokenizing import Tokenizer

AnyModel: TypeAlias = "str | Path | Model | Predictor | None"  # a name or a path too; None is elmore-en

SENTENCES_AHEAD = 1024  # among which those of like length are batched together
BATCH_STEPS = 2048


class Predictor:
    """A model with its softmax, ready to be asked.

    Making one loads the model and reads its softmax, which takes seconds: whoever asks often makes it once, and gives
    it to `perplexity`, `surprisal` or `substitutes` as their `model`.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.softmax = Softmax.of(model)
        self.tokenizer = Tokenizer(model.card.text)
        self._cache = WordCache(model)
        self.check = InputCheck(model.card.text)

    @classmethod
    def from_pretrained(
        cls, name: str | Path | None = None, *, device: str | torch.device | None = None
    ) -> "Predictor":
        """Load a model by its path, its address or its name; without a `device` onto a GPU, if there is one."""
        return cls(load(name, device=choose_device(device)))

    @classmethod
    def of(cls, model: "AnyModel") -> "Predictor":
        """A predictor for a model, or for one that is named; itself, if it is one."""
        if isinstance(model, Predictor):
            return model
        return cls(model) if isinstance(model, Model) else cls.from_pretrained(model)

    def words_of(
        self, sentences: str | Iterable[Sentence], *, token_style: TokenStyle = DEFAULT_TOKEN_STYLE
    ) -> Iterator[list[str]]:
        """The words of every sentence: of a text, which is split first, or of strings and lists of words.

        Lists in any `token_style` but "moses" are turned into the model's own words. What looks wrong with them for
        this model is told once.
        """
        check_value("token_style", token_style, TokenStyle)
        if isinstance(sentences, str):
            found = split_text(sentences, style=self.model.card.text, advice=WRITE_PARAGRAPHS)
            sentences = [sentence.text for sentence in found]
        words = (self._words(sentence, number, token_style) for number, sentence in enumerate(sentences))
        return self.check.passed(words)

    def bracketed_words(self, sentence: Sentence, *, token_style: TokenStyle = DEFAULT_TOKEN_STYLE) -> BracketedWords:
        """The words of a sentence with one place in [brackets], and which of them stand there; see `words_of`."""
        check_value("token_style", token_style, TokenStyle)
        given = sentence if isinstance(sentence, str) else words_of(sentence, self.tokenizer)
        found = find_bracketed(given, self.tokenizer)
        if token_style != "moses" and not isinstance(sentence, str):
            found = convert_bracketed(found, self.tokenizer, style=token_style)
        self.check.look([found.words], stacklevel=4)
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
            scores, state = self._predict(chunks, state.select(self._tensor(places)))
            yield from text.completed(scores)

    def hidden_states(self, words: Words) -> Tensor:
        """(G, words + 1, P) what the top layer holds before each word of a sentence, each direction as it reads."""
        return self._read([steps_of([words], self.model.config)], self.model.start)[0]

    @torch.inference_mode()
    def _predict(self, rows: Sequence[list[ReadingStep]], state: State) -> tuple[list[Scores], State]:
        """The log-probabilities (G, T) of each row, longest first, and the state after them."""
        hidden, after = self._read(rows, state)
        classes = [[self.softmax.class_of(word) for _, word in steps] for steps in _by_direction(rows)]
        found = self.softmax.log_probabilities(hidden.flatten(0, 1), self._tensor(classes).flatten())
        ends = np.cumsum([len(row) for row in rows])
        return np.split(found.view(len(hidden), -1).cpu().numpy(), ends[:-1], axis=1), after

    @torch.inference_mode()
    def _read(self, rows: Sequence[list[ReadingStep]], state: State) -> tuple[Tensor, State]:
        """(G, N, P) the top outputs at all steps of all rows, longest first, and the state after them."""
        read = [[word for word, _ in steps] for steps in _by_direction(rows)]
        distinct = list(dict.fromkeys(chain.from_iterable(read)))
        numbers = {word: number for number, word in enumerate(distinct)}
        vectors = self._cache.vectors(distinct)[self._tensor([[numbers[word] for word in words] for words in read])]
        lengths = tuple(len(row) for row in rows)
        there = torch.arange(lengths[0], device=vectors.device) < self._tensor(lengths)[:, None]  # (B, T)
        x = vectors.new_zeros(len(read), *reversed(there.shape), vectors.shape[-1])  # (G, T, B, P)
        x.transpose(1, 2)[:, there] = vectors
        outputs, after = self.model.network.run_lstm(x, lengths, state)
        return outputs[-1].transpose(1, 2)[:, there], after

    def _words(self, sentence: Sentence, number: int, token_style: TokenStyle) -> list[str]:
        words = words_of(sentence, self.tokenizer, number)
        # A string was tokenised in the model's style just now.
        if token_style == "moses" or isinstance(sentence, str):
            return words
        return convert_tokens(words, self.tokenizer, style=token_style).words

    def _tensor(self, numbers: Sequence[object]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self.model.device)


def _by_direction(rows: Sequence[list[ReadingStep]]) -> list[tuple[tuple[str, str], ...]]:
    """(G, N) what each direction reads and predicts, row after row."""
    return list(zip(*chain.from_iterable(rows), strict=True))
