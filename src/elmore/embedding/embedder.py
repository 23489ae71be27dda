"""The Embedder: sentences in, arrays of word vectors out."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from elmore.defaults import DEFAULT_LAYERS, ComputeName
from elmore.display import html_table
from elmore.embedding.options import (
    EncodeArguments,
    EngineArguments,
    InferenceOptions,
    LayersArgument,
    LayerSelection,
    check_engine_options,
)
from elmore.embedding.sentences import (
    Sentence,
    align_to_words,
    check_sentences,
    find_words,
    pool_to_tokens,
    sentence_batches,
    tokenize_sentence,
)
from elmore.embedding.stream import EncodedBatch, SentenceEncoder
from elmore.engine.engine import Engine
from elmore.engine.open_engine import open_engine, resolve_device
from elmore.engine.word_store import WordStore
from elmore.errors import InputError, requires_torch
from elmore.fields import check_value
from elmore.formats import ModelCard
from elmore.model import Model, load, save
from elmore.progress import progress_bar
from elmore.text.brackets import parse_brackets
from elmore.text.input_checks import InputCheck
from elmore.text.paragraphs import Paragraphs
from elmore.text.splitting import split_text
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle
from elmore.text.tokenizer import Tokenizer, Tokens

T = TypeVar("T")
PoolName = Literal["mean", "max"]
Vectors = NDArray[np.floating]  # (words, dim) or (layers, words, dim)


class _EncodeAndShowArguments(EncodeArguments, total=False):
    show_progress_bar: bool | None


class _Running(NamedTuple):
    """An engine and the words it has encoded; replaced as a whole."""

    engine: Engine
    store: WordStore
    options: InferenceOptions


class Embedder:
    """Computes the vector of each word in its sentence.

    A sentence has the same vectors on each call: alone, in any batch, in any order, after any other sentence. With the
    native engine they are bit-identical, for every `compute`. With the numpy engine the same call gives the same bits,
    and another batch differs by up to 6e-06 in float32 (measured: docs/layers.md). On a GPU they are bit-identical with
    `batch_invariant=True`.

    Any number of threads may share an Embedder.

    >>> model = Embedder.from_pretrained("tiny-random")
    >>> vectors = model.encode(["I took a bow.", ["pre", "tokenized", "works", "too"]])
    >>> [v.shape for v in vectors]
    [(5, 32), (4, 32)]
    >>> model.encode("I took a bow.", layers="all").shape
    (3, 5, 32)
    """

    def __init__(self, model: Model, **options: Unpack[EngineArguments]) -> None:
        if not isinstance(model, Model):
            raise InputError(
                f"Embedder takes a Model, not {model!r}; for a name or a path: Embedder.from_pretrained(...)"
            )
        self._setup(model, lambda: model, InferenceOptions(**options))

    def _setup(self, model: Model, source: Callable[[], Model], options: InferenceOptions) -> None:
        self._source = source  # gives the model with its weights
        self._model = model.without_weights()
        self._running = self._open(model, options)
        self.tokenizer = Tokenizer(model.card.text)
        self._check = InputCheck(model.card.text)

    def _open(self, model: Model, options: InferenceOptions) -> _Running:
        engine = open_engine(model.checkpoint, **options.engine_arguments())
        # From now on the device has its full name.
        return _Running(engine, WordStore(engine, model.word_indexer), replace(options, device=engine.device))

    def __repr__(self) -> str:
        name = self.card.name or self.card.source
        device = "" if self.device == "cpu" else f", device={self.device!r}"
        return f"Embedder({name!r}, dim={self.dim}, layers={self.num_layers}{device})"

    def _repr_html_(self) -> str:
        config, card = self._model.config, self.card
        about = {
            "language": card.text.language,
            "layers": f"{self.num_layers} of {self.dim}",
            "parameters": f"{config.num_parameters:,}",
            "device": self.device,
            "sentences start from": card.start_state_source or card.start_state,
        }
        return html_table(f"Embedder {card.name or card.source}", about)

    def __getstate__(self) -> dict[str, Any]:
        """The state for a copy or another process: the source of the model, or the model, without packed weights."""
        source = self._source
        return {"options": self.options} | ({"load": source} if isinstance(source, partial) else {"model": source()})

    def __setstate__(self, state: dict[str, Any]) -> None:
        model = state["model"] if "model" in state else state["load"]()
        self._setup(model, state.get("load", lambda: model), state["options"])

    @classmethod
    def from_pretrained(cls, name: str | Path | None = None, **options: Unpack[EngineArguments]) -> Self:
        """Load a model by the path of its folder, archive or file, by its URL, or by its name.

        - `device`: "auto" is a GPU if there is one, else the CPU; or "cpu", "cuda", "cuda:1", "mps".
        - `compute`: "float32"; faster and less exact: "bfloat16", on a CPU "int8", on an NVIDIA GPU "tf32".
        - `batch_invariant`: on a GPU all matrix products have one number of rows, so that a sentence has bit-identical
          vectors in every batch.
        - `engine`: an engine by its name, "native", "numpy" or "gpu"; see `elmore info --system`.
        """
        return cls.from_source(partial(load, name), **options)

    @classmethod
    def from_source(cls, source: Callable[[], Model], **options: Unpack[EngineArguments]) -> Self:
        """An Embedder for the model that `source` loads; `source` is called again when the weights are needed.

        The weights of the model are freed when the engine has packed them.
        """
        embedder = cls.__new__(cls)
        embedder._setup(source(), source, InferenceOptions(**options))
        return embedder

    @property
    def options(self) -> InferenceOptions:
        """The options of the engine; those of `encode` have their defaults."""
        return self._running.options

    @property
    def compute(self) -> ComputeName:
        """The number type of matrix products."""
        return self.options.compute

    @property
    def batch_invariant(self) -> bool:
        """Whether a GPU computes bit-identical vectors in every batch."""
        return self.options.batch_invariant

    @property
    def model(self) -> Model:
        """The model with its weights; loaded again if `from_pretrained` made this Embedder."""
        return self._source()

    def save_pretrained(self, path: str | Path, *, force: bool = False) -> None:
        """Write the model as a folder that `from_pretrained` reads; `force=True` replaces an existing model."""
        save(self.model, path, force=force)

    @property
    def card(self) -> ModelCard:
        """Name, license, source and text style of the model."""
        return self._model.card

    def fingerprint(self) -> str:
        """A SHA-256 over everything in the model that determines the vectors."""
        return self._model.fingerprint() if self._model.has_fingerprint else self.model.fingerprint()

    @property
    def device(self) -> str:
        """The device of the engine, such as "cpu" or "cuda:0"."""
        return self._running.engine.device

    @property
    def engine(self) -> Engine:
        """The engine in use."""
        return self._running.engine

    def to(self, device: object) -> Self:
        """Move to another device. If the move fails, this Embedder is unchanged.

        >>> Embedder.from_pretrained("tiny-random").to("cpu").device
        'cpu'
        """
        if resolve_device(device) != self.device:
            self._running = self._open(self.model, replace(self.options, device=device))
        return self

    def clear_words(self) -> None:
        """Drop the stored vectors of words; they are computed again when needed."""
        self._running.store.clear()

    @property
    def dim(self) -> int:
        """The size of a word's vector."""
        return self._model.config.dim

    @property
    def num_layers(self) -> int:
        """The number of layers, including the context-free one: 3 for the published models."""
        return self._model.config.num_layers

    def tokenize(self, text: str) -> Tokens:
        """Tokenize a sentence in the style of the model, with character offsets.

        >>> Embedder.from_pretrained("tiny-random").tokenize("I took a bow.").words
        ['I', 'took', 'a', 'bow', '.']
        """
        if not isinstance(text, str):
            raise InputError(f"tokenize takes one sentence as a string, not a {type(text).__name__}")
        return self.tokenizer.tokenize(text)

    def split(self, text: str, *, paragraphs: Paragraphs | None = None) -> list[str]:
        """Split a text into sentences for `encode`.

        `paragraphs`: "line" or "blank-line" ends a paragraph; None: detected from the text.

        >>> Embedder.from_pretrained("tiny-random").split("Dr. Smith took a bow. Why?")
        ['Dr. Smith took a bow.', 'Why?']
        """
        return [sentence.text for sentence in split_text(text, style=self._model.card.text, paragraphs=paragraphs)]

    @overload
    def encode(self, sentences: str, **options: Unpack[_EncodeAndShowArguments]) -> Vectors: ...  # type: ignore[overload-overlap]
    @overload
    def encode(self, sentences: Iterable[Sentence], **options: Unpack[_EncodeAndShowArguments]) -> list[Vectors]: ...
    def encode(
        self,
        sentences: str | Iterable[Sentence],
        *,
        show_progress_bar: bool | None = False,
        **options: Unpack[EncodeArguments],
    ) -> Vectors | list[Vectors]:
        """The vectors of each sentence, in the caller's order; a single string gives a single array.

        A sentence is a string, which is tokenized but never split further, or a list of words. Options:

        - `layers`: "average", "top" or a number for arrays of (words, dim); "all" or several numbers for
          (layers, words, dim).
        - `state`: "fixed", or "carry" to start each row of a batch where the previous batch ended, as AllenNLP and
          bilm-tf do; then `batch_size` (64) changes the vectors.
        - `dtype`: float32 or float16.
        - `batch_tokens`, `batch_size`: words and rows computed together.
        - `token_style`: "penn", "nltk", "plain" or "ud" converts given tokens of that convention (do n't, -LRB-) into
          the model's words; each token still gets one vector, the mean over its words.
        """
        check_sentences(sentences)
        items = [sentences] if isinstance(sentences, str) else list(sentences)
        stream = self.encode_iter(items, **options)
        vectors = []
        with progress_bar("embedding", show=show_progress_bar, total=len(items)) as progress:
            for array in stream:
                vectors.append(array)
                progress.advance(sentences=1, tokens=array.shape[-2])
        return vectors[0] if isinstance(sentences, str) else vectors

    def encode_iter(self, sentences: Iterable[Sentence], **options: Unpack[EncodeArguments]) -> Iterator[Vectors]:
        """Like `encode`, for a stream of any length, in bounded memory."""
        check_sentences(sentences)
        if isinstance(sentences, str):
            raise InputError("encode_iter takes many sentences; for one string use encode")
        return _copies(self.encode_batches(zip(sentences, repeat(None)), self._inference_options(options)))

    def encode_tensors(self, sentences: Iterable[Sentence], **options: Unpack[EncodeArguments]) -> list[Any]:
        """Like `encode`, as torch tensors on the engine's device.

        Tensors of sentences that ran together share memory. `clone()` a tensor to free the others.
        """
        check_sentences(sentences)
        if isinstance(sentences, str):
            raise InputError("encode_tensors takes a list of sentences; put the string into a list")
        with requires_torch("encode_tensors"):
            from elmore.nn.devices import as_tensor

        batches = self.encode_batches(zip(sentences, repeat(None)), self._inference_options(options), to_host=False)
        return [as_tensor(vectors) for batch in batches for vectors in batch.split()]

    def encode_batches(
        self, sentences: Iterable[tuple[Sentence, T]], options: InferenceOptions, *, to_host: bool = True
    ) -> Iterator[EncodedBatch[T]]:
        """The basis of every `encode`: each sentence comes with an object that is returned with its vectors.

        Batches have the order of the input. With `to_host=False` vectors stay in the engine's memory.
        """
        self._check_engine_options(options.changed_engine_options)
        engine, store, _ = self._running
        encoder = SentenceEncoder(engine, store, self._model.start, options, to_host=to_host)
        if options.token_style == "moses":
            find = partial(find_words, tokenizer=self.tokenizer)
            return encoder.encode(sentence_batches(sentences, find, self._check))
        align = partial(align_to_words, tokenizer=self.tokenizer, style=options.token_style)
        # Not a generator, which would keep one batch in memory while the next is computed.
        return map(pool_to_tokens, encoder.encode(sentence_batches(sentences, align, self._check)))

    def _inference_options(self, arguments: EncodeArguments) -> InferenceOptions:
        """The options of one call. It may repeat those of the engine, but not change them."""
        self._check_engine_options(arguments)
        return InferenceOptions(**arguments)

    def _check_engine_options(self, requested: Mapping[str, object]) -> None:
        check_engine_options(requested, **self.options.engine_arguments())

    def encode_sentences(
        self,
        sentences: Iterable[Sentence],
        *,
        pool: PoolName = "mean",
        show_progress_bar: bool | None = False,
        **options: Unpack[EncodeArguments],
    ) -> NDArray[np.floating]:
        """(n, dim) one vector for each sentence: the mean or the maximum over its words, zeros without words.

        The options are those of `encode`; `layers` selects one vector for each word.

        >>> Embedder.from_pretrained("tiny-random").encode_sentences(["One vector each.", "Really."]).shape
        (2, 32)
        """
        check_sentences(sentences)
        if isinstance(sentences, str):
            raise InputError("encode_sentences takes a list of sentences; put the string into a list")
        check_value("pool", pool, PoolName)
        layers = options.get("layers", DEFAULT_LAYERS)
        if not LayerSelection.parse(layers, num_layers=self.num_layers).averaged:
            raise InputError(f"layers is {layers!r}; a sentence vector takes 'average', 'top' or one number")
        items = list(sentences)
        pooled = np.zeros((len(items), self.dim), dtype=self._inference_options(options).numpy_dtype)
        with progress_bar("embedding", show=show_progress_bar, total=len(items)) as progress:
            for row, vectors in zip(pooled, self.encode_iter(items, **options), strict=True):
                if len(vectors):
                    row[:] = vectors.mean(axis=0) if pool == "mean" else vectors.max(axis=0)
                progress.advance(sentences=1, tokens=len(vectors))
        return pooled

    def word_vector(
        self,
        sentence: Sentence,
        *,
        layers: LayersArgument = DEFAULT_LAYERS,
        token_style: TokenStyle = DEFAULT_TOKEN_STYLE,
    ) -> Vectors:
        """The vector of the word in [brackets], in the context of its sentence; the mean if there are several words.

        >>> model = Embedder.from_pretrained("tiny-random")
        >>> model.word_vector("He was wielding a [bow] and arrow .", layers="top").shape
        (32,)
        """
        given = sentence if isinstance(sentence, str) else self.words(sentence)
        words, bracketed = parse_brackets(given, self.tokenizer)
        if not bracketed:
            raise InputError(f"the brackets in {sentence!r} contain no word; write, for example, 'I took a [bow] .'")
        # A string has been tokenized in the model's style.
        style: TokenStyle = "moses" if isinstance(sentence, str) else token_style
        vectors = self.encode([words], layers=layers, token_style=style)[0]
        mean: Vectors = vectors[..., bracketed, :].mean(axis=-2)
        return mean

    def similarity(self, a: ArrayLike, b: ArrayLike) -> NDArray[np.floating]:
        """The cosine of every vector of `a` (n, dim) with every vector of `b` (m, dim), as (n, m).

        >>> Embedder.from_pretrained("tiny-random").similarity([[1.0, 0.0]], [[2.0, 0.0], [0.0, 3.0]]).tolist()
        [[1.0, 0.0]]
        """
        left, right = (np.atleast_2d(np.asarray(vectors, dtype=np.float32)) for vectors in (a, b))
        if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1]:
            raise InputError(f"similarity compares (n, dim) with (m, dim), not {left.shape} with {right.shape}")
        return _unit_length(left) @ _unit_length(right).T

    def words(self, sentence: Sentence, number: int = 0) -> list[str]:
        """The words of a sentence, tokenized if it is a string; `number` is its position in error messages."""
        return tokenize_sentence(sentence, self.tokenizer, number)


def _copies(batches: Iterator[EncodedBatch[None]]) -> Iterator[Vectors]:
    """The vectors of each sentence, as copies: a view would keep its whole batch in memory."""
    for batch in batches:
        yield from map(np.copy, batch.split())
        del batch  # or its vectors would be in memory while the next one runs


def _unit_length(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    # The cosine with a vector of zeros, for example of an empty sentence, is 0, not NaN.
    return vectors / np.where(lengths > 0, lengths, 1)
