"""`elmore embed`: a text file in, a file of vectors out."""

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Literal

import click

from elmore.cli.command import COMPUTING, INPUT, OUTPUT, SOURCE, argument, option, options_record, verb
from elmore.cli.model_options import ModelChoice, model_options
from elmore.cli.text_options import TEXT_HELP, TextChoice, text_options
from elmore.cli.verbosity import Verbosity, count
from elmore.errors import InputError
from elmore.text.reading import format_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from elmore.embedding.spool import Spool

ALLENNLP = "As `allennlp elmo` did"


@dataclass(frozen=True, kw_only=True)
class AllennlpLayout:
    """What of AllenNLP's file of vectors is wanted."""

    layout: Literal["default", "allennlp"]
    forget_sentences: bool
    use_sentence_keys: bool

    @property
    def chosen(self) -> bool:
        """Whether it is wanted at all."""
        return self.layout == "allennlp"


allennlp_options = options_record(
    "allennlp",
    AllennlpLayout,
    [
        option(
            "--layout",
            type=click.Choice(["default", "allennlp"]),
            default="default",
            metavar="WHICH",
            panel=ALLENNLP,
            help="allennlp: its HDF5 layout; implies --tokenized and --state carry.",
        ),
        option("--forget-sentences", is_flag=True, panel=ALLENNLP, help="Leave out sentence_to_index."),
        option("--use-sentence-keys", is_flag=True, panel=ALLENNLP, help="Name datasets by their sentences."),
    ],
)


@verb()
@argument("source", type=SOURCE, metavar="FILE", help=TEXT_HELP)
@option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Ends in .h5, .parquet or .npz.",
)
@option("--layers", default="average", metavar="WHICH", help="average, top, all, a number, or several: 0,2.")
@text_options
@option("--shard", metavar="K/N", panel=INPUT, help="Only the K-th of N parts, as in 3/8.")
@option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    metavar="TYPE",
    panel=OUTPUT,
    help="float32 or float16.",
)
@option("--fresh", is_flag=True, panel=OUTPUT, help="Start over, whatever a stopped try got done.")
@model_options
@option("--batch-tokens", default=2048, metavar="N", panel=COMPUTING, help="Words in a batch, padding counted.")
@option("--batch-size", type=int, metavar="N", panel=COMPUTING, help="Sentences in a batch, at most.")
@option(
    "--state",
    type=click.Choice(["fixed", "carry"]),
    metavar="HOW",
    panel=COMPUTING,
    help="fixed starts each sentence alike; carry goes on from the batch before (of 64, or --batch-size).",
    show_default="fixed",
)
@allennlp_options
def embed(
    verbosity: Verbosity,
    model: ModelChoice,
    text: TextChoice,
    allennlp: AllennlpLayout,
    *,
    source: str,
    output: Path,
    layers: str,
    shard: str | None,
    dtype: Literal["float32", "float16"],
    fresh: bool,
    batch_tokens: int,
    batch_size: int | None,
    state: Literal["fixed", "carry"] | None,
) -> None:
    """Embed every word of FILE into a file that `elmore.open_vectors` reads.

    Stopped half-way, the same command goes on from where it was.
    """
    if allennlp.chosen:
        state = state or "carry"
        if text.input_format is None and format_of(source) == "text":
            text = replace(text, tokenized=True)
    write = _writer(output, allennlp)

    from elmore.embedding.job import EmbedJob, unfinished_work

    job = EmbedJob(
        source=source,
        layers=_layers(layers),
        dtype=dtype,
        state="carry" if state == "carry" else None,
        batch_tokens=batch_tokens,
        batch_size=batch_size,
        input_format=text.format_of(source),
        split=not text.no_split,
        errors=text.errors,
        shard=_shard(shard),
        blank_lines=not allennlp.chosen,
        fresh=fresh,
    )
    # Before the model is loaded: a wrong file name should not cost minutes.
    job.check(output)

    from elmore.embedding.embedder import Embedder
    from elmore.progress import progress_bar

    loaded = model.load_to_run(verbosity)
    started = monotonic()
    with progress_bar("embedding", show=verbosity.show_progress) as progress:
        try:
            summary = job.run(Embedder(loaded), output, write=write, progress=progress)
        except KeyboardInterrupt:
            kept = unfinished_work(output).exists()
            verbosity.info(f"stopped; {'the same command goes on from where it was' if kept else 'nothing was kept'}")
            raise click.exceptions.Exit(130) from None
    resumed = f" ({summary.resumed_after:,} of them by an earlier try)" if summary.resumed_after else ""
    verbosity.info(f"wrote {output}: {count(summary.sentences, 'sentence')}{resumed}, {count(summary.words, 'word')}")
    verbosity.debug(f"took {monotonic() - started:.1f} s")


def _writer(output: Path, allennlp: AllennlpLayout) -> "Callable[[Spool, Path], None]":
    from elmore.embedding.sinks import sink_for

    sink = sink_for(output)
    if not allennlp.chosen:
        if allennlp.forget_sentences or allennlp.use_sentence_keys:
            raise InputError("--forget-sentences and --use-sentence-keys belong to --layout allennlp")
        return sink.write
    if output.suffix.lower() not in (".h5", ".hdf5"):
        raise InputError(f"{output}: --layout allennlp is a layout of HDF5 files; end the name in .hdf5")
    from elmore.embedding.sinks.allennlp import write

    kept: Literal["index", "forget", "keys"]
    kept = "keys" if allennlp.use_sentence_keys else "forget" if allennlp.forget_sentences else "index"
    return partial(write, sentences=kept)


def _layers(text: str) -> str | int | list[int]:
    """As `Embedder.encode` takes them: a word, a number, or several.

    >>> _layers("top"), _layers("2"), _layers("0,2")
    ('top', 2, [0, 2])
    """
    if text in ("all", "top", "average"):
        return text
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise InputError(f"--layers is {text!r}; give all, top, average, a number, or several as in 0,2")
    numbers = [int(number) for number in text.split(",")]
    return numbers[0] if len(numbers) == 1 else numbers


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(f"--shard is {text!r}; give the part and their number, as in 3/8")
    return int(found[1]), int(found[2])
