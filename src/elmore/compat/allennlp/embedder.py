"""ElmoEmbedder: tokenised sentences in, arrays of vectors or a file of them out."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmore.atomic_files import atomic_write
from elmore.compat.allennlp.bilm import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE, ElmoBiLm
from elmore.compat.allennlp.character_ids import tokenized
from elmore.embedding.sinks.allennlp import SentenceStorage, write_lines
from elmore.errors import InputError, shortened
from elmore.progress import progress_bar
from elmore.text.batch import Batch

DEFAULT_BATCH_SIZE = 64

Vectors = NDArray[np.float32]  # (layers, words, dim)


class ElmoEmbedder:
    """AllenNLP's `ElmoEmbedder`, as it was up to 0.9.

    It remembers its state from call to call, as AllenNLP's does: the same sentence has other vectors the second time,
    and the size of the batches counts. `elmo_bilm.reset_states()` forgets it; `elmore.Embedder` never remembers.
    """

    def __init__(
        self,
        options_file: str | Path = DEFAULT_OPTIONS_FILE,
        weight_file: str | Path = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
    ) -> None:
        self.cuda_device = cuda_device
        self.elmo_bilm = ElmoBiLm(options_file, weight_file)
        if cuda_device >= 0:
            self.elmo_bilm.cuda(cuda_device)

    def embed_sentence(self, sentence: Sequence[str]) -> Vectors:
        """The vectors (layers, words, dim) of one sentence."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Iterable[Sequence[str]]) -> list[Vectors]:
        """The vectors (layers, words, dim) of each sentence of a batch."""
        sentences = tokenized(batch)
        if not any(sentences):
            # As AllenNLP has it: no word is read, and nothing remembered.
            empty = np.zeros((self.elmo_bilm.num_layers, 0, self.elmo_bilm.get_output_dim()), dtype=np.float32)
            return [empty.copy() for _ in sentences]
        embeddings, _ = self.batch_to_embeddings(sentences)
        arrays = embeddings.detach().cpu().numpy()
        # Copies, so that one kept sentence does not keep its whole batch in memory.
        return [array[:, : len(words)].copy() for array, words in zip(arrays, sentences, strict=True)]

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[Vectors]:
        """The vectors (layers, words, dim) of each sentence of a stream, read in batches as they come."""
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}; it must be at least 1")
        stream = iter(sentences)
        while batch := list(islice(stream, batch_size)):
            yield from self.embed_batch(batch)

    def batch_to_embeddings(self, batch: Iterable[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """All layers (sentences, layers, words, dim) of a batch, zero beyond a sentence's end, and its boolean mask."""
        words = Batch.of(tokenized(batch), self.elmo_bilm.speller)
        layers = self.elmo_bilm.read(words.to(self.elmo_bilm.device))
        return layers.stack().transpose(0, 1), layers.mask()

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | Path,
        output_format: str = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Embed an open text file of one tokenised sentence a line, and write the HDF5 file of `allennlp elmo`.

        Datasets are named by line numbers from 0, or with `use_sentence_keys` by the lines themselves; unless
        `forget_sentences`, the dataset `sentence_to_index` leads from a line to its number.
        """
        if output_format not in _OUTPUT_FORMATS:
            raise InputError(f"output_format is {output_format!r}; it must be one of {', '.join(_OUTPUT_FORMATS)}")
        choose = _OUTPUT_FORMATS[output_format]
        lines = _sentence_lines(input_file)
        if use_sentence_keys and (repeated := [line for line, count in Counter(lines).items() if count > 1]):
            raise InputError(f"a sentence that stands there twice cannot be a key: {repeated[0][:80]!r}")
        with atomic_write(output_file_path) as unfinished, progress_bar("embedding", total=len(lines)) as progress:

            def embedded() -> Iterator[tuple[int, str, NDArray[np.float32]]]:
                stream = self.embed_sentences(map(str.split, lines), batch_size)
                for number, (line, vectors) in enumerate(zip(lines, stream, strict=True)):
                    yield number, line, choose(vectors)
                    progress.advance(sentences=1, tokens=vectors.shape[1])

            kept: SentenceStorage = "keys" if use_sentence_keys else "forget" if forget_sentences else "index"
            write_lines(embedded(), unfinished, sentences=kept)


_OUTPUT_FORMATS: Mapping[str, Callable[[Vectors], NDArray[np.float32]]] = {
    "all": lambda vectors: vectors,
    "top": lambda vectors: vectors[-1],
    "average": lambda vectors: vectors.mean(axis=0),
}


def _sentence_lines(file: Iterable[str]) -> list[str]:
    if isinstance(file, str | Path):
        raise InputError(f"embed_file takes an open file, not the path {file}; give it open(path, encoding='utf-8')")
    lines = []
    for line in file:
        if not isinstance(line, str):
            raise InputError("the file gives bytes; open it as text: open(path, encoding='utf-8')")
        lines.append(line.strip())
    if blank := [str(number) for number, line in enumerate(lines) if not line]:
        raise InputError(f"blank lines cannot be embedded, and these, counted from 0, are: {shortened(blank)}")
    return lines
