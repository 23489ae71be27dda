"""`elmore embed`: a text file in, a file of vectors out."""

import re
from enum import StrEnum
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.model_options import (
    COMPUTING,
    Device,
    ModelOption,
    OptionsFile,
    TokenEmbeddingsFile,
    VocabularyFile,
    WeightFile,
)
from elmore.cli.speaking import Quiet, Speech, Verbose, count
from elmore.cli.text_options import (
    PANEL,
    Errors,
    ErrorsOption,
    InputFormatOption,
    StateChoice,
    Tokenized,
    chosen_format,
)
from elmore.errors import InputError
from elmore.text.reading import format_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from elmore.embedding.spool import Spool

ALLENNLP = "As `allennlp elmo` did"


class Layout(StrEnum):
    """What an HDF5 file looks like inside."""

    default = "default"
    allennlp = "allennlp"


class Dtype(StrEnum):
    """The numbers in the file."""

    float32 = "float32"
    float16 = "float16"


def embed(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="Text, CoNLL-U or FASTA, also .gz .bz2 .xz .zst; - is stdin.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Ends in .h5, .parquet or .npz.")],
    model: ModelOption = None,
    layers: Annotated[
        str, typer.Option(metavar="WHICH", help="average, top, all, a number, or several: 0,2.")
    ] = "average",
    tokenized: Tokenized = False,
    no_split: Annotated[
        bool,
        typer.Option("--no-split", help="A line is a sentence, blank ones too.", rich_help_panel=PANEL, metavar=""),
    ] = False,
    input_format: InputFormatOption = None,
    errors: ErrorsOption = Errors.strict,
    shard: Annotated[
        str | None,
        typer.Option(metavar="K/N", help="Only the K-th of N parts, as in 3/8.", rich_help_panel=PANEL),
    ] = None,
    dtype: Annotated[
        Dtype, typer.Option(metavar="TYPE", help="float32 or float16.", rich_help_panel="Output", show_choices=False)
    ] = Dtype.float32,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Start over, whatever a stopped try got done.", rich_help_panel="Output", metavar=""
        ),
    ] = False,
    device: Device = None,
    batch_tokens: Annotated[
        int, typer.Option(metavar="N", help="Words in a batch, padding counted.", rich_help_panel=COMPUTING)
    ] = 2048,
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", help="Sentences in a batch, at most.", rich_help_panel=COMPUTING)
    ] = None,
    state: Annotated[
        StateChoice | None,
        typer.Option(
            metavar="HOW",
            help="fixed starts each sentence alike; carry goes on from the batch before (of 64, or --batch-size).",
            rich_help_panel=COMPUTING,
            show_choices=False,
            show_default="fixed",
        ),
    ] = None,
    layout: Annotated[
        Layout,
        typer.Option(
            metavar="WHICH",
            help="allennlp: its HDF5 layout; implies --tokenized and --state carry.",
            rich_help_panel=ALLENNLP,
            show_choices=False,
        ),
    ] = Layout.default,
    forget_sentences: Annotated[
        bool,
        typer.Option("--forget-sentences", help="Leave out sentence_to_index.", rich_help_panel=ALLENNLP, metavar=""),
    ] = False,
    use_sentence_keys: Annotated[
        bool,
        typer.Option(
            "--use-sentence-keys", help="Name datasets by their sentences.", rich_help_panel=ALLENNLP, metavar=""
        ),
    ] = False,
    options_file: OptionsFile = None,
    weight_file: WeightFile = None,
    vocab: VocabularyFile = None,
    token_embeddings: TokenEmbeddingsFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Embed every word of FILE into a file that `elmore.open_vectors` reads.

    Stopped half-way, the same command goes on from where it was.
    """
    speech = Speech.of(context, quiet=quiet, verbose=verbose)
    allennlp = layout is Layout.allennlp
    if (forget_sentences or use_sentence_keys) and not allennlp:
        raise InputError("--forget-sentences and --use-sentence-keys belong to --layout allennlp")
    if allennlp:
        state = state or StateChoice.carry
        tokenized = tokenized or (input_format is None and format_of(source) == "text")
    write = _writer(output, allennlp=allennlp, forget=forget_sentences, keys=use_sentence_keys)

    from elmore.embedding.job import EmbedJob, unfinished_work

    job = EmbedJob(
        source=source,
        layers=_layers(layers),
        dtype=dtype.value,
        state="carry" if state is StateChoice.carry else None,
        batch_tokens=batch_tokens,
        batch_size=batch_size,
        input_format=chosen_format(source, input_format, tokenized=tokenized),
        split=not no_split,
        errors=errors.value,
        shard=_shard(shard),
        blank_lines=not allennlp,
        fresh=fresh,
    )
    # Before the model is loaded: a wrong file name should not cost minutes.
    job.check(output)

    from elmore.embedding.embedder import Embedder
    from elmore.model import load
    from elmore.progress import progress_bar

    loaded = load(
        model,
        options=options_file,
        weights=weight_file,
        vocabulary=vocab,
        token_embeddings=token_embeddings,
        device=device,
    )
    speech.add(
        f"model: {loaded.card.name or loaded.card.source}, {loaded.config.parameters:,} parameters, on {loaded.device}"
    )
    started = monotonic()
    with progress_bar("embedding", show=speech.progress) as progress:
        try:
            summary = job.run(Embedder(loaded), output, write=write, progress=progress)
        except KeyboardInterrupt:
            kept = unfinished_work(output).exists()
            speech.say(f"stopped; {'the same command goes on from where it was' if kept else 'nothing was kept'}")
            raise typer.Exit(130) from None
    resumed = f" ({summary.resumed_after:,} of them by an earlier try)" if summary.resumed_after else ""
    speech.say(f"wrote {output}: {count(summary.sentences, 'sentence')}{resumed}, {count(summary.words, 'word')}")
    speech.add(f"took {monotonic() - started:.1f} s")


def _writer(output: Path, *, allennlp: bool, forget: bool, keys: bool) -> "Callable[[Spool, Path], None]":
    from elmore.embedding.sinks import sink_for

    sink = sink_for(output)
    if not allennlp:
        return sink.write
    if output.suffix.lower() not in (".h5", ".hdf5"):
        raise InputError(f"{output}: --layout allennlp is a layout of HDF5 files; end the name in .hdf5")
    from elmore.embedding.sinks.allennlp import write

    return partial(write, sentences="keys" if keys else "forget" if forget else "index")


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
