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
DEFAULT_MAX_BYTES = 8 * 2**30
TOKENS_PER_PART = 25_000  # some seconds on a CPU

Tokens = Sequence[str]
LayerDtype = Literal["float16", "float32"]


class LayerSource(Protocol):
    """Returns the layers of sentences."""

    def layers(self, sentences: Sequence[Tokens]) -> list[NDArray[np.floating]]:
        """(T, L, dim) for each sentence. The arrays are read-only."""


class LayerReader:
    """Encodes sentences with a frozen biLM on each call.

    >>> reader = LayerReader(Embedder.from_pretrained("tiny-random"))
    >>> [layers.shape for layers in reader.layers([["Why", "?"]])]  # tokens, layers, size
    [(2, 3, 32)]
    """

    def __init__(self, embedder: Embedder, *, token_style: TokenStyle = "moses", dtype: LayerDtype = "float16") -> None:
        self.embedder = embedder
        # The same rounding with and without a cache, so that predictions do not depend on the cache.
        self.options = InferenceOptions(layers="all", dtype=dtype, token_style=token_style)

    def layers(self, sentences: Sequence[Tokens]) -> list[NDArray[np.floating]]:
        return list(self.iterate(sentences))

    def iterate(self, sentences: Sequence[Tokens]) -> Iterator[NDArray[np.floating]]:
        """As `layers`, as an iterator."""
        items = ((list(sentence), None) for sentence in sentences)
        for batch in self.embedder.encode_batches(items, self.options):
            for vectors in batch.split():
                yield vectors.swapaxes(0, 1)


class RecentLayers:
    """Returns the layers of sentences, and stores the layers of the last `tokens` tokens in memory.

    Examples that share a sentence, such as its predicates or the questions about a paragraph, have the same length and
    are in the same batch or in neighboring batches. Without this class, the second batch would encode it again.
    """

    def __init__(self, source: LayerSource, *, tokens: int) -> None:
        self._source, self._max_tokens = source, tokens
        self._recent: dict[tuple[str, ...], NDArray[np.floating]] = {}  # the latest at the end

    def layers(self, sentences: Sequence[Tokens]) -> list[NDArray[np.floating]]:
        keys = [tuple(sentence) for sentence in sentences]
        missing = [tokens for tokens in dict.fromkeys(keys) if tokens not in self._recent]
        encoded = dict(zip(missing, self._source.layers(missing), strict=True))
        results = [encoded[tokens] if tokens in encoded else self._recent[tokens] for tokens in keys]
        for tokens, layers in zip(keys, results, strict=True):
            self._recent.pop(tokens, None)
            self._recent[tokens] = layers
        total = sum(map(len, self._recent))
        for tokens in list(self._recent):
            if total <= self._max_tokens:
                break
            total -= len(self._recent.pop(tokens))
        return results


class PartAdded(NamedTuple):
    """The size of a part whose layers are now available: encoded now, or cached before."""

    sentences: int
    tokens: int


class LayerCache:
    """Returns the layers of sentences, from disk if they are cached.

    >>> import tempfile
    >>> cache = LayerCache(LayerReader(Embedder.from_pretrained("tiny-random")), Path(tempfile.mkdtemp()))
    >>> cache.add([["I", "took", "a", "bow"], ["Why", "?"]])
    >>> [layers.shape for layers in cache.layers([["Why", "?"]])]  # tokens, layers, size
    [(2, 3, 32)]
    """

    def __init__(self, reader: LayerReader, folder: Path, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._reader = reader
        embedder, options = reader.embedder, reader.options
        # The fingerprint covers the text style, which decides which words tokens of another style become.
        key = f"{embedder.fingerprint()} {options.token_style} {options.dtype} {embedder.compute}"
        self._folder = folder / hashlib.blake2b(key.encode(), digest_size=DIGEST_BYTES).hexdigest()
        self._max_bytes = max_bytes  # of all parts
        self._dtype = np.dtype(str(options.dtype))
        self._token_shape = (embedder.num_layers, embedder.dim)
        self._slices: dict[bytes, tuple[NDArray[np.floating], int, int]] = {}
        self._digests: dict[tuple[str, ...], bytes] = {}
        self._opened: set[str] = set()
        self._has_warned = False

    def add_in_parts(self, sentences: Iterable[Tokens]) -> Iterator[PartAdded]:
        """As `add`, in parts, for progress and for stopping between parts. Finished parts are saved."""
        sentences = list(sentences)
        with self._locked():
            self._that_fit(self._missing(sentences))  # one warning for all sentences, before the first part
        for part in _parts(sentences):
            self.add(part)
            yield PartAdded(len(part), sum(map(len, part)))

    def add(self, sentences: Iterable[Tokens]) -> None:
        """Encode and store the layers of all missing sentences, up to the size limit."""
        # One process encodes, under the lock. Other processes wait and then read its part.
        with self._locked():
            new = self._that_fit(self._missing(sentences))
            if new:
                self._write_part(new)
                self._open_parts()

    def contains(self, sentences: Iterable[Tokens]) -> bool:
        """Whether the layers of all sentences are cached, by this or another process."""
        with self._locked():
            return not self._missing(sentences)

    def layers(self, sentences: Sequence[Tokens]) -> list[NDArray[np.floating]]:
        """(T, L, dim) for each sentence. Cached layers are memory-mapped."""
        slices = [self._slices.get(self._digest(sentence)) for sentence in sentences]
        missing = [sentence for sentence, cached in zip(sentences, slices, strict=True) if cached is None]
        encoded = iter(self._reader.layers(missing))
        return [next(encoded) if cached is None else cached[0][cached[1] : cached[2]] for cached in slices]

    def _locked(self) -> AbstractContextManager[None]:
        make_folder(self._folder)
        return file_lock(self._folder / LOCK)

    def _missing(self, sentences: Iterable[Tokens]) -> dict[bytes, Tokens]:
        """The sentences whose layers are not cached, by digest."""
        self._open_parts()
        digests = {self._digest(sentence): sentence for sentence in sentences}
        return {digest: sentence for digest, sentence in digests.items() if digest not in self._slices}

    def _digest(self, sentence: Tokens) -> bytes:
        """The digest of a sentence, computed once: each epoch requests the same sentences."""
        tokens = tuple(sentence)
        if tokens not in self._digests:
            self._digests[tokens] = _digest(tokens)
        return self._digests[tokens]

    def _that_fit(self, missing: dict[bytes, Tokens]) -> dict[bytes, Tokens]:
        """The first of the missing sentences, up to the size limit. Warns about the others once."""
        bytes_per_token = math.prod(self._token_shape) * self._dtype.itemsize
        room = self._max_bytes - sum(file.stat().st_size for file in self._folder.glob(f"*/{VECTORS}"))
        fitting: dict[bytes, Tokens] = {}
        for digest, sentence in missing.items():
            room -= len(sentence) * bytes_per_token
            if room < 0:
                break
            fitting[digest] = sentence
        if len(fitting) < len(missing) and not self._has_warned:
            self._has_warned = True
            others = pluralize(len(missing) - len(fitting), "sentence")
            warnings.warn(
                f"the layers of {others} do not fit into the cache of {self._max_bytes / 2**30:.1f} GiB and are "
                "computed again on each use",
                InputWarning,
                stacklevel=3,
            )
        return fitting

    def _write_part(self, sentences: dict[bytes, Tokens]) -> None:
        lengths = [len(sentence) for sentence in sentences.values()]
        name = hashlib.blake2b(b"".join(sentences), digest_size=DIGEST_BYTES).hexdigest()
        with atomic_write_folder(self._folder / name) as part:
            shape = (sum(lengths), *self._token_shape)
            vectors = np.lib.format.open_memmap(part / VECTORS, mode="w+", dtype=self._dtype, shape=shape)
            start = 0
            for layers in self._reader.iterate(list(sentences.values())):
                vectors[start : start + len(layers)] = layers
                start += len(layers)
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
                    self._slices[digest.tobytes()] = (vectors, start, stop)


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
