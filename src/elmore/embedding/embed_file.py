"""Embed whole files into a file of vectors: resumable, in bounded memory, whole or not at all."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from os import PathLike, fspath
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np

from elmore.embedding.options import (
    InferenceArguments,
    InferenceOptions,
    LayerSelection,
    check_engine_options,
    dtype_name,
)
from elmore.embedding.spool import Spool
from elmore.embedding.stream import EncodedBatch
from elmore.embedding.vector_files import EmbeddedSentences, Layout, VectorType, writer_for
from elmore.embedding.vectors import AnyPath, is_vector_file
from elmore.embedding.writer_thread import WriterThread
from elmore.errors import InputError
from elmore.fields import check_value
from elmore.files.input_files import InputFormat, find_inputs
from elmore.files.output_paths import check_output
from elmore.files.text_files import DEFAULT_ERRORS, DecodingErrors, display_name, total_bytes
from elmore.progress import Progress, progress_bar
from elmore.text.paragraphs import Paragraphs
from elmore.text.sentence_reader import (
    ResumePoint,
    SentenceStream,
    SourceSentence,
    check_shard,
    read_sentences,
    resolve_format,
)
from elmore.text.style import TokenizerName

if TYPE_CHECKING:
    from elmore.embedding.embedder import Embedder
    from elmore.model import Model

    ModelArgument = str | Path | Model | Embedder | Callable[[], Embedder] | None

STDIN = "-"

# The first commit comes soon, so that an early interruption loses little work.
FIRST_COMMIT_SECONDS = 1.0
COMMIT_SECONDS = 10.0
BATCH_BYTES = 2**24  # of the vectors in a batch for the writer


class EmbedSummary(NamedTuple):
    """The result of `embed_file`."""

    sentences: int
    words: int
    resumed_after: int  # sentences that an earlier process had embedded


def embed_file(
    source: AnyPath | Sequence[AnyPath],
    target: AnyPath,
    *,
    model: "ModelArgument" = None,
    input_format: InputFormat | None = None,
    split: bool = True,
    paragraphs: Paragraphs | None = None,
    language: str | None = None,
    tokenizer: TokenizerName | None = None,
    errors: DecodingErrors = DEFAULT_ERRORS,
    shard: tuple[int, int] | None = None,
    layout: Layout = "default",
    fresh: bool = False,
    force: bool = False,
    show_progress_bar: bool | None = None,
    **options: Unpack[InferenceArguments],
) -> EmbedSummary:
    """Embed every word of a file, or of several, into a file of vectors that `open_vectors` reads.

    Several files, folders and patterns such as `"books/*.txt"` are read one after another, as one text. The suffix of
    the target chooses its kind: `.h5`, `.parquet` or `.npz`. If the job is stopped, even by `kill -9`, the same call
    resumes it. Vectors have the same bits as without the stop.

    - `model`: a name, a path, a `Model`, an `Embedder`, or a function that returns an `Embedder` and is called after
      all other arguments have been checked. None is `elmore-en`.
    - `input_format`: "text", "tokenized", "conllu", "conll" or "fasta"; None: by each file's name.
    - `split`: False reads each line as a sentence.
    - `paragraphs`: "line" or "blank-line" ends a paragraph; None: detected from the text.
    - `language`, `tokenizer`: None: as in the model's card.
    - `errors`: "strict" stops at bytes that are not UTF-8, "replace" reads U+FFFD.
    - `shard`: (3, 8) embeds the third of eight parts; `open_vectors` joins the parts.
    - `layout`: for HDF5 also "allennlp", "allennlp-without-sentences" or "allennlp-sentence-keys".
    - `fresh`: start over, even if an earlier job can be resumed.
    - `force`: replace a target that Elmore did not write.
    - `options`: those of `Embedder.encode` and `Embedder.from_pretrained`.

    >>> import tempfile
    >>> from elmore import embed_file, open_vectors
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("I took a bow. Me too.")
    >>> embed_file(folder / "a.txt", folder / "vectors.npz", model="tiny-random", layers="top")
    EmbedSummary(sentences=2, words=8, resumed_after=0)
    >>> open_vectors(folder / "vectors.npz")[1].shape
    (3, 32)
    """
    target = Path(target)
    inputs = find_inputs([fspath(path) for path in ([source] if isinstance(source, str | PathLike) else source)])
    inputs.warn_about_skipped()
    files = inputs.files
    inference = InferenceOptions(**options)
    # Before a model is loaded: a wrong file name should not cost minutes.
    _check(input_format=input_format, paragraphs=paragraphs, tokenizer=tokenizer, errors=errors, layout=layout)
    _check_shard(shard, inference)
    resolve_format(files, input_format=input_format, token_style=inference.token_style)
    if target.is_dir():
        raise InputError(f"{target}: is a folder; name a file to write")
    open_writer = writer_for(target, layout)
    check_output(target, inputs=files, may_replace=is_vector_file, force=force)

    with progress_bar("embedding", show=show_progress_bar, total_bytes=total_bytes(files)) as progress:
        embedder = _open_embedder(model, options)
        layers = LayerSelection.parse(inference.layers, num_layers=embedder.num_layers)
        style = embedder.card.text.with_overrides(language=language, tokenizer=tokenizer)
        # Everything that affects the vectors. `errors` does not: all bytes of committed sentences were valid. Folder
        # and date of the input do not either, because a commit contains a digest of the input.
        job = {
            "input": [file if file == STDIN else Path(file).name for file in files],
            "input_bytes": [Path(file).stat().st_size for file in files if file != STDIN],
            "input_format": input_format,
            "split": split,
            "paragraphs": paragraphs,
            "shard": shard,
            "text": asdict(style),
            "token_style": inference.token_style,
            **_description_of_model(embedder),
            "carried_rows": inference.carried_rows,
            "layers": layers.name,
            # The variants of AllenNLP's layout differ only at the end of the file.
            "layout": layout.partition("-")[0],
        }
        vectors = VectorType(
            embedder.dim, None if layers.averaged else len(layers.indices), dtype_name(inference.dtype)
        )
        # A carried state is not saved, so a job with such a state starts over.
        resumable = inference.state == "fixed"
        with Spool(work_folder(target), job, open_writer, vectors, fresh=fresh, resumable=resumable) as spool:
            resumed_after = spool.num_sentences
            progress.advance(resumed_after, 0)
            sentences = read_sentences(
                files,
                format=input_format,
                style=style,
                split=split,
                paragraphs=paragraphs,
                errors=errors,
                shard=shard,
                after=ResumePoint(resumed_after, spool.totals.digest),
                on_read=progress.read,
            )
            storable = sentences if layout == "default" else _without_blank_lines(sentences)
            _fill(spool, embedder, inference, storable, progress)
            spool.input_digest = sentences.digest
            spool.finish(target)
    return EmbedSummary(spool.totals.sentences, spool.totals.words, resumed_after)


def work_folder(target: Path) -> Path:
    """The folder next to the target that contains the unfinished work."""
    return target.with_name(f"{target.name}.partial")


_CHOICES = {
    "input_format": InputFormat,
    "paragraphs": Paragraphs,
    "tokenizer": TokenizerName,
    "errors": DecodingErrors,
    "layout": Layout,
}


def _check(**values: object) -> None:
    for name, value in values.items():
        if value is not None:
            check_value(name, value, _CHOICES[name])


def _check_shard(shard: tuple[int, int] | None, options: InferenceOptions) -> None:
    if shard is None:
        return
    check_value("shard", shard, tuple[int, int])
    check_shard(shard)
    if options.state == "carry":
        raise InputError("a carried state needs every sentence before it; give either a shard or state='carry'")


def _open_embedder(model: "ModelArgument", options: InferenceArguments) -> "Embedder":
    """The embedder of a model in any form. Engine options must agree with those of a given Embedder."""
    from elmore.embedding.embedder import Embedder
    from elmore.model import Model

    engine = InferenceOptions(**options).engine_arguments()
    if isinstance(model, Model):
        return Embedder(model, **engine)
    if model is None or isinstance(model, str | Path):
        return Embedder.from_pretrained(model, **engine)
    embedder = model if isinstance(model, Embedder) else model()
    check_engine_options(options, **embedder.options.engine_arguments())
    return embedder


def _description_of_model(embedder: "Embedder") -> dict[str, Any]:
    card = embedder.card
    return {
        "model": card.name or Path(card.source).name,
        "model_sha256": embedder.fingerprint(),
        "start_state": card.start_state_source or card.start_state,
        "compute": embedder.compute,
    }


def _without_blank_lines(sentences: SentenceStream) -> Iterator[tuple[int, SourceSentence]]:
    """The sentences, for a layout that stores only sentences with words; InputError for a blank line."""
    for number, sentence in sentences:
        if not sentence.words:
            raise InputError(
                f"{display_name(sentence.source)}, line {sentence.line}: a blank line, which this layout cannot store; "
                "remove the line, or write the default layout"
            )
        yield number, sentence


def _fill(
    spool: Spool,
    embedder: "Embedder",
    options: InferenceOptions,
    sentences: Iterable[tuple[int, SourceSentence]],
    progress: Progress,
) -> None:
    """Append the vectors of all sentences to the spool; a thread writes while the next batch is computed."""
    numbered = progress.track((sentence.words, (number, sentence)) for number, sentence in sentences)
    with WriterThread(Appender(spool).append) as writer:
        for encoded in embedder.encode_batches(numbered, options):
            for batch in _parts(encoded):
                writer.put(batch, size=batch.vectors.nbytes)
                progress.advance(len(batch.words), batch.vectors.shape[-2])


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
