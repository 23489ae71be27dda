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


class NumberedWords(NamedTuple):
    """Words as rows of a table, which stays as it is for them whatever is read later."""

    numbers: NDArray[np.int64]  # (K,)
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
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._numbering = _Numbering()
        self._table: Tensor | None = None  # with room for more
        self._generation: int | None = None  # of the weights that the vectors are from
        self._written: torch.cuda.Event | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What a copy, or another process, needs: not the memory."""
        return {"_model": self._model, "_largest": self._largest, "_fixed_width": self._fixed_width}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()
        self._forget()

    def __len__(self) -> int:
        return len(self._numbering)

    def read(self, words: Iterable[str], count: int) -> NumberedWords:
        """Number so many words, and encode those that are new."""
        config = self._model.config
        with self._lock:
            generation = self._model.network.words.weight_generation()
            if generation != self._generation or len(self._numbering) > self._largest:
                self._forget()
                self._generation = generation
            known = len(self._numbering)
            number = self._numbering.__getitem__
            try:
                boundaries = number(config.begin), number(config.end)
                numbers = np.fromiter(map(number, words), dtype=np.int64, count=count)
                table = self._encode_new(known)
            except BaseException:
                # Stopped half-way, by Ctrl-C say: numbers without vectors would give wrong ones for good.
                self._forget()
                raise
            return NumberedWords(numbers, table, boundaries)

    def _encode_new(self, known: int) -> Tensor:
        """The table with the vectors of all words that were numbered since there were so many."""
        device = self._model.device
        if self._written is not None:
            self._written.wait(torch.cuda.current_stream(device))
        total = len(self._numbering)
        if total == known:
            assert self._table is not None
            return self._table
        new = list(islice(reversed(self._numbering), total - known))
        new.reverse()
        # Words of like length together, because a group is as wide as its longest word.
        order = sorted(range(len(new)), key=lambda number: len(new[number]))
        vectors = self._encoded([new[number] for number in order])
        self._make_room(vectors, known, total)
        assert self._table is not None
        places = torch.tensor(order, dtype=torch.int64) + known
        self._table[send(places, device)] = vectors
        if device.type == "cuda":
            self._written = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._written.record(torch.cuda.current_stream(device))
        return self._table

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
