"""Word vectors that stay where the network runs, as rows of one table: a word of a stream is a number from the start.

`WordCache` does the same for batches of distinct words on a CPU; here words are numbered as they come, so that a stream
costs one look into a dictionary for each word, and the vectors are gathered on the GPU.
"""

from collections.abc import Iterable
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.devices import send
from elmore.model import Model
from elmore.text.spelling import WordInputs

# Words that are encoded together, always as many: so a word has the same bits whatever it comes with. In bfloat16 a GPU
# is so quick with the smaller group that launching it takes longer.
GROUP, BFLOAT16_GROUP = 1024, 8192
LARGEST = 2**20  # words; with more, the table starts anew
FIRST_ROOM = 2**14

Numbers = NDArray[np.int64]


class NumberedWords(NamedTuple):
    """Words as rows of a table, which stays as it is for them whatever is read later."""

    numbers: Numbers  # (K,)
    table: Tensor  # (rows, P)
    boundaries: tuple[int, int]  # the numbers of the words that open and close a sentence


class WordTable:
    """The vectors of the words of a stream; when there are too many, they are forgotten all at once.

    >>> from elmore.model import load
    >>> numbered = WordTable(load("tiny-random")).read(["to", "be", "or", "to", "be"], 5)
    >>> numbered.numbers.tolist(), numbered.table[numbered.numbers].shape
    ([2, 3, 4, 2, 3], torch.Size([5, 16]))
    """

    def __init__(self, model: Model, *, largest: int = LARGEST, fixed_width: bool = False) -> None:
        self._model = model
        self._largest = largest
        self._fixed_width = fixed_width  # all groups as wide: a product of another size may round differently
        self._start_anew()

    def _start_anew(self) -> None:
        self._lock = Lock()
        self._words = TableWords(self._model, fixed_width=self._fixed_width)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy, or another process, needs: not the memory."""
        return {"_model": self._model, "_largest": self._largest, "_fixed_width": self._fixed_width}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start_anew()

    def __len__(self) -> int:
        return len(self._words)

    def words(self) -> "TableWords":
        """Those that are known; whoever has them may go on with them after the table has started anew."""
        with self._lock:
            if len(self._words) > self._largest:
                self._words = TableWords(self._model, fixed_width=self._fixed_width)
            return self._words

    def read(self, words: Iterable[str], count: int) -> NumberedWords:
        """Number so many words, and encode those that are new."""
        known = self.words()
        numbers = known.number(words, count)
        return NumberedWords(numbers, known.vectors(), known.boundaries)


class TableWords:
    """Words in the order in which they first came, and the vectors of those that anybody has asked for."""

    def __init__(self, model: Model, *, fixed_width: bool) -> None:
        self._model = model
        self._fixed_width = fixed_width
        self._lock = Lock()
        self._numbering = _Numbering()
        self.boundaries = self._numbering[model.config.begin], self._numbering[model.config.end]
        self._table: Tensor | None = None  # with room for more
        self._encoded_words = 0  # how many of the first words have vectors
        self._generation: int | None = None  # of the weights that these are from
        self._written: torch.cuda.Event | None = None

    def __len__(self) -> int:
        return len(self._numbering)

    def number(self, words: Iterable[str], count: int) -> Numbers:
        """The numbers of so many words."""
        with self._lock:
            return np.fromiter(map(self._numbering.__getitem__, words), dtype=np.int64, count=count)

    def vectors(self) -> Tensor:
        """(rows, P) the vectors of all words that have a number, and of those alone, by the weights as they are."""
        with self._lock:
            generation = self._model.network.words.weight_generation()
            if generation != self._generation:
                self._table, self._encoded_words, self._generation = None, 0, generation
            device = self._model.device
            if self._written is not None:
                self._written.wait(torch.cuda.current_stream(device))
            # What is stopped half-way, by Ctrl-C say, has encoded nothing, and is done the next time.
            if (total := len(self._numbering)) > self._encoded_words:
                self._encode(total)
                self._encoded_words = total
                if device.type == "cuda":
                    self._written = torch.cuda.Event()  # type: ignore[no-untyped-call]
                    self._written.record(torch.cuda.current_stream(device))
            assert self._table is not None  # the boundaries have numbers from the start
            return self._table

    def _encode(self, total: int) -> None:
        """Bring the vectors of the last words of so many into the table."""
        known = self._encoded_words
        new = list(islice(reversed(self._numbering), total - known))
        new.reverse()
        # Words of like length together, because a group is as wide as its longest word.
        order = np.argsort(np.fromiter(map(len, new), dtype=np.int64, count=len(new)), kind="stable")
        vectors = self._encoded([new[number] for number in order.tolist()])
        self._make_room(vectors, known, total)
        assert self._table is not None
        self._table[send(torch.from_numpy(order + known), self._model.device)] = vectors

    def _encoded(self, words: list[str]) -> Tensor:
        """(W, P) the vectors of these words, computed."""
        encoder, device = self._model.network.words, self._model.device
        in_bfloat16 = next(encoder.parameters()).dtype == torch.bfloat16
        size = BFLOAT16_GROUP if in_bfloat16 and device.type == "cuda" else GROUP
        groups = []
        for start in range(0, len(words), size):
            group = words[start : start + size]
            spelt = self._model.speller.spell(group, trimmed=not self._fixed_width)
            inputs = WordInputs(*(None if part is None else send(_filled(part, size), device) for part in spelt))
            groups.append(encoder(inputs)[: len(group)])
        return torch.cat(groups)

    def _make_room(self, like: Tensor, known: int, total: int) -> None:
        """Room for so many words; who was given the table before keeps the old one."""
        if self._table is not None and len(self._table) >= total:
            return
        room = FIRST_ROOM
        while room < total:
            room *= 2
        # An ordinary tensor, which may be written to later both inside and outside of inference mode.
        with torch.inference_mode(mode=False):
            table = like.new_zeros(room, like.shape[1])
        if self._table is not None:
            table[:known] = self._table[:known]
        self._table = table


def _filled(part: Tensor, rows: int) -> Tensor:
    """As many rows, by repeating the first one."""
    return torch.cat([part, part[:1].expand(rows - len(part), *part.shape[1:])])


class _Numbering(dict[str, int]):
    """Numbers words in the order in which they are first asked for."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number
