"""`elmore embed`: write the vectors of a text to a file."""

from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from elmore.cli.command import FILE, INPUT, OUTPUT, SOURCE, argument, command, option, options_record
from elmore.cli.options import (
    TEXT_HELP,
    ModelOptions,
    TextOptions,
    compute_option,
    inference_option,
    model_options,
    text_options,
)
from elmore.cli.output import Verbosity
from elmore.defaults import DEFAULT_STATE, DtypeName, StateName
from elmore.display import pluralize
from elmore.embedding.options import parse_layers
from elmore.errors import InputError
from elmore.files.input_files import format_of

if TYPE_CHECKING:
    from elmore.embedding.vector_files import Layout
    from elmore.model import Model

ALLENNLP = "AllenNLP output"


@dataclass(frozen=True, kw_only=True)
class AllennlpLayout:
    """The requested layout of the vector file."""

    layout: Literal["default", "allennlp"]
    forget_sentences: bool
    use_sentence_keys: bool

    @property
    def chosen(self) -> bool:
        """Whether the layout is AllenNLP's."""
        return self.layout == "allennlp"

    @property
    def name(self) -> "Layout":
        """The name of the layout in `elmore.embed_file`."""
        if not self.chosen and (self.forget_sentences or self.use_sentence_keys):
            raise InputError("--forget-sentences and --use-sentence-keys require --layout allennlp")
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
        option("--forget-sentences", is_flag=True, panel=ALLENNLP, help="Omit sentence_to_index."),
        option("--use-sentence-keys", is_flag=True, panel=ALLENNLP, help="Name datasets by their sentences."),
    ],
)


@command()
@argument("sources", type=SOURCE, nargs=-1, required=True, metavar="FILE...", help=TEXT_HELP)
@option("--output", "-o", type=FILE, required=True, metavar="FILE", help="The file to write: .h5, .parquet or .npz.")
@inference_option("layers", panel="Options")
@text_options
@option("--shard", metavar="K/N", panel=INPUT, help="Embed part K of N, as in 3/8.")
@inference_option("dtype", type=click.Choice(get_args(DtypeName)), panel=OUTPUT)
@option("--fresh", is_flag=True, panel=OUTPUT, help="Start over, even if an interrupted job can be resumed.")
@option("--force", is_flag=True, panel=OUTPUT, help="Replace a file that Elmore did not write.")
@model_options
@compute_option
@inference_option("batch_tokens")
@inference_option("batch_size")
@inference_option("state", default=None, show_default=DEFAULT_STATE)  # --layout allennlp implies another
@allennlp_options
def embed(
    verbosity: Verbosity,
    model: ModelOptions,
    text: TextOptions,
    allennlp: AllennlpLayout,
    *,
    sources: tuple[str, ...],
    output: Path,
    shard: str | None,
    fresh: bool,
    force: bool,
    layers: str,
    state: StateName | None,
    **options: Any,
) -> None:
    """Write a vector for each word of FILE.

    `elmore.open_vectors` reads the output. To resume an interrupted job, run the same command again.
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
    from elmore.text.sentence_reader import parse_shard

    check_output(output, inputs=model.inputs, force=True)  # embed_file checks the rest

    def embedder() -> Embedder:
        device = model.chosen_device(verbosity)
        if state == "carry":
            verbosity.info("with --state carry an interrupted job cannot be resumed")

        def load() -> "Model":
            loaded = model.load_to_run(verbosity)
            loaded.fingerprint()  # here, while the weights are in memory: a job stores it
            return loaded

        return Embedder.from_source(load, device=device, compute=options["compute"])

    started = monotonic()
    try:
        summary = embed_file(
            files,
            output,
            model=embedder,
            show_progress_bar=verbosity.show_progress,
            layers=parse_layers(layers),
            state=state or DEFAULT_STATE,
            input_format=input_format,
            split=not text.no_split,
            paragraphs=text.paragraphs,
            language=text.language,
            tokenizer=text.tokenizer,
            token_style=text.token_style,
            errors=text.errors,
            shard=None if shard is None else parse_shard(shard),
            layout=allennlp.name,
            fresh=fresh,
            force=force,
            **options,
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
