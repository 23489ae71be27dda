"""A whole file embedded into a file of vectors: resumable, in bounded memory, whole or not at all."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Literal, NamedTuple

from elmore.defaults import DEFAULT_BATCH_TOKENS, DEFAULT_CARRY_ROWS
from elmore.embedding.embedder import Embedder
from elmore.embedding.layer_choice import LayerChoice, LayersArgument
from elmore.embedding.spool import COMMIT_SECONDS, EmbeddedSentence, Spool
from elmore.errors import InputError, NotFound
from elmore.progress import Progress
from elmore.text.reading import InputFormat, ReadingPosition, SourceSentence, read_sentences
from elmore.text.style import TextStyle
from elmore.text_files import DecodingErrors

STDIN = "-"


class Summary(NamedTuple):
    """What a job did."""

    sentences: int
    words: int
    resumed_after: int  # sentences that an earlier try had done


@dataclass(frozen=True, kw_only=True)
class EmbedJob:
    """What to embed, and how.

    >>> import tempfile
    >>> from elmore import Embedder, open_vectors
    >>> from elmore.embedding.sinks import sink_for
    >>> from elmore.progress import progress_bar
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("I took a bow. Me too.")
    >>> job = EmbedJob(source=str(folder / "a.txt"), layers="top")
    >>> target = folder / "vectors.npz"
    >>> with progress_bar("embedding", show=False) as progress:
    ...     job.run(Embedder.from_pretrained("tiny-random"), target, write=sink_for(target).write, progress=progress)
    Summary(sentences=2, words=8, resumed_after=0)
    >>> open_vectors(target)[1].shape
    (3, 32)
    """

    source: str  # a path, or "-" for stdin
    layers: LayersArgument = "average"
    dtype: Literal["float32", "float16"] = "float32"
    state: Literal["carry"] | None = None
    batch_tokens: int = DEFAULT_BATCH_TOKENS
    batch_size: int | None = None
    input_format: InputFormat | None = None  # None: by the file's name
    split: bool = True
    errors: DecodingErrors = "strict"
    shard: tuple[int, int] | None = None  # (3, 8): the third of eight parts
    blank_lines: bool = True  # False: a sentence without words is an error
    fresh: bool = False  # start over, whatever an earlier try left

    @property
    def resumable(self) -> bool:
        """Whether a try that was stopped can be gone on with: not from a pipe, nor where a state is carried."""
        return self.source != STDIN and self.state is None

    def check(self, target: Path) -> None:
        """Refuse what cannot work, before anybody waits for a model."""
        if self.state == "carry" and self.shard is not None:
            raise InputError("a carried state needs every sentence before it; leave out the shard, or the carrying")
        if self.source != STDIN and not Path(self.source).exists():
            raise NotFound(f"{self.source}: no such file")
        if Path(self.source).is_dir():
            raise InputError(f"{self.source}: is a folder; name a file")
        if target.is_dir():
            raise InputError(f"{target}: is a folder; name a file to write")
        if not target.parent.is_dir():
            raise NotFound(f"{target}: the folder {target.parent} does not exist; make it first")

    def run(
        self, embedder: Embedder, target: Path, *, write: Callable[[Spool, Path], None], progress: Progress
    ) -> Summary:
        """Embed the source into the target, which `write` makes of a full spool; a stopped try is gone on with."""
        self.check(target)
        spool = self._spool(embedder, target, fresh=self.fresh)
        if spool.done and not self.resumable:
            spool.remove()
            spool = self._spool(embedder, target, fresh=True)
        with spool:
            try:
                resumed_after = spool.done
                progress.advance(resumed_after, 0)
                commit_due = monotonic() + COMMIT_SECONDS
                for sentence, comes_last in self._embedded(
                    embedder, after=ReadingPosition(resumed_after, spool.totals.digest)
                ):
                    spool.append(sentence)
                    progress.advance(1, len(sentence.words))
                    # Sentences come in bursts, and after one a large model works for minutes: not the time to lose it.
                    if comes_last and monotonic() > commit_due:
                        spool.commit()
                        commit_due = monotonic() + COMMIT_SECONDS
                spool.commit()
                write(spool, target)
            except BaseException:
                # A folder with nothing to go on with would only be in the way of the next try.
                if not (spool.done and self.resumable):
                    spool.remove()
                raise
            summary = Summary(spool.totals.sentences, spool.totals.words, resumed_after)
            spool.remove()
        return summary

    def _spool(self, embedder: Embedder, target: Path, *, fresh: bool) -> Spool:
        choice = LayerChoice.parse(self.layers, num_layers=embedder.num_layers)
        return Spool(
            unfinished_work(target),
            self._description(embedder),
            dim=embedder.dim,
            layers=None if choice.merged else len(choice.numbers),
            dtype=self.dtype,
            fresh=fresh,
        )

    def _description(self, embedder: Embedder) -> dict[str, Any]:
        """All that decides the numbers: an unfinished job is gone on with only if none of it has changed.

        How bad bytes are met is not among it: those that were read, were read well.
        """
        card = embedder.model.card
        carried_rows = (self.batch_size or DEFAULT_CARRY_ROWS) if self.state == "carry" else None
        return {
            **_identity(self.source),
            "input_format": self.input_format,
            "split": self.split,
            "shard": self.shard,
            "text": asdict(card.text),
            "model": card.name or Path(card.source).name,
            "model_sha256": embedder.model.fingerprint(),
            "start_state": card.start_state_from or card.start_state,
            "carried_rows": carried_rows,
            "layers": self.layers,
        }

    def _embedded(self, embedder: Embedder, *, after: ReadingPosition) -> Iterator[tuple[EmbeddedSentence, bool]]:
        """Every sentence with its vectors, and whether it is the last before the embedder reads on."""
        # The embedder reads ahead; what it has taken and not yet given back waits here.
        waiting: deque[tuple[int, SourceSentence]] = deque()

        def words() -> Iterator[list[str]]:
            for number, sentence in self._sentences(embedder.model.card.text, after=after):
                waiting.append((number, sentence))
                yield sentence.words

        stream = embedder.encode_iter(
            words(),
            layers=self.layers,
            state=self.state,
            dtype=self.dtype,
            batch_tokens=self.batch_tokens,
            batch_size=self.batch_size,
        )
        for vectors in stream:
            number, sentence = waiting.popleft()
            yield EmbeddedSentence(number, sentence.words, sentence.label, vectors, sentence.digest), not waiting

    def _sentences(self, style: TextStyle, *, after: ReadingPosition) -> Iterator[tuple[int, SourceSentence]]:
        numbered = read_sentences(
            self.source,
            format=self.input_format,
            style=style,
            split=self.split,
            errors=self.errors,
            shard=self.shard,
            after=after,
        )
        for number, sentence in numbered:
            if not (sentence.words or self.blank_lines):
                raise InputError(
                    f"{self.source}, line {sentence.line}: a blank line, and this layout has no place for it; "
                    "take it out, or write the default layout"
                )
            yield number, sentence


def unfinished_work(target: Path) -> Path:
    """The folder beside the target in which a job works, and which a stopped one leaves."""
    return target.with_name(f"{target.name}.partial")


def _identity(source: str) -> dict[str, Any]:
    """What tells one input from another; not its folder, which may have another name tomorrow."""
    if source == STDIN:
        return {"input": STDIN}
    status = Path(source).stat()
    modified = datetime.fromtimestamp(status.st_mtime, UTC).isoformat()
    return {"input": Path(source).name, "input_bytes": status.st_size, "input_modified": modified}
