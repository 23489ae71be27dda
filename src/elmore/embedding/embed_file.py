"""Embed whole files into a file of vectors: resumable, in bounded memory, whole or not at all."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from os import PathLike, fspath
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

import numpy as np

from elmore.defaults import (
    DEFAULT_COMPUTE,
    DEFAULT_DTYPE,
    DEFAULT_LAYERS,
    DEFAULT_STATE,
    ComputeName,
    EngineName,
    StateName,
)
from elmore.embedding.options import (
    DtypeArgument,
    EngineArguments,
    InferenceOptions,
    LayersArgument,
    LayerSelection,
    check_engine_options,
    dtype_name,
)
from elmore.embedding.spool import Spool
from elmore.embedding.stream import EncodedBatch
from elmore.embedding.vector_files import EmbeddedSentences, Layout, VectorType, writer_for
from elmore.embedding.vectors import AnyPath, is_vector_file
from elmore.embedding.writer_thread import WriterThread
from elmore.errors import InputError, NotFound
from elmore.fields import check_value
from elmore.files.output_paths import check_output
from elmore.files.text_files import DEFAULT_ERRORS, DecodingErrors, display_name, total_bytes
from elmore.progress import Progress, progress_bar
from elmore.text.input_format import InputFormat, check_token_style
from elmore.text.inputs import find_inputs
from elmore.text.paragraphs import Paragraphs
from elmore.text.sentence_reader import ResumePoint, SentenceStream, SourceSentence, check_shard, read_sentences
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenizerConfig, TokenizerName, TokenStyle

if TYPE_CHECKING:
    from elmore.embedding.embedder import Embedder
    from elmore.model import Model

    ModelArgument = str | Path | Model | Embedder | Callable[[], Embedder] | None

STDIN = "-"

# The first commit comes soon, so that an early interruption loses little work.
FIRST_COMMIT_SECONDS = 1.0
COMMIT_SECONDS = 10.0
BATCH_BYTES = 2**24  # of the vectors in a batch for the writer

_CHOICES = {
    "input_format": InputFormat,
    "paragraphs": Paragraphs,
    "tokenizer": TokenizerName,
    "errors": DecodingErrors,
    "shard": tuple[int, int],
    "layout": Layout,
    "compute": ComputeName,
}


class EmbedArguments(TypedDict, total=False):
    """The fields of `EmbedJob` except its sources; the comments there describe each."""

    layers: LayersArgument
    dtype: DtypeArgument
    state: StateName
    compute: ComputeName | None
    device: object
    batch_invariant: bool
    engine: EngineName | None
    batch_tokens: int | None
    batch_size: int | None
    input_format: InputFormat | None
    split: bool
    paragraphs: Paragraphs | None
    language: str | None
    tokenizer: TokenizerName | None
    token_style: TokenStyle
    errors: DecodingErrors
    shard: tuple[int, int] | None
    layout: Layout
    fresh: bool
    force: bool


class EmbedSummary(NamedTuple):
    """The result of a job."""

    sentences: int
    words: int
    resumed_after: int  # sentences that an earlier process had embedded


def embed_file(
    source: AnyPath | Sequence[AnyPath],
    target: AnyPath,
    *,
    model: "ModelArgument" = None,
    show_progress_bar: bool | None = None,
    **options: Unpack[EmbedArguments],
) -> EmbedSummary:
    """Embed every word of a file, or of several, into a file of vectors that `open_vectors` reads.

    Several files, folders and patterns such as `"books/*.txt"` are read one after another, as one text. The suffix of
    the target chooses its kind: `.h5`, `.parquet` or `.npz`. If the job is stopped, even by `kill -9`, the same call
    resumes it. The options are the fields of `EmbedJob`. Without a `model`, `elmore-en` is used. A function that makes
    an `Embedder` is called when all else has been checked.

    >>> import tempfile
    >>> from elmore import embed_file, open_vectors
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("I took a bow. Me too.")
    >>> embed_file(folder / "a.txt", folder / "vectors.npz", model="tiny-random", layers="top")
    EmbedSummary(sentences=2, words=8, resumed_after=0)
    >>> open_vectors(folder / "vectors.npz")[1].shape
    (3, 32)
    """
    given = [source] if isinstance(source, str | PathLike) else source
    inputs = find_inputs([fspath(each) for each in given])
    inputs.warn_about_dropped()
    job = EmbedJob(sources=tuple(inputs.files), **options)
    # Before a model is loaded: a wrong file name should not cost minutes.
    job.check(Path(target))
    size = total_bytes(job.sources)
    with progress_bar("embedding", show=show_progress_bar, total_bytes=size) as progress:
        return job.run(job.embedder(model), Path(target), progress=progress)


@dataclass(frozen=True, kw_only=True, repr=False)
class EmbedJob:
    """The input and the options of `embed_file`."""

    sources: tuple[str, ...]  # paths, or "-" for stdin
    layers: LayersArgument = DEFAULT_LAYERS
    dtype: DtypeArgument = DEFAULT_DTYPE
    state: StateName = DEFAULT_STATE
    compute: ComputeName | None = None  # None: float32, or what the given Embedder computes in
    device: object = None  # None: a GPU if there is one, or the device of the given Embedder
    batch_invariant: bool = False  # on a GPU: bit-identical vectors in every batch
    engine: EngineName | None = None  # by name; None: by device and compute
    batch_tokens: int | None = None  # None: what suits the device
    batch_size: int | None = None
    input_format: InputFormat | None = None  # None: by the file's name
    split: bool = True
    paragraphs: Paragraphs | None = None  # None: detected from the text
    language: str | None = None  # None, for the tokenizer too: as in the model's card
    tokenizer: TokenizerName | None = None
    token_style: TokenStyle = DEFAULT_TOKEN_STYLE  # of text that comes as tokens; others than moses are converted
    errors: DecodingErrors = DEFAULT_ERRORS
    shard: tuple[int, int] | None = None  # (3, 8): the third of eight parts
    layout: Layout = "default"  # or one of `allennlp elmo`, for HDF5
    fresh: bool = False  # start over, even if an earlier job can be resumed
    force: bool = False  # replace a target that Elmore did not write

    def __repr__(self) -> str:
        """The fields that differ from their defaults."""
        changed = (field for field in fields(self) if getattr(self, field.name) != field.default)
        return f"EmbedJob({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in changed)})"

    @property
    def resumable(self) -> bool:
        """Whether an interrupted job can be resumed. False for `state="carry"`: the state is not saved."""
        return self.state == "fixed"

    @property
    def encoding(self) -> InferenceOptions:
        """The options of `encode`."""
        return InferenceOptions(
            layers=self.layers,
            state=self.state,
            dtype=self.dtype,
            batch_tokens=self.batch_tokens,
            batch_size=self.batch_size,
            token_style=self.token_style,
        )

    def check(self, target: Path) -> None:
        """Reject wrong input and options before a model is loaded."""
        for name, kind in _CHOICES.items():
            if (value := getattr(self, name)) is not None:
                check_value(name, value, kind)
        if self.shard is not None:
            check_shard(self.shard)
        if self.encoding.state == "carry" and self.shard is not None:
            raise InputError("a carried state needs every sentence before it; give either a shard or state='carry'")
        for source in self.sources:
            if source != STDIN and not Path(source).exists():
                raise NotFound(f"{source}: no such file")
            if Path(source).is_dir():
                raise InputError(f"{source}: is a folder; name a file")
        check_token_style(self.sources, self.input_format, self.token_style)
        if target.is_dir():
            raise InputError(f"{target}: is a folder; name a file to write")
        writer_for(target, self.layout)
        check_output(target, inputs=self.sources, may_replace=is_vector_file, force=self.force)

    def embedder(self, model: "ModelArgument") -> "Embedder":
        """The embedder for this job, from a model in any form."""
        from elmore.embedding.embedder import Embedder
        from elmore.model import Model

        options: EngineArguments = {
            "compute": self.compute or DEFAULT_COMPUTE,
            "device": self.device,
            "batch_invariant": self.batch_invariant,
            "engine": self.engine,
        }
        if isinstance(model, Model):
            return Embedder(model, **options)
        if model is None or isinstance(model, str | Path):
            return Embedder.from_pretrained(model, **options)
        embedder = model if isinstance(model, Embedder) else model()
        given = {name: value for name in options if (value := getattr(self, name))}
        check_engine_options(given, **embedder.options.engine_arguments())
        return embedder

    def run(self, embedder: "Embedder", target: Path, *, progress: Progress) -> EmbedSummary:
        """Embed the sources into the target, or resume this."""
        self.check(target)
        with self._spool(embedder, target) as spool:
            resumed_after = spool.num_sentences
            progress.advance(resumed_after, 0)
            self._fill(spool, embedder, progress)
            spool.finish(target)
        return EmbedSummary(spool.totals.sentences, spool.totals.words, resumed_after)

    def _fill(self, spool: Spool, embedder: "Embedder", progress: Progress) -> None:
        """Append to the spool what it does not contain yet."""
        after = ResumePoint(spool.num_sentences, spool.totals.digest)
        sentences = self._sentences(self._style(embedder), after=after, on_read=progress.read)
        numbered = progress.track((sentence.words, (number, sentence)) for number, sentence in self._checked(sentences))
        with WriterThread(Appender(spool).append) as writer:
            for encoded in embedder.encode_batches(numbered, self.encoding):
                for batch in _parts(encoded):
                    writer.put(batch, size=batch.vectors.nbytes)
                    progress.advance(len(batch.words), batch.vectors.shape[-2])
        spool.input_digest = sentences.digest

    def _spool(self, embedder: "Embedder", target: Path) -> Spool:
        choice = LayerSelection.parse(self.layers, num_layers=embedder.num_layers)
        return Spool(
            work_folder(target),
            self._description(embedder, choice),
            writer_for(target, self.layout),
            VectorType(embedder.dim, None if choice.averaged else len(choice.indices), dtype_name(self.dtype)),
            fresh=self.fresh,
            resumable=self.resumable,
        )

    def _description(self, embedder: "Embedder", choice: LayerSelection) -> dict[str, Any]:
        """Everything that affects the vectors. An unfinished job is resumed only if the description is the same.

        The handling of invalid bytes is not part of it, because all bytes of committed sentences were valid. Folder and
        date of the input are not part of it either, because a commit contains a digest of the input.
        """
        card = embedder.card
        files = [Path(source) for source in self.sources if source != STDIN]
        return {
            "input": [source if source == STDIN else Path(source).name for source in self.sources],
            "input_bytes": [file.stat().st_size for file in files],
            "input_format": self.input_format,
            "split": self.split,
            "paragraphs": self.paragraphs,
            "shard": self.shard,
            "text": asdict(self._style(embedder)),
            "token_style": self.token_style,
            "model": card.name or Path(card.source).name,
            "model_sha256": embedder.fingerprint(),
            "start_state": card.start_state_source or card.start_state,
            "carried_rows": self.encoding.carried_rows,
            "layers": choice.name,
            "compute": embedder.compute,
            # The variants of AllenNLP's layout differ only at the end of the file.
            "layout": self.layout.partition("-")[0],
        }

    def _style(self, embedder: "Embedder") -> TokenizerConfig:
        style = embedder.card.text
        return replace(style, language=self.language or style.language, tokenizer=self.tokenizer or style.tokenizer)

    def _sentences(
        self, style: TokenizerConfig, *, after: ResumePoint, on_read: Callable[[int], None]
    ) -> SentenceStream:
        return read_sentences(
            self.sources,
            format=self.input_format,
            style=style,
            split=self.split,
            paragraphs=self.paragraphs,
            errors=self.errors,
            shard=self.shard,
            after=after,
            on_read=on_read,
        )

    def _checked(self, sentences: SentenceStream) -> Iterator[tuple[int, SourceSentence]]:
        """The sentences, if the layout can store them."""
        for number, sentence in sentences:
            if self.layout != "default" and not sentence.words:
                raise InputError(
                    f"{display_name(sentence.source)}, line {sentence.line}: a blank line, which this layout cannot "
                    "store; remove the line, or write the default layout"
                )
            yield number, sentence


def work_folder(target: Path) -> Path:
    """The folder next to the target that contains the unfinished work."""
    return target.with_name(f"{target.name}.partial")


class Appender:
    """Appends batches to a spool and commits them every few seconds."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._commit_due = monotonic() + FIRST_COMMIT_SECONDS

    def append(self, batch: EmbeddedSentences) -> None:
        self._spool.append(batch)
        if monotonic() > self._commit_due:
            self._spool.commit()
            self._commit_due = monotonic() + COMMIT_SECONDS


def _parts(encoded: EncodedBatch[tuple[int, SourceSentence]]) -> Iterator[EmbeddedSentences]:
    """The sentences of a batch, some megabytes at a time, as views of its vectors."""
    ends = np.cumsum(encoded.lengths)
    bytes_per_word = encoded.vectors.nbytes // max(int(encoded.lengths.sum()), 1)
    # A part ends with the sentence that fills it.
    filled = ends * bytes_per_word // BATCH_BYTES
    stops = [*np.flatnonzero(np.diff(filled)) + 1, len(ends)] if len(ends) else []
    start = 0
    for stop in stops:
        numbers, sentences = zip(*encoded.payloads[start:stop], strict=True)
        first = int(ends[start] - encoded.lengths[start])
        yield EmbeddedSentences(
            numbers=numbers,
            words=[sentence.words for sentence in sentences],
            labels=[sentence.label for sentence in sentences],
            vectors=encoded.vectors[..., first : int(ends[stop - 1]), :],
            digests=[sentence.digest for sentence in sentences],
        )
        start = stop
