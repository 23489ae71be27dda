"""`elmore embed`: text in, a file of vectors out."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from elmore.cli.command import FILE, INPUT, OUTPUT, SOURCE, argument, option, options_record, verb
from elmore.cli.model_options import ModelChoice, compute_option, inference_option, model_options
from elmore.cli.text_options import TEXT_HELP, TextChoice, text_options
from elmore.cli.verbosity import Verbosity
from elmore.defaults import DEFAULT_STATE, DtypeName, StateName
from elmore.display import pluralize
from elmore.embedding.options import parse_layers
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
@option("--output", "-o", type=FILE, required=True, metavar="FILE", help="Ends in .h5, .parquet or .npz.")
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
    model: ModelChoice,
    text: TextChoice,
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
            verbosity.info("the state is carried from sentence to sentence: an interrupted job starts over")

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
            shard=_shard(shard),
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


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(f"--shard is {text!r}; give the part and their number, as in 3/8")
    return int(found[1]), int(found[2])
