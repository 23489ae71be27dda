"""A cache on disk for the layers of a frozen biLM.

A training run reads its text dozens of times, and a comparison trains dozens of models on it, but the layers of a
frozen biLM stay the same. Each biLM, token style, dtype and `compute` has a separate folder. Parts are written
atomically; missing sentences are computed and appended as a new part. Above a size limit nothing more is stored, and
missing layers are computed each time.

T tokens, L layers, dim size of a biLM's vector.
"""

import hashlib
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from elmore.display import pluralize
from elmore.embedding.embedder import Embedder
from elmore.embedding.options import InferenceOptions
from elmore.errors import InputWarning
from elmore.files.atomic_files import atomic_write_folder, make_folder
from elmore.files.locks import LOCK, file_lock
from elmore.text.style import TokenStyle

VECTORS, INDEX = "vectors.npy", "index.npz"
DIGEST_BYTES = 16
DEFAULT_BOUND = 8 * 2**30
TOKENS_PER_PART = 25_000  # some seconds of a CPU

Tokens = Sequence[str]
LayerDtype = Literal["float16", "float32"]


class LayerSource(Protocol):
    """Gives the layers of sentences."""

    def layers(self, sentences: Sequence[Tokens]) -> list[NDArray[np.floating]]:
        """(T, L, dim) for each sentence; not to be written to."""


class LayerReader:
    """Reads sentences with a frozen biLM whenever it is asked.

    >>> reader = LayerReader(Embedder.from_pretrained("tiny-random"))
    >>> [layers.shape for layers in reader.layers([["Why", "?"]])]  # tokens, layers, size
    [(2, 3, 32)]
    """

    def __init__(self, embedder: Embedder, *, token_style: TokenStyle = "moses", dtype: LayerDtype = "float16") -> None:
        self.embedder = embedder
        # Rounded alike in training and afterwards, so that what is predicted does not depend on what was cached.
        self.options = InferenceOptions(layers="all", dtype=dtype, token_style=token_style)

    def layers(self, sentences: Sequence[Tokens]) -> list[NDArray[np.floating]]:
        return list(self.iterate(sentences))

    def iterate(self, sentences: Sequence[Tokens]) -> Iterator[NDArray[np.floating]]:
        """As `layers`, one by one."""
        items = ((list(sentence), None) for sentence in sentences)
        for batch in self.embedder.encode_batches(items, self.options):
            for vectors in batch.split():
                yield vectors.swapaxes(0, 1)


class RecentLayers:
    """Gives the layers of sentences; those of the last so many tokens are remembered, and not read again.

    Batches of like length bring what examples share close together: the predicates of a sentence, the questions about
    a paragraph. Where a border falls between two of them, the second batch has the same to read.
    """

    def __init__(self, source: LayerSource, *, tokens: int) -> None:
        self._source, self._bound = source, tokens
        self._recent: dict[tuple[str, ...], NDArray[np.floating]] = {}  # the latest last

    def layers(self, sentences: Sequence[Tokens]) -> list[NDArray[np.floating]]:
        wanted = [tuple(sentence) for sentence in sentences]
        missing = [tokens for tokens in dict.fromkeys(wanted) if tokens not in self._recent]
        read = dict(zip(missing, self._source.layers(missing), strict=True))
        found = [read[tokens] if tokens in read else self._recent[tokens] for tokens in wanted]
        for tokens, layers in zip(wanted, found, strict=True):
            self._recent.pop(tokens, None)
            self._recent[tokens] = layers
        total = sum(map(len, self._recent))
        for tokens in list(self._recent):
            if total <= self._bound:
                break
            total -= len(self._recent.pop(tokens))
        return found


class PartAdded(NamedTuple):
    """How much of a text went by, read now or known before."""

    sentences: int
    tokens: int


class LayerCache:
    """Gives the layers of sentences, from disk where they are.

    >>> import tempfile
    >>> cache = LayerCache(LayerReader(Embedder.from_pretrained("tiny-random")), Path(tempfile.mkdtemp()))
    >>> cache.add([["I", "took", "a", "bow"], ["Why", "?"]])
    >>> [layers.shape for layers in cache.layers([["Why", "?"]])]  # tokens, layers, size
    [(2, 3, 32)]
    """

    def __init__(self, reader: LayerReader, folder: Path, *, bound: int = DEFAULT_BOUND) -> None:
        self._reader = reader
        embedder, options = reader.embedder, reader.options
        # The fingerprint covers the text style, which decides which words tokens of another style become.
        about = f"{embedder.fingerprint()} {options.token_style} {options.dtype} {embedder.compute}"
        self._folder = folder / hashlib.blake2b(about.encode(), digest_size=DIGEST_BYTES).hexdigest()
        self._bound = bound  # bytes of all parts
        self._dtype = np.dtype(str(options.dtype))
        self._token_shape = (embedder.num_layers, embedder.dim)
        self._places: dict[bytes, tuple[NDArray[np.floating], int, int]] = {}
        self._digests: dict[tuple[str, ...], bytes] = {}
        self._opened: set[str] = set()
        self._has_warned = False

    def add_in_parts(self, sentences: Iterable[Tokens]) -> Iterator[PartAdded]:
        """As `add`, part by part, so that whoever waits is told, and can stop and keep what was read."""
        every = list(sentences)
        with self._locked():
            self._within_bound(self._missing(every))  # said of all at once, if there is no room for them
        for part in _parts(every):
            self.add(part)
            yield PartAdded(len(part), sum(map(len, part)))

    def add(self, sentences: Iterable[Tokens]) -> None:
        """Read and keep the layers of all sentences that are not there yet, as far as the bound allows."""
        # One process reads; those that train beside it find what they need when it is done.
        with self._locked():
            kept = self._within_bound(self._missing(sentences))
            if kept:
                self._write_part(kept)
                self._open_parts()

    def holds(self, sentences: Iterable[Tokens]) -> bool:
        """Whether the layers of all these are there, by whomever they were added."""
        with self._locked():
            return not self._missing(sentences)

    def layers(self, sentences: Sequence[Tokens]) -> list[NDArray[np.floating]]:
        """(T, L, dim) for each sentence; what is on disk as it lies there."""
        places = [self._places.get(self._digest(sentence)) for sentence in sentences]
        missing = [sentence for sentence, place in zip(sentences, places, strict=True) if place is None]
        read = iter(self._reader.layers(missing))
        return [next(read) if place is None else place[0][place[1] : place[2]] for place in places]

    def _locked(self) -> AbstractContextManager[None]:
        make_folder(self._folder)
        return file_lock(self._folder / LOCK)

    def _missing(self, sentences: Iterable[Tokens]) -> dict[bytes, Tokens]:
        """Of these sentences those that nobody has added yet."""
        self._open_parts()
        wanted = {self._digest(sentence): sentence for sentence in sentences}
        return {digest: sentence for digest, sentence in wanted.items() if digest not in self._places}

    def _digest(self, sentence: Tokens) -> bytes:
        """Made once for a sentence: a training comes to it in every epoch."""
        tokens = tuple(sentence)
        if tokens not in self._digests:
            self._digests[tokens] = _digest(tokens)
        return self._digests[tokens]

    def _within_bound(self, missing: dict[bytes, Tokens]) -> dict[bytes, Tokens]:
        """Of these sentences those for which there is room."""
        bytes_per_token = math.prod(self._token_shape) * self._dtype.itemsize
        room = self._bound - sum(file.stat().st_size for file in self._folder.glob(f"*/{VECTORS}"))
        kept: dict[bytes, Tokens] = {}
        for digest, sentence in missing.items():
            room -= len(sentence) * bytes_per_token
            if room < 0:
                break
            kept[digest] = sentence
        if len(kept) < len(missing) and not self._has_warned:
            self._has_warned = True
            left = len(missing) - len(kept)
            warnings.warn(
                f"the layers of {pluralize(left, 'sentence')} do not fit into the cache of {self._bound / 2**30:.1f} "
                "GiB, and are computed anew each time they are read",
                InputWarning,
                stacklevel=3,
            )
        return kept

    def _write_part(self, sentences: dict[bytes, Tokens]) -> None:
        lengths = [len(sentence) for sentence in sentences.values()]
        name = hashlib.blake2b(b"".join(sentences), digest_size=DIGEST_BYTES).hexdigest()
        with atomic_write_folder(self._folder / name) as part:
            shape = (sum(lengths), *self._token_shape)
            vectors = np.lib.format.open_memmap(part / VECTORS, mode="w+", dtype=self._dtype, shape=shape)
            place = 0
            for layers in self._reader.iterate(list(sentences.values())):
                vectors[place : place + len(layers)] = layers
                place += len(layers)
            vectors.flush()
            digests = np.frombuffer(b"".join(sentences), dtype=np.uint8).reshape(-1, DIGEST_BYTES)
            np.savez(part / INDEX, digests=digests, lengths=np.array(lengths))

    def _open_parts(self) -> None:
        for part in sorted(self._folder.iterdir()):
            if part.name.startswith(".") or part.name in self._opened:
                continue
            self._opened.add(part.name)
            vectors = np.load(part / VECTORS, mmap_mode="r")
            with np.load(part / INDEX) as index:
                stops = np.cumsum(index["lengths"])
                starts = stops - index["lengths"]
                for digest, start, stop in zip(index["digests"], starts.tolist(), stops.tolist(), strict=True):
                    self._places[digest.tobytes()] = (vectors, start, stop)


def _parts(sentences: Iterable[Tokens]) -> Iterator[list[Tokens]]:
    part: list[Tokens] = []
    tokens = 0
    for sentence in sentences:
        part.append(sentence)
        tokens += len(sentence)
        if tokens >= TOKENS_PER_PART:
            yield part
            part, tokens = [], 0
    if part:
        yield part


def _digest(sentence: Tokens) -> bytes:
    return hashlib.blake2b(json.dumps(list(sentence)).encode(), digest_size=DIGEST_BYTES).digest()
