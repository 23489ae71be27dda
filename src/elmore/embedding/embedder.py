"""The Embedder: sentences become arrays of word vectors."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Literal, Self, TypedDict, TypeVar, Unpack, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from elmore.defaults import (
    DEFAULT_BATCH_TOKENS,
    DEFAULT_COMPUTE,
    DEFAULT_DTYPE,
    DEFAULT_LAYERS,
    DEFAULT_STATE,
    ComputeName,
    StateName,
)
from elmore.devices import allow_forked_process, choose_device
from elmore.embedding.compute import model_computing_in
from elmore.embedding.encode_options import DtypeArgument, EncodeOptions, dtype_name
from elmore.embedding.layer_choice import LayerChoice, LayersArgument
from elmore.embedding.packed_stream import DRAWN_TOGETHER, PackedEncoder
from elmore.embedding.sentence_groups import FindWords, find_words, sentence_groups
from elmore.embedding.sentences import Sentence, words_of
from elmore.embedding.stream import EncodedGroup, SentenceEncoder, taken_from
from elmore.embedding.token_alignment import align_to_words, pool_to_tokens
from elmore.embedding.word_cache import WordCache
from elmore.embedding.word_table import WordTable
from elmore.errors import InputError
from elmore.fields import check_value
from elmore.formats import Card
from elmore.html_repr import html_table
from elmore.model import Model, load, save
from elmore.network.layers import Layers
from elmore.progress import progress_bar
from elmore.text.batch import Batch
from elmore.text.brackets import find_bracketed
from elmore.text.checks import InputCheck
from elmore.text.paragraphs import Paragraphs
from elmore.text.splitting import split_text
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle
from elmore.text.tokenizing import Tokenizer, Tokens

T = TypeVar("T")
U = TypeVar("U")
PoolName = Literal["mean", "max"]
Vectors = NDArray[np.floating]  # (words, dim) or (layers, words, dim)


class _EncodeArguments(TypedDict, total=False):
    """The fields of `EncodeOptions`."""

    layers: LayersArgument
    state: StateName
    dtype: DtypeArgument
    batch_tokens: int | None
    batch_size: int | None
    token_style: TokenStyle


class _EncodeAndShowArguments(_EncodeArguments, total=False):
    show_progress_bar: bool | None


class Embedder:
    """Gives every word the vector it has in its sentence.

    The same sentence has the same vectors every time: alone, in any batch, in any order, after any other sentence. By
    the native CPU kernels that is to the bit, in every `compute`; without them the same call gives the same bits, and
    another batch up to 6e-06 more or less in float32 (measured: docs/layers.md). On a GPU it is to the bit with
    `batch_invariant=True`.

    >>> model = Embedder.from_pretrained("tiny-random")
    >>> vectors = model.encode(["I took a bow.", ["pre", "tokenised", "works", "too"]])
    >>> [v.shape for v in vectors]
    [(5, 32), (4, 32)]
    >>> model.encode("I took a bow.", layers="all").shape
    (3, 5, 32)
    """

    def __init__(self, model: Model, *, compute: ComputeName = DEFAULT_COMPUTE, batch_invariant: bool = False) -> None:
        check_value("compute", compute, ComputeName)
        self.compute = compute
        self.batch_invariant = batch_invariant
        self._read_with(model_computing_in(compute, model))
        self.tokenizer = Tokenizer(model.card.text)
        self._check = InputCheck(model.card.text)

    def _read_with(self, model: Model) -> None:
        self._model = model
        # Of the two one comes to be used.
        self._cache, self._table = WordCache(model), WordTable(model, fixed_width=self.batch_invariant)

    def __repr__(self) -> str:
        name = self._model.card.name or self._model.card.source
        device = "" if self.device.type == "cpu" else f", device={str(self.device)!r}"
        return f"Embedder({name!r}, dim={self.dim}, layers={self.num_layers}{device})"

    def _repr_html_(self) -> str:
        config, card = self._model.config, self._model.card
        about = {
            "language": card.text.language,
            "layers": f"{self.num_layers} of {self.dim}",
            "parameters": f"{config.num_parameters:,}",
            "device": self.device,
            "sentences start from": card.start_state_from or card.start_state,
        }
        return html_table(f"Embedder {card.name or card.source}", about)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        device: str | torch.device | None = None,
        compute: ComputeName = DEFAULT_COMPUTE,
        batch_invariant: bool = False,
    ) -> Self:
        """Load a model by the path of its folder, archive or file, by its address, or by its name.

        Without a `device` it runs on a GPU, if there is one. There `batch_invariant` makes all matrix products of one
        number of rows, so that a sentence has the same bits whatever is read beside it.
        """
        model = load(name, device=choose_device(device))
        embedder = cls(model, compute=compute, batch_invariant=batch_invariant)
        # Nobody else has this model, so its weights need not be kept beside what the kernels make of them.
        embedder._model.network.release_weights()
        return embedder

    @property
    def model(self) -> Model:
        """The model that it reads with, whole; from now on its weights stay beside what the kernels make of them."""
        self._model.network.release_weights(release=False)
        return self._model

    def save_pretrained(self, path: str | Path, *, force: bool = False) -> None:
        """Write the model as a folder that `from_pretrained` reads; over another only with `force=True`."""
        save(self.model, path, force=force)

    @property
    def card(self) -> Card:
        """What is known of the model beside its numbers."""
        return self._model.card

    def fingerprint(self) -> str:
        """A SHA-256 over all that decides the vectors."""
        return self._model.fingerprint()

    @property
    def device(self) -> torch.device:
        """Where the network runs."""
        return self._model.device

    def to(self, device: str | torch.device) -> Self:
        """Run on this device from now on; a `Model` that this was made of stays where it is.

        >>> Embedder.from_pretrained("tiny-random").to("cpu").device
        device(type='cpu')
        """
        if (chosen := choose_device(device)) != self.device:
            self._read_with(model_computing_in(self.compute, self.model.to(chosen)))
        return self

    @property
    def dim(self) -> int:
        """The size of a word's vector."""
        return self._model.config.dim

    @property
    def num_layers(self) -> int:
        """How many layers a word has, the context-free one included: 3 for the published models."""
        return self._model.config.num_layers

    def tokenize(self, text: str) -> Tokens:
        """Cut a sentence into words as this model expects them, with their character offsets.

        >>> Embedder.from_pretrained("tiny-random").tokenize("I took a bow.").words
        ['I', 'took', 'a', 'bow', '.']
        """
        if not isinstance(text, str):
            raise InputError(f"a sentence to be cut into words is a string, and this is a {type(text).__name__}")
        return self.tokenizer.tokenize(text)

    def split(self, text: str, *, paragraphs: Paragraphs | None = None) -> list[str]:
        """Cut a text into sentences, which `encode` takes.

        Every line is a paragraph, or hard-wrapped lines go on until a blank one; None finds out.

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
        layers: LayersArgument = DEFAULT_LAYERS,
        state: StateName = DEFAULT_STATE,
        dtype: DtypeArgument = DEFAULT_DTYPE,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
        token_style: TokenStyle = DEFAULT_TOKEN_STYLE,
        show_progress_bar: bool | None = False,  # a ninth argument: each is an option of its own, which users name
    ) -> Vectors | list[Vectors]:
        """The vectors of each sentence, in the caller's order; a single string gives a single array.

        A sentence is a string, which is tokenised but never split further, or a list of words. `layers` is "average",
        "top" or a number for arrays of (words, dim), "all" or several numbers for (layers, words, dim).
        `state="carry"` starts each row of a batch where the batch before left it, as AllenNLP and bilm-tf do; then
        `batch_size` (64) changes the numbers. `token_style="penn"` turns given tokens of that style (do n't, -LRB-)
        into the model's words, and so do "nltk", "plain" and "ud" (see `text.penn`); each token still gets one vector,
        the mean over its words.
        """
        if not isinstance(sentences, Iterable):
            raise InputError(f"encode takes a string or a list of sentences; given was {sentences!r}")
        items = [sentences] if isinstance(sentences, str) else list(sentences)
        stream = self.encode_iter(
            items,
            layers=layers,
            state=state,
            dtype=dtype,
            batch_tokens=batch_tokens,
            batch_size=batch_size,
            token_style=token_style,
        )
        vectors = []
        with progress_bar("embedding", show=show_progress_bar, total=len(items)) as progress:
            for array in stream:
                vectors.append(array)
                progress.advance(sentences=1, tokens=array.shape[-2])
        return vectors[0] if isinstance(sentences, str) else vectors

    def encode_iter(self, sentences: Iterable[Sentence], **options: Unpack[_EncodeArguments]) -> Iterator[Vectors]:
        """As `encode`, with its options, for a stream of any length: no more is kept in memory than is read ahead."""
        if isinstance(sentences, str):
            raise InputError("encode_iter takes many sentences; for one string use encode")
        chunks = self.encode_chunks(zip(sentences, repeat(None)), EncodeOptions(**options))
        return (vectors.numpy() for chunk in chunks for _, vectors in taken_from(chunk))

    def encode_tensors(self, sentences: Iterable[Sentence], **options: Unpack[_EncodeArguments]) -> list[Tensor]:
        """As `encode`, with its options, as tensors that stay where the network runs.

        On a GPU those of sentences that were read together share memory: `clone()` one that is kept alone.

        >>> [t.shape for t in Embedder.from_pretrained("tiny-random").encode_tensors(["I took a bow.", "Me too."])]
        [torch.Size([5, 32]), torch.Size([3, 32])]
        """
        if isinstance(sentences, str):
            raise InputError("encode_tensors takes a list of sentences; put the string into a list")
        chunks = self.encode_chunks(zip(sentences, repeat(None)), EncodeOptions(**options), device=self.device)
        return [vectors for chunk in chunks for vectors in chunk.vectors]

    def encode_chunks(
        self,
        sentences: Iterable[tuple[Sentence, T]],
        options: EncodeOptions,
        *,
        device: torch.device | str = "cpu",
    ) -> Iterator[EncodedGroup[T]]:
        """What every `encode` is made of: sentences with something of the caller's, which comes back with the vectors.

        They come in groups, in order: all that was read together. The vectors are tensors on `device`.
        """
        allow_forked_process(self.device)
        style = options.token_style
        if style == "moses":
            return self._encoded(sentences, partial(find_words, tokenizer=self.tokenizer), options, device)
        # Not a generator, which would hold on to one group while the next is made.
        align = partial(align_to_words, tokenizer=self.tokenizer, style=style)
        return map(pool_to_tokens, self._encoded(sentences, align, options, device))

    def _encoded(
        self,
        sentences: Iterable[tuple[Sentence, T]],
        find: FindWords[T, U],
        options: EncodeOptions,
        device: torch.device | str,
    ) -> Iterator[EncodedGroup[U]]:
        choice = LayerChoice.parse(options.layers, num_layers=self.num_layers)
        dtype = getattr(torch, dtype_name(options.dtype))
        size, rows = options.batch_tokens, options.batch_size
        with torch.no_grad():
            kernels = self._model.network.kernels(self._model.start.h, self._model.start)
        if kernels.recurrence.run_packed is not None and not options.carried_rows:
            packed = PackedEncoder(self._model, self._table, choice, kernels=kernels, dtype=dtype, device=device)
            pack_size = packed.size(batch_tokens=size, batch_size=rows)
            groups = sentence_groups(sentences, find, self._check, size=DRAWN_TOGETHER)
            return packed.encode(groups, pack_size, fixed_rows=self.batch_invariant)
        encoder = SentenceEncoder(self._model, self._cache, choice, dtype=dtype, device=device)
        groups = sentence_groups(sentences, find, self._check, size=1)
        if options.carried_rows:
            return encoder.encode_carrying_state(groups, batch_size=options.carried_rows)
        return encoder.encode_from_fixed_state(groups, batch_tokens=size or DEFAULT_BATCH_TOKENS, batch_size=rows)

    def encode_sentences(
        self,
        sentences: Iterable[Sentence],
        *,
        pool: PoolName = "mean",
        layers: Literal["average", "top"] | int = DEFAULT_LAYERS,
        batch_tokens: int | None = None,
        token_style: TokenStyle = DEFAULT_TOKEN_STYLE,
        show_progress_bar: bool | None = False,
    ) -> NDArray[np.floating]:
        """(n, dim) one vector for each sentence: the mean or the maximum over its words, zeros where it has none.

        >>> Embedder.from_pretrained("tiny-random").encode_sentences(["One vector each.", "Really."]).shape
        (2, 32)
        """
        if isinstance(sentences, str):
            raise InputError("encode_sentences takes a list of sentences; put the string into a list")
        check_value("pool", pool, PoolName)
        if not LayerChoice.parse(layers, num_layers=self.num_layers).merged:
            raise InputError(f"layers is {layers!r}; a sentence vector takes 'average', 'top' or one number")
        items = list(sentences)
        pooled = np.zeros((len(items), self.dim), dtype=np.float32)
        with progress_bar("embedding", show=show_progress_bar, total=len(items)) as progress:
            stream = self.encode_iter(items, layers=layers, batch_tokens=batch_tokens, token_style=token_style)
            for row, vectors in zip(pooled, stream, strict=True):
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
        """The vector of the one word in [brackets], in this sentence; of several words their mean.

        >>> model = Embedder.from_pretrained("tiny-random")
        >>> model.word_vector("He was wielding a [bow] and arrow .", layers="top").shape
        (32,)
        """
        given = sentence if isinstance(sentence, str) else self.words(sentence)
        words, bracketed = find_bracketed(given, self.tokenizer)
        if not bracketed:
            raise InputError(f"the brackets hold no word, in {sentence!r}; as in 'I took a [bow] .'")
        # A string was tokenised in the model's style just now.
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

    def batch(self, sentences: Iterable[Sentence]) -> Batch:
        """Sentences ready for the network: what `layers` takes."""
        return self._model.batch([self.words(item, number) for number, item in enumerate(sentences)])

    def layers(self, batch: Batch) -> Layers:
        """All layers of a batch, read from the fixed state, as tensors left on the device."""
        network = self._model.network
        with torch.no_grad():
            return network.read(network.words(batch.inputs), batch, self._model.start.repeat(len(batch)))[0]

    def words(self, sentence: Sentence, number: int = 0) -> list[str]:
        """The words of a sentence: tokenised if it is a string; `number` places a complaint."""
        return words_of(sentence, self.tokenizer, number)


def _unit_length(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    # A vector of zeros, an empty sentence say, is like nothing: its cosine is 0, not NaN.
    return vectors / np.where(lengths > 0, lengths, 1)
