"""The input of the network for words: character ids, a row of a word table, or both.

There are two alphabets. Byte models have UTF-8 bytes and five special characters. ELMoForManyLangs models have a table
of code points. Neither has a padding word: a batch contains each distinct word once.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from elmore.config import ModelConfig
from elmore.errors import FormatError
from elmore.text.vocabulary import Vocabulary

Ids = NDArray[np.int64]


class WordIds(NamedTuple):
    """The input of a model for W distinct words. A model that reads only words or only characters has one part."""

    character_ids: Ids | None  # (W, as many as affect the vectors, at most max_characters)
    word_ids: Ids | None  # (W,) rows of the word table

    def select(self, rows: Ids) -> "WordIds":
        """The words with these row numbers, in this order."""
        return WordIds(*(None if part is None else part[rows] for part in self))


class Alphabet(Protocol):
    """Converts a word to a row of `max_characters` numbers."""

    padding: int  # fills the row after the word

    def index(self, words: Sequence[str]) -> Ids: ...  # (W, max_characters)


class ByteAlphabet:
    """UTF-8 bytes between two characters for the start and the end of a word, followed by padding.

    >>> ByteAlphabet(max_characters=6).index(["hi", "<S>"]).tolist()
    [[258, 104, 105, 259, 260, 260], [258, 256, 259, 260, 260, 260]]
    """

    SENTENCE_BEGIN, SENTENCE_END, WORD_BEGIN, WORD_END, PADDING = range(256, 261)

    def __init__(self, max_characters: int, *, begin: str = "<S>", end: str = "</S>") -> None:
        self.max_characters = max_characters
        self.padding = self.PADDING
        self.boundaries = {begin: self.SENTENCE_BEGIN, end: self.SENTENCE_END}

    def index(self, words: Sequence[str]) -> Ids:
        rows = np.full((len(words), self.max_characters), self.PADDING, dtype=np.int64)
        rows[:, 0] = self.WORD_BEGIN
        # A cut inside a character is possible, as in the training of the published models. Surrogates have no bytes.
        texts = [word.encode("utf-8", errors="ignore")[: self.max_characters - 2] for word in words]
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        row = np.arange(len(words))
        # Without a loop over words, which takes longer than encoding them on a GPU.
        column = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths) + 1
        rows[np.repeat(row, lengths), column] = np.frombuffer(b"".join(texts), dtype=np.uint8)
        rows[row, lengths + 1] = self.WORD_END
        for number, word in enumerate(words):
            if word in self.boundaries:
                rows[number, 1:] = self.PADDING
                rows[number, 1:3] = self.boundaries[word], self.WORD_END
        return rows


class CodepointAlphabet:
    """Code points by a table with the entries `<bos> <eos> <oov> <pad> <bow> <eow>`, as in ELMoForManyLangs."""

    def __init__(self, table: Mapping[str, int], max_characters: int, *, begin: str, end: str) -> None:
        self.table = dict(table)
        self.max_characters = max_characters
        self.boundaries = {begin: table["<bos>"], end: table["<eos>"]}
        # The program that trained these models exchanged the two names: a word starts with <eow>.
        self.first, self.last = table["<eow>"], table["<bow>"]
        self.padding = table["<pad>"]

    def index(self, words: Sequence[str]) -> Ids:
        unknown = self.table["<oov>"]
        rows = np.full((len(words), self.max_characters), self.padding, dtype=np.int64)
        rows[:, 0] = self.first
        for row, word in zip(rows, words, strict=True):
            if word in self.boundaries:
                characters = [self.boundaries[word]]
            else:
                characters = [self.table.get(character, unknown) for character in word[: self.max_characters - 2]]
            row[1 : 1 + len(characters)] = characters
            row[1 + len(characters)] = self.last
        return rows


class WordIndexer:
    """Converts words to the input of one model."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        vocabulary: Vocabulary | None = None,
        character_vocabulary: Mapping[str, int] | None = None,
    ) -> None:
        self.config = config
        self.alphabet = _alphabet(config, character_vocabulary)
        self.vocabulary = vocabulary
        if config.word_embedding_dim and vocabulary is None:
            raise FormatError(
                "this model reads words, and its vocabulary is missing; put vocab.txt next to the weights"
            )

    def index(self, words: Sequence[str], *, trimmed: bool = True) -> WordIds:
        """The ids of the words, one row each. Rows are as wide as the longest word needs, unless `trimmed` is false."""
        character_ids = self.alphabet.index(words) if self.alphabet else None
        if character_ids is not None and trimmed:
            character_ids = self._trimmed(character_ids)
        if not self.config.word_embedding_dim:
            return WordIds(character_ids, None)
        return WordIds(character_ids, np.array([self._word_id(word) for word in words], dtype=np.int64))

    def characters_needed(self, characters: Ids) -> Ids:  # (W,)
        """The number of ids that affect each word's vector: its characters, and padding as wide as a filter.

        Further windows of a filter contain only padding, and so give the same response as the first such window.
        """
        assert self.config.characters is not None
        assert self.alphabet is not None
        positions = np.arange(1, characters.shape[1] + 1)
        ends: Ids = np.where(characters != self.alphabet.padding, positions, 0).max(axis=1)
        widest = max(width for width, _ in self.config.characters.filters)
        return np.minimum(ends + widest, characters.shape[1])

    def _trimmed(self, characters: Ids) -> Ids:
        return characters[:, : int(self.characters_needed(characters).max())] if len(characters) else characters

    def _word_id(self, word: str) -> int:
        assert self.vocabulary is not None
        limit = self.config.characters
        if limit and limit.alphabet == "codepoints":
            # ELMoForManyLangs truncates a word before it is looked up.
            word = word[: limit.max_characters - 2]
        return self.vocabulary.word_id(word, unknown=self.config.unk_token)


def _alphabet(config: ModelConfig, table: Mapping[str, int] | None) -> Alphabet | None:
    if config.characters is None:
        return None
    boundaries = {"begin": config.bos_token, "end": config.eos_token}
    if config.characters.alphabet == "bytes":
        return ByteAlphabet(config.characters.max_characters, **boundaries)
    if table is None:
        raise FormatError("this model reads code points, and its table of characters is missing")
    missing = [name for name in ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>") if name not in table]
    if missing:
        raise FormatError(f"the table of characters lacks {', '.join(missing)}")
    beyond = [character for character, number in table.items() if not 0 <= number < config.characters.n_characters]
    if beyond:
        raise FormatError(
            f"the table of characters gives {beyond[0]!r} the number {table[beyond[0]]}; "
            f"the weights have {config.characters.n_characters} rows"
        )
    return CodepointAlphabet(table, config.characters.max_characters, **boundaries)
