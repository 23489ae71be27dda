"""Whole files embedded into a file of vectors: resumable, in bounded memory, whole or not at all."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Literal, NamedTuple

from elmore.defaults import DEFAULT_DTYPE, DEFAULT_LAYERS, DEFAULT_STATE, StateName
from elmore.embedding.embedder import Embedder
from elmore.embedding.encode_options import DtypeArgument, EncodeOptions, dtype_name
from elmore.embedding.layer_choice import LayerChoice, LayersArgument
from elmore.embedding.sinks import sink_for
from elmore.embedding.spool import EmbeddedSentence, Spool
from elmore.embedding.stream import taken_from
from elmore.embedding.vectors import is_vector_file
from elmore.errors import InputError, NotFound
from elmore.fields import check_value
from elmore.output_paths import check_output
from elmore.progress import Progress
from elmore.text.input_format import InputFormat, format_of
from elmore.text.paragraphs import Paragraphs
from elmore.text.reading import ReadingPosition, SentenceStream, SourceSentence, check_shard, read_sentences
from elmore.text.style import DEFAULT_TOKEN_STYLE, TextStyle, TokenizerName, TokenStyle
from elmore.text_files import DEFAULT_ERRORS, DecodingErrors, name_of

STDIN = "-"

# The first commit comes soon, so that whatever stops a job, some of it is kept.
FIRST_COMMIT_SECONDS = 1.0
COMMIT_SECONDS = 10.0

Layout = Literal["default", "allennlp", "allennlp-without-sentences", "allennlp-sentence-keys"]

_CHOICES = {
    "input_format": InputFormat,
    "paragraphs": Paragraphs,
    "tokenizer": TokenizerName,
    "errors": DecodingErrors,
    "shard": tuple[int, int],
    "layout": Layout,
}


class EmbedSummary(NamedTuple):
    """What a job did."""

    sentences: int
    words: int
    resumed_after: int  # sentences that an earlier try had done


@dataclass(frozen=True, kw_only=True, repr=False)
class EmbedJob:
    """What to embed, and how; `elmore.embed_file` makes one of these and runs it."""

    sources: tuple[str, ...]  # paths, or "-" for stdin
    layers: LayersArgument = DEFAULT_LAYERS
    dtype: DtypeArgument = DEFAULT_DTYPE
    state: StateName = DEFAULT_STATE
    batch_tokens: int | None = None  # None: what suits the device
    batch_size: int | None = None
    input_format: InputFormat | None = None  # None: by the file's name
    split: bool = True
    paragraphs: Paragraphs | None = None  # None: found out from the text
    language: str | None = None  # None, and of the tokeniser too: as the model's card has it
    tokenizer: TokenizerName | None = None
    token_style: TokenStyle = DEFAULT_TOKEN_STYLE  # of text that comes as tokens; others than moses are converted
    errors: DecodingErrors = DEFAULT_ERRORS
    shard: tuple[int, int] | None = None  # (3, 8): the third of eight parts
    layout: Layout = "default"  # the others are those of `allennlp elmo`, for HDF5
    fresh: bool = False  # start over, whatever an earlier try left
    force: bool = False  # replace a target that Elmore did not write

    def __repr__(self) -> str:
        """What is not as usual."""
        changed = (field for field in fields(self) if getattr(self, field.name) != field.default)
        return f"EmbedJob({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in changed)})"

    @property
    def resumable(self) -> bool:
        """Whether a try that was stopped can be gone on with: not where a state is carried, which nobody keeps."""
        return self.state == "fixed"

    @property
    def encoding(self) -> EncodeOptions:
        """The options for the embedder."""
        return EncodeOptions(
            layers=self.layers,
            state=self.state,
            dtype=self.dtype,
            batch_tokens=self.batch_tokens,
            batch_size=self.batch_size,
            token_style=self.token_style,
        )

    def check(self, target: Path) -> None:
        """Refuse what cannot work, before anybody waits for a model."""
        for name, kind in _CHOICES.items():
            if (value := getattr(self, name)) is not None:
                check_value(name, value, kind)
        if self.shard is not None:
            check_shard(self.shard)
        if self.encoding.state == "carry" and self.shard is not None:
            raise InputError("a carried state needs every sentence before it; leave out the shard, or the carrying")
        for source in self.sources:
            if source != STDIN and not Path(source).exists():
                raise NotFound(f"{source}: no such file")
            if Path(source).is_dir():
                raise InputError(f"{source}: is a folder; name a file")
            if self.token_style != "moses" and (self.input_format or format_of(source)) == "text":
                raise InputError(f"{source}: is running text, and a token style is for text that comes as tokens")
        if target.is_dir():
            raise InputError(f"{target}: is a folder; name a file to write")
        self._writer(target)
        check_output(target, inputs=self.sources, is_ours=is_vector_file, force=self.force)

    def run(self, embedder: Embedder, target: Path, *, progress: Progress) -> EmbedSummary:
        """Embed the sources into the target; a stopped try is gone on with."""
        self.check(target)
        write = self._writer(target)
        with self._opened_spool(embedder, target) as spool:
            try:
                resumed_after = spool.done
                progress.advance(resumed_after, 0)
                self._fill(spool, embedder, progress)
                write(spool, target)
            except BaseException:
                # A folder with nothing to go on with would only be in the way of the next try.
                if not (spool.done and self.resumable):
                    spool.remove()
                raise
            summary = EmbedSummary(spool.totals.sentences, spool.totals.words, resumed_after)
            spool.remove()
        return summary

    def _fill(self, spool: Spool, embedder: Embedder, progress: Progress) -> None:
        """Put into the spool what it does not have yet."""
        style = self._style(embedder)
        after = ReadingPosition(spool.done, spool.totals.digest)
        read = self._sentences(style, after=after, on_read=progress.read)
        given = progress.track((sentence.words, (number, sentence)) for number, sentence in self._checked(read))
        commit_due = monotonic() + FIRST_COMMIT_SECONDS
        for chunk in embedder.encode_chunks(given, self.encoding):
            for (number, sentence), vectors in taken_from(chunk):
                label, digest = sentence.label, sentence.digest
                spool.append(EmbeddedSentence(number, sentence.words, label, vectors.numpy(), digest))
                progress.advance(1, len(sentence.words))
            # Before the next chunk, for which a large model works for minutes: not the time to lose this one.
            if self.resumable and monotonic() > commit_due:
                spool.commit()
                commit_due = monotonic() + COMMIT_SECONDS
        spool.input_digest = read.digest
        spool.commit()

    def _writer(self, target: Path) -> Callable[[Spool, Path], None]:
        """What makes a file of a full spool."""
        sink = sink_for(target)
        if self.layout == "default":
            return sink.write
        if target.suffix.lower() not in (".h5", ".hdf5"):
            raise InputError(f"{target}: the layout of AllenNLP is one of HDF5 files; end the name in .hdf5")
        # Imported here: h5py takes a while.
        from elmore.embedding.sinks.allennlp import write

        sentences: dict[str, Literal["index", "forget", "keys"]] = {
            "allennlp": "index",
            "allennlp-without-sentences": "forget",
            "allennlp-sentence-keys": "keys",
        }
        return partial(write, sentences=sentences[self.layout])

    def _opened_spool(self, embedder: Embedder, target: Path) -> Spool:
        choice = LayerChoice.parse(self.layers, num_layers=embedder.num_layers)

        def opened(*, fresh: bool) -> Spool:
            return Spool(
                work_folder(target),
                self._description(embedder, choice),
                dim=embedder.dim,
                layers=None if choice.merged else len(choice.indices),
                dtype=dtype_name(self.dtype),
                fresh=fresh,
            )

        spool = opened(fresh=self.fresh)
        if spool.done and not self.resumable:
            spool.remove()
            spool = opened(fresh=True)
        return spool

    def _description(self, embedder: Embedder, choice: LayerChoice) -> dict[str, Any]:
        """All that decides the numbers: an unfinished job is gone on with only if none of it has changed.

        How bad bytes are met is not among it: those that were read, were read well. Nor are the folder and the date of
        the input; what was read of it is known by its digest.
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
            "start_state": card.start_state_from or card.start_state,
            "carried_rows": self.encoding.carried_rows,
            "layers": choice.name,
        }

    def _style(self, embedder: Embedder) -> TextStyle:
        style = embedder.card.text
        return replace(style, language=self.language or style.language, tokenizer=self.tokenizer or style.tokenizer)

    def _sentences(self, style: TextStyle, *, after: ReadingPosition, on_read: Callable[[int], None]) -> SentenceStream:
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

    def _checked(self, read: SentenceStream) -> Iterator[tuple[int, SourceSentence]]:
        """The sentences, as long as the layout has a place for them."""
        for number, sentence in read:
            if self.layout != "default" and not sentence.words:
                raise InputError(
                    f"{name_of(sentence.source)}, line {sentence.line}: a blank line, and this layout has no place "
                    "for it; take it out, or write the default layout"
                )
            yield number, sentence


def work_folder(target: Path) -> Path:
    """The folder beside the target in which a job works, and which a stopped one leaves."""
    return target.with_name(f"{target.name}.partial")
