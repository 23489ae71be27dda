"""ElmoEmbedder: tokenized sentences in, arrays of vectors or a file of vectors out. Inference without torch.

B sentences, n positions for words, K words of all sentences, P vector size, D cells, dim = directions * P.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from elmore.compat.allennlp.character_ids import (
    DEFAULT_OPTIONS_FILE,
    DEFAULT_WEIGHT_FILE,
    NO_CHARACTER,
    CharacterModel,
    index_words,
    load_character_model,
    tokenized,
)
from elmore.display import join_names
from elmore.embedding.stream import CarriedState, count_words
from elmore.engine import open_engine
from elmore.engine.engine import EngineLayers
from elmore.engine.open_engine import resolve_device
from elmore.engine.state import State
from elmore.engine.word_store import NumberedWords, WordStore
from elmore.errors import InputError, requires_torch
from elmore.files.atomic_files import atomic_write
from elmore.progress import progress_bar
from elmore.text.word_ids import WordIds

if TYPE_CHECKING:
    from torch import Tensor

    from elmore.embedding.vector_files.allennlp import SentenceStorage

DEFAULT_BATCH_SIZE = 64

Vectors = NDArray[np.float32]  # (layers, words, dim)


class ElmoEmbedder:
    """AllenNLP's `ElmoEmbedder`, as it was up to version 0.9.

    Like AllenNLP's, it carries its state from call to call: the same sentence has other vectors in the second call, and
    the size of the batches changes the vectors. `elmo_bilm.reset_states()` resets the state. `elmore.Embedder` carries
    no state.

    One object belongs to one thread: each call changes the state. Threads that need vectors at the same time create an
    object each, or share an `elmore.Embedder`.
    """

    def __init__(
        self,
        options_file: str | Path = DEFAULT_OPTIONS_FILE,
        weight_file: str | Path = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
    ) -> None:
        self.cuda_device = cuda_device
        device = f"cuda:{cuda_device}" if cuda_device >= 0 else "cpu"
        self.elmo_bilm = StatefulBiLm(options_file, weight_file, device=device)

    def embed_sentence(self, sentence: Sequence[str]) -> Vectors:
        """The vectors (layers, words, dim) of one sentence."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Iterable[Sequence[str]]) -> list[Vectors]:
        """The vectors (layers, words, dim) of each sentence of a batch."""
        sentences = tokenized(batch)
        if not any(sentences):
            # As in AllenNLP: nothing is computed, and the state does not change.
            shape = self.elmo_bilm.num_layers, 0, self.elmo_bilm.get_output_dim()
            return [np.zeros(shape, dtype=np.float32) for _ in sentences]
        vectors = self.elmo_bilm.encode(sentences)
        ends = np.cumsum([len(words) for words in sentences])
        # Copies: a sentence that the caller keeps must not keep its batch in memory.
        return [part.copy() for part in np.split(vectors, ends[:-1], axis=1)]

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[Vectors]:
        """The vectors (layers, words, dim) of each sentence of a stream, which is read in batches on demand."""
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}; it must be at least 1")
        stream = iter(sentences)
        while batch := list(islice(stream, batch_size)):
            yield from self.embed_batch(batch)

    def batch_to_embeddings(self, batch: Iterable[Sequence[str]]) -> tuple["Tensor", "Tensor"]:
        """All layers of a batch as a tensor (B, layers, n, dim), zero beyond a sentence's end, and its mask (B, n).

        The result is a torch tensor, as in AllenNLP, so this method needs torch.
        """
        with requires_torch("ElmoEmbedder.batch_to_embeddings"):
            import torch  # noqa: F401  # checked before the state changes
        sentences = tokenized(batch)
        layers = self.elmo_bilm.run_words(sentences)
        lengths = count_words(sentences)
        vectors, mask = _padded(layers.stack(range(len(layers))), lengths)
        return vectors.transpose(0, 1), mask

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | Path,
        output_format: str = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Embed an open text file with one tokenized sentence per line; write the HDF5 file of `allennlp elmo`.

        Datasets are named by line numbers from 0, or with `use_sentence_keys` by the lines themselves. The dataset
        `sentence_to_index` maps lines to numbers; `forget_sentences` omits it.
        """
        if output_format not in _OUTPUT_FORMATS:
            raise InputError(f"output_format is {output_format!r}; it must be one of {', '.join(_OUTPUT_FORMATS)}")
        choose = _OUTPUT_FORMATS[output_format]
        lines = _sentence_lines(input_file)
        if use_sentence_keys and (repeated := [line for line, count in Counter(lines).items() if count > 1]):
            raise InputError(f"use_sentence_keys needs distinct lines; this line occurs twice: {repeated[0][:80]!r}")
        # Imported here: h5py is needed for this method only, and takes a while to load.
        from elmore.embedding.vector_files.allennlp import write_lines

        with atomic_write(output_file_path) as unfinished, progress_bar("embedding", total=len(lines)) as progress:

            def embedded() -> Iterator[tuple[int, str, NDArray[np.float32]]]:
                stream = self.embed_sentences(map(str.split, lines), batch_size)
                for number, (line, vectors) in enumerate(zip(lines, stream, strict=True)):
                    yield number, line, choose(vectors)
                    progress.advance(sentences=1, tokens=vectors.shape[1])

            storage: SentenceStorage = "keys" if use_sentence_keys else "forget" if forget_sentences else "index"
            write_lines(embedded(), unfinished, storage=storage)


class StatefulBiLm:
    """The biLM of an `ElmoEmbedder`. An engine runs it, and it carries its state from call to call.

    It has the methods of AllenNLP's `_ElmoBiLm` that do not concern training. It has no parameters; for a torch module
    use `_ElmoBiLm`. Like the embedder, one object belongs to one thread.
    """

    def __init__(self, options_file: str | Path | None, weight_file: str | Path | None, *, device: str = "cpu") -> None:
        self._load = partial(load_character_model, options_file, weight_file)
        self._open(self._load(), device)
        self._elmo_lstm = CarriedState(State.zeros(self.config, rows=0))

    def _open(self, loaded: CharacterModel, device: object) -> None:
        engine = open_engine(loaded.model.checkpoint, device=device)
        # From here on nothing fails: a failed move leaves the object as it was.
        self.config = loaded.model.config
        self._engine = engine
        self._store = WordStore(engine, loaded.model.word_indexer)
        self._boundaries = loaded.boundaries

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"ElmoEmbedder.elmo_bilm runs without torch and has no {name!r}; "
            "the torch module is elmore.compat.allennlp._ElmoBiLm(options_file, weight_file)"
        )

    def __getstate__(self) -> dict[str, Any]:
        """The files and the carried state; a copy loads the files again."""
        return {"load": self._load, "device": self.device, "elmo_lstm": self._elmo_lstm}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._load = state["load"]
        self._open(self._load(), state["device"])
        self._elmo_lstm = state["elmo_lstm"]

    @property
    def num_layers(self) -> int:
        """The number of layers, including the context-free one."""
        return self.config.num_layers

    @property
    def device(self) -> str:
        """The device of the engine, such as "cpu" or "cuda:0"."""
        return self._engine.device

    def get_output_dim(self) -> int:
        return self.config.dim

    def reset_states(self, mask: Any = None) -> None:
        """Reset the carried state to zeros: of all rows, or of the rows where a boolean mask (rows,) is true."""
        self._elmo_lstm.reset_states(mask)

    def to(self, device: object) -> Self:
        """Move to another device; the carried state stays."""
        if resolve_device(device) != self.device:
            self._open(self._load(), device)
        return self

    def cuda(self, device: object = None) -> Self:
        """Move to a GPU, given by its number or its name."""
        return self.to("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)

    def cpu(self) -> Self:
        return self.to("cpu")

    def eval(self) -> Self:
        """No change: there is no dropout inside, in training or not."""
        return self

    def train(self, mode: bool = True) -> Self:  # noqa: ARG002 (AllenNLP's signature)
        """No change, see `eval`."""
        return self

    def __call__(self, inputs: "Tensor", word_inputs: object = None) -> dict[str, Any]:  # noqa: ARG002
        """Run character ids (B, n, 50), as AllenNLP's `_ElmoBiLm` does.

        Returns `activations`, a tensor (B, n + 2, dim) for each layer, and `mask`, a boolean tensor (B, n + 2). As in
        AllenNLP, `word_inputs` have no effect without a cached vocabulary.
        """
        words = index_words(inputs.detach().cpu().numpy(), boundaries=self._boundaries)
        if (words.characters == NO_CHARACTER).any():
            raise InputError("a word has an id of 0 between its character ids; run such ids through _ElmoBiLm")
        vectors = self._engine.encode_words(WordIds(words.characters, None))
        layers = self._run(NumberedWords(words.numbers, vectors, (0, 1)), words.lengths, boundaries=True)
        width = inputs.shape[1] + 2
        padded = [_padded(layers.layer(number), words.lengths + 2, width) for number in range(len(layers))]
        return {"activations": [layer for layer, _ in padded], "mask": padded[0][1]}

    def encode(self, sentences: Sequence[Sequence[str]]) -> Vectors:
        """(layers, K, dim) all layers of the words of a batch, one sentence after another."""
        layers = self.run_words(sentences)
        vectors: Vectors = self._engine.fetch(layers.stack(range(len(layers))))()
        return vectors

    def run_words(self, sentences: Sequence[Sequence[str]]) -> EngineLayers:
        """The layers of a batch of tokenized sentences."""
        lengths = count_words(sentences)
        return self._run(self._store.number(list(chain.from_iterable(sentences))), lengths)

    def _run(self, words: NumberedWords, lengths: NDArray[np.int64], *, boundaries: bool = False) -> EngineLayers:
        if not len(lengths):
            raise InputError("the batch contains no sentence")
        return self._elmo_lstm.run(self._engine, words, lengths, boundaries=boundaries)


def _padded(packed: Any, lengths: NDArray[np.int64], width: int | None = None) -> tuple["Tensor", "Tensor"]:
    """Vectors (..., K, dim) of the engine as a tensor (..., B, n, dim), zero beyond a sentence's end, and its mask."""
    import torch

    from elmore.nn.devices import as_tensor

    vectors = as_tensor(packed)
    width = int(lengths.max()) if width is None else width
    mask = (torch.arange(width) < torch.from_numpy(lengths)[:, None]).to(vectors.device)
    padded = vectors.new_zeros(*vectors.shape[:-2], *mask.shape, vectors.shape[-1])
    padded[..., mask, :] = vectors
    return padded, mask


_OUTPUT_FORMATS: Mapping[str, Callable[[Vectors], NDArray[np.float32]]] = {
    "all": lambda vectors: vectors,
    "top": lambda vectors: vectors[-1],
    "average": lambda vectors: vectors.mean(axis=0),
}


def _sentence_lines(file: Iterable[str]) -> list[str]:
    if isinstance(file, str | Path):
        raise InputError(f"embed_file takes an open file, not the path {file}; pass open(path, encoding='utf-8')")
    lines = []
    for line in file:
        if not isinstance(line, str):
            raise InputError("the file returns bytes; open it as text: open(path, encoding='utf-8')")
        lines.append(line.strip())
    if blank := [str(number) for number, line in enumerate(lines) if not line]:
        raise InputError(f"blank lines cannot be embedded; lines without words, counted from 0: {join_names(blank)}")
    return lines
