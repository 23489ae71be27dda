"""What `embed_gpu.py` measures beside an Embedder that reads words: numbers, files, single sentences, and AllenNLP."""

import os
import sys
import time
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from embed_cpu_allennlp import import_elmo
from torch import Tensor

from elmore import Embedder, embed_file
from elmore.engine.rows import PackedRows
from elmore.model import Model, save
from elmore.text.sentence_reader import read_sentences

Sentences = list[list[str]]


def peaks(device: torch.device, size: int) -> dict[str, float]:
    """The speed of one large matrix product, in billions of thousands of operations a second, by kind of number."""
    found = {}
    for name, dtype in (("bfloat16", torch.bfloat16), ("tf32", torch.float32), ("float32", torch.float32)):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
        seconds = []
        for _ in range(8):
            began = time.perf_counter()
            (a @ b)[0, 0].item()
            seconds.append(time.perf_counter() - began)
        torch.backends.cuda.matmul.allow_tf32 = before
        found[name] = round(2 * size**3 / median(seconds[2:]) / 1e12, 1)
    return found


class Numbered:
    """Text whose words are numbers: what remains when Python looks up no words."""

    def __init__(self, embedder: Embedder, sentences: Sentences) -> None:
        self.embedder = embedder
        self.lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        self._ends = self.lengths.cumsum()
        self._positions = self._ends + 2 * np.arange(1, len(self._ends) + 1)  # boundaries included
        self.distinct = list(dict.fromkeys(chain.from_iterable(sentences)))
        places = {word: number for number, word in enumerate(self.distinct)}
        total = int(self.lengths.sum())
        self.places = np.fromiter(map(places.__getitem__, chain.from_iterable(sentences)), dtype=np.int64, count=total)

    def read(self, tokens: int | None = None) -> list[Tensor]:
        """Encode each distinct word, and run the text, or the beginning of it."""
        ends, everything = self._ends, len(self._ends)
        stop = everything if tokens is None else min(int(np.searchsorted(ends, tokens)) + 1, everything)
        engine, start = self.embedder.engine, self.embedder._model.start
        self.embedder.clear_words()
        words = self.embedder._running.store.number(self.distinct)
        numbers = words.numbers[self.places]
        results: list[Tensor] = []
        at, done = 0, 0
        while at < stop:
            until = max(at + 1, int(np.searchsorted(self._positions, done + engine.pack_size.tokens)))
            lengths = self.lengths[at:until]
            before = int(ends[at] - lengths[0])
            own = numbers[before : before + int(lengths.sum())]
            rows = PackedRows.pack(own, lengths, boundaries=words.boundaries, rows=engine.pack_size.rows)
            layers, _ = engine.run(words.table, rows, start)
            vectors = layers.average(range(len(layers)), np.float16)
            results.extend(vectors.unsafe_split_with_sizes(lengths.tolist()))
            at, done = until, int(self._positions[until - 1])
        return results


class Peer:
    """AllenNLP's ELMo on the same GPU, with the same weights."""

    def __init__(self, package: Path, model: Model, folder: Path, device: torch.device) -> None:
        sys.path.insert(0, str(package))
        import_elmo()
        from allennlp.data.token_indexers.elmo_indexer import ELMoCharacterMapper
        from allennlp.modules.elmo import _ElmoBiLm
        from allennlp.nn.util import remove_sentence_boundaries

        save(model, folder / "model", format="hdf5")
        files = (str(folder / "model" / name) for name in ("options.json", "weights.hdf5"))
        self.version = version("allennlp")
        self._bilm = _ElmoBiLm(*files).eval().to(device)
        self._mapper, self._without_boundaries, self._device = ELMoCharacterMapper(), remove_sentence_boundaries, device

    def characters(self, batch: Sentences) -> Tensor:
        longest = max(map(len, batch))
        padding = [[0] * self._mapper.max_word_length]
        rows = [
            [self._mapper.convert_word_to_char_ids(word) for word in sentence] + padding * (longest - len(sentence))
            for sentence in batch
        ]
        return torch.tensor(rows).to(self._device)

    def module(self, characters: Tensor) -> Tensor:
        with torch.no_grad():
            found = self._bilm(characters)
            mean: Tensor = sum(found["activations"]) / len(found["activations"])
            vectors: Tensor = self._without_boundaries(mean, found["mask"])[0]
            return vectors

    def read(self, batch: Sentences) -> list[Tensor]:
        vectors = self.module(self.characters(batch))
        return [vectors[row, : len(sentence)] for row, sentence in enumerate(batch)]


class File:
    """A text file of tokens to an HDF5 file of float16, and the parts of that by themselves."""

    def __init__(self, embedder: Embedder, sentences: Sentences, folder: Path) -> None:
        self.embedder = embedder
        self.sentences = sentences
        self.text, self.target, self.folder = folder / "text.txt", folder / "vectors.h5", folder
        self.text.write_text("".join(f"{' '.join(words)}\n" for words in sentences), encoding="utf-8")

    def measure(self) -> dict[str, Any]:
        tokens = sum(map(len, self.sentences))
        self.embedder.encode_tensors(self.sentences, dtype="float16")  # so that kernels are compiled
        parts = {"reading the text": self._timed(self._read), "arrays in memory": self._timed(self._arrays)}
        whole = self._timed(self._embed)
        size = self.target.stat().st_size
        self.target.unlink()
        parts["writing as many bytes"] = self._timed(lambda: self._write(size))
        rates = {name: round(tokens / seconds) for name, seconds in parts.items()}
        return {
            "tokens": tokens,
            "bytes": size,
            "seconds": [round(whole, 3)],
            "tokens_per_second": round(tokens / whole),
            "parts_tokens_per_second": rates,
            "slowest_part": min(rates, key=rates.__getitem__),
        }

    def _timed(self, work: Any) -> float:
        self.embedder.clear_words()
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    def _read(self) -> None:
        for _ in read_sentences([str(self.text)], format="tokenized", style=self.embedder.card.text):
            pass

    def _arrays(self) -> None:
        for _ in self.embedder.encode_iter(self.sentences, dtype="float16"):
            pass

    def _embed(self) -> None:
        embed_file(
            self.text,
            self.target,
            model=self.embedder,
            input_format="tokenized",
            dtype="float16",
            show_progress_bar=False,
        )

    def _write(self, size: int) -> None:
        block = os.urandom(2**20) * 16
        with (self.folder / "bytes").open("wb", buffering=0) as file:
            for _ in range(-(-size // len(block))):
                file.write(block)
            os.fsync(file.fileno())
        (self.folder / "bytes").unlink()


def single_sentences(embedder: Embedder, sentences: Sentences) -> dict[str, float]:
    """Milliseconds to an array in ordinary memory, of one sentence at a time: words seen before, and new."""

    def each() -> list[float]:
        seconds = []
        for words in sentences:
            began = time.perf_counter()
            embedder.encode([words])
            seconds.append(time.perf_counter() - began)
        return seconds

    for _ in range(3):
        each()
    seen = median(each())
    new = []
    for words in sentences:
        embedder.clear_words()
        began = time.perf_counter()
        embedder.encode([words])
        new.append(time.perf_counter() - began)
    return {"words seen before": round(1000 * seen, 2), "new words": round(1000 * median(new), 2)}
