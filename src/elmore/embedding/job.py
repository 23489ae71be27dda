"""A whole file embedded into a file of vectors: resumable, in bounded memory, whole or not at all."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from elmore.embedding.embedder import DEFAULT_BATCH_TOKENS, DEFAULT_CARRY_ROWS, Embedder
from elmore.embedding.layer_choice import LayerChoice, LayersArgument
from elmore.embedding.spool import EmbeddedSentence, Spool
from elmore.errors import InputError
from elmore.files import DecodingErrors
from elmore.progress import Progress
from elmore.text.reading import InputFormat, Sentence, read_sentences
from elmore.text.style import TextStyle

STDIN = "-"


class Summary(NamedTuple):
    """What a job did."""

    sentences: int
    tokens: int
    resumed_after: int  # sentences that an earlier try had done


@dataclass(frozen=True, kw_only=True)
class EmbedJob:
    """What to embed, and how."""

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

    def run(
        self, embedder: Embedder, target: Path, *, write: Callable[[Spool, Path], None], progress: Progress
    ) -> Summary:
        """Embed the source into the target, which `write` makes of a full spool; a stopped try is gone on with."""
        if self.state == "carry" and self.shard is not None:
            raise InputError("a carried state needs every sentence before it; leave out the shard, or the carrying")
        choice = LayerChoice.parse(self.layers, num_layers=embedder.num_layers)
        spool = Spool(
            target.with_name(f"{target.name}.partial"),
            self._description(embedder),
            dim=embedder.dim,
            layers=None if choice.merged else len(choice.numbers),
            dtype=self.dtype,
            # What came through a pipe cannot be read again, and a carried state is not stored.
            fresh=self.source == STDIN or self.state == "carry",
        )
        with spool:
            resumed_after = spool.done
            progress.advance(resumed_after, 0)
            for sentence in self._embedded(embedder, skip=resumed_after):
                spool.append(sentence)
                progress.advance(1, len(sentence.words))
            spool.commit()
            write(spool, target)
            summary = Summary(spool.totals.sentences, spool.totals.words, resumed_after)
            spool.remove()
        return summary

    def _embedded(self, embedder: Embedder, *, skip: int) -> Iterator[EmbeddedSentence]:
        # The embedder reads ahead; what it has taken and not yet given back waits here.
        waiting: deque[tuple[int, Sentence]] = deque()

        def words() -> Iterator[list[str]]:
            for number, sentence in islice(self._sentences(embedder.model.card.text), skip, None):
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
            yield EmbeddedSentence(number, sentence.words, sentence.label, vectors)

    def _sentences(self, style: TextStyle) -> Iterator[tuple[int, Sentence]]:
        numbered = read_sentences(
            self.source,
            format=self.input_format,
            style=style,
            split=self.split,
            errors=self.errors,
            shard=self.shard,
        )
        for number, sentence in numbered:
            if not (sentence.words or self.blank_lines):
                raise InputError(
                    f"{self.source}, line {sentence.line}: a blank line, and this layout has no place for it"
                )
            yield number, sentence

    def _description(self, embedder: Embedder) -> dict[str, Any]:
        """All that decides the numbers: an unfinished job is gone on with only if none of it has changed."""
        card = embedder.model.card
        source: dict[str, Any] = {"name": self.source}
        if self.source != STDIN and Path(self.source).exists():
            status = Path(self.source).stat()
            source |= {"bytes": status.st_size, "modified": status.st_mtime_ns}
        carried = {"rows": self.batch_size or DEFAULT_CARRY_ROWS} if self.state == "carry" else None
        return {
            "source": source,
            "model": {"name": card.name or card.source, "sha256": embedder.model.fingerprint()},
            "start_state": card.start_state_from or card.start_state,
            "carried": carried,
            "layers": self.layers,
            "dtype": self.dtype,
            "input_format": self.input_format,
            "text": asdict(card.text),
            "split": self.split,
            "errors": self.errors,
            "shard": self.shard,
        }
