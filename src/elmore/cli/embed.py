"""`elmore embed`: text in, a file of vectors out."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Literal, get_args

import click

from elmore.cli.command import (
    COMPUTING,
    FILE,
    INPUT,
    OUTPUT,
    SOURCE,
    argument,
    option,
    options_record,
    state_option,
    verb,
)
from elmore.cli.model_options import ModelChoice, compute_option, model_options
from elmore.cli.text_options import TEXT_HELP, TextChoice, text_options
from elmore.cli.verbosity import Verbosity
from elmore.defaults import (
    DEFAULT_BATCH_TOKENS,
    DEFAULT_CARRY_BATCH_SIZE,
    DEFAULT_DTYPE,
    DEFAULT_LAYERS,
    DEFAULT_STATE,
    ComputeName,
    DtypeName,
    StateName,
)
from elmore.display import pluralize
from elmore.errors import InputError
from elmore.text.input_format import format_of

if TYPE_CHECKING:
    from elmore.embedding.vector_files import Layout
    from elmore.model import Model

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

    @property
    def name(self) -> "Layout":
        """The name that `elmore.embed_file` has for it."""
        if not self.chosen and (self.forget_sentences or self.use_sentence_keys):
            raise InputError("--forget-sentences and --use-sentence-keys belong to --layout allennlp")
        if self.use_sentence_keys:
            return "allennlp-sentence-keys"
        return "allennlp-without-sentences" if self.forget_sentences else self.layout


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
@argument("sources", type=SOURCE, nargs=-1, required=True, metavar="FILE...", help=TEXT_HELP)
@option(
    "--output",
    "-o",
    type=FILE,
    required=True,
    metavar="FILE",
    help="Ends in .h5, .parquet or .npz.",
)
@option("--layers", default=DEFAULT_LAYERS, metavar="WHICH", help="average, top, all, a number, or several: 0,2.")
@text_options
@option("--shard", metavar="K/N", panel=INPUT, help="Only the K-th of N parts, as in 3/8.")
@option(
    "--dtype",
    type=click.Choice(get_args(DtypeName)),
    default=DEFAULT_DTYPE,
    metavar="TYPE",
    panel=OUTPUT,
    help="float32 or float16.",
)
@option("--fresh", is_flag=True, panel=OUTPUT, help="Start over, even if an interrupted job can be resumed.")
@option("--force", is_flag=True, panel=OUTPUT, help="Replace a file that Elmore did not write.")
@model_options
@compute_option
@option(
    "--batch-tokens",
    type=int,
    metavar="N",
    panel=COMPUTING,
    help=f"Words in a batch, padding counted: {DEFAULT_BATCH_TOKENS}, and on a GPU as many as suit it.",
)
@option("--batch-size", type=int, metavar="N", panel=COMPUTING, help="Sentences in a batch, at most.")
@state_option(
    "fixed starts each sentence alike; carry goes on from the batch before, "
    f"of {DEFAULT_CARRY_BATCH_SIZE} sentences or --batch-size.",
    default=None,  # --layout allennlp implies another
)
@allennlp_options
def embed(
    verbosity: Verbosity,
    model: ModelChoice,
    text: TextChoice,
    allennlp: AllennlpLayout,
    *,
    sources: tuple[str, ...],
    output: Path,
    layers: str,
    shard: str | None,
    dtype: DtypeName,
    fresh: bool,
    force: bool,
    compute: ComputeName,
    batch_tokens: int | None,
    batch_size: int | None,
    state: StateName | None,
) -> None:
    """Embed every word of FILE into a file that `elmore.open_vectors` reads.

    To resume an interrupted job, run the same command again.
    """
    files = text.find(sources)
    if allennlp.chosen:
        state = state or "carry"
        if text.input_format is None and all(format_of(file) == "text" for file in files):
            text = replace(text, tokenized=True)
    input_format = text.format_of(files)

    from elmore.embedding.embed_file import embed_file, work_folder
    from elmore.embedding.embedder import Embedder
    from elmore.files.output_paths import check_output

    check_output(output, inputs=model.inputs, force=True)  # the rest is for embed_file to check

    def embedder() -> Embedder:
        device = model.chosen_device(verbosity)
        if state == "carry":
            verbosity.info("the state is carried from sentence to sentence, so that a stopped job has to start over")

        def load() -> "Model":
            loaded = model.load_to_run(verbosity)
            loaded.fingerprint()  # here, while the weights are in memory: a job stores it
            return loaded

        return Embedder.from_source(load, device=device, compute=compute)

    started = monotonic()
    try:
        summary = embed_file(
            files,
            output,
            model=embedder,
            show_progress_bar=verbosity.show_progress,
            layers=_layers(layers),
            dtype=dtype,
            state=state or DEFAULT_STATE,
            batch_tokens=batch_tokens,
            batch_size=batch_size,
            input_format=input_format,
            split=not text.no_split,
            paragraphs=text.paragraphs,
            language=text.language,
            tokenizer=text.tokenizer,
            token_style=text.token_style,
            errors=text.errors,
            shard=_shard(shard),
            layout=allennlp.name,
            fresh=fresh,
            force=force,
        )
    except KeyboardInterrupt:
        saved = work_folder(output).exists()
        verbosity.info(f"stopped; {'the same command resumes the work' if saved else 'nothing was saved'}")
        raise click.exceptions.Exit(130) from None
    resumed = f" ({summary.resumed_after:,} of them by an earlier try)" if summary.resumed_after else ""
    verbosity.info(
        f"wrote {output}: {pluralize(summary.sentences, 'sentence')}{resumed}, {pluralize(summary.words, 'word')}"
    )
    verbosity.debug(f"took {monotonic() - started:.1f} s")


def _layers(text: str) -> str | int | list[int]:
    """As `Embedder.encode` takes them: a word, a number, or several.

    >>> _layers("top"), _layers("-1"), _layers("0,2")
    ('top', -1, [0, 2])
    """
    if text in ("all", "top", "average"):
        return text
    if not re.fullmatch(r"-?\d+(,-?\d+)*", text):
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
