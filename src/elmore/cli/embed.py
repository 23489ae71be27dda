"""`elmore embed`: a text file in, a file of vectors out."""

import re
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.model_options import ModelOption, OptionsFile, TokenEmbeddingsFile, VocabularyFile, WeightFile
from elmore.cli.speaking import Quiet, Speech, Verbose
from elmore.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from elmore.embedding.spool import Spool


class Layout(StrEnum):
    """What an HDF5 file looks like inside."""

    default = "default"
    allennlp = "allennlp"


class Dtype(StrEnum):
    """The numbers in the file."""

    float32 = "float32"
    float16 = "float16"


class Errors(StrEnum):
    """What to do about bytes that are not UTF-8."""

    strict = "strict"
    replace = "replace"


class InputKind(StrEnum):
    """What the input is."""

    text = "text"
    tokenized = "tokenized"
    conllu = "conllu"
    fasta = "fasta"


class StateChoice(StrEnum):
    """Where the reading of a sentence starts."""

    fixed = "fixed"
    carry = "carry"


def embed(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="Text, CoNLL-U or FASTA; plain, gz, xz, zst; - for stdin.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="vectors.h5, .parquet or .npz")],
    model: ModelOption = None,
    layers: Annotated[str, typer.Option(help="all, top, average, a number, or several as in 0,2.")] = "average",
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="A sentence a line, words separated by blanks: take them as they are.")
    ] = False,
    split: Annotated[bool, typer.Option(help="Split lines of running text into sentences.")] = True,
    input_format: Annotated[InputKind | None, typer.Option(help="By default the file's name tells.")] = None,
    errors: Annotated[Errors, typer.Option(help="Bytes that are not UTF-8: stop, or replace them.")] = Errors.strict,
    shard: Annotated[str | None, typer.Option(metavar="K/N", help="Only the K-th of N parts, as in 3/8.")] = None,
    dtype: Annotated[Dtype, typer.Option(help="The numbers in the file.")] = Dtype.float32,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...")] = None,
    batch_tokens: Annotated[int, typer.Option(help="Positions in a batch, padding counted.")] = 2048,
    state: Annotated[
        StateChoice | None,
        typer.Option(help="Start each sentence from the model's state, or carry it on as the peers do."),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows of a batch; 64 when the state is carried.")] = None,
    layout: Annotated[
        Layout,
        typer.Option(help="HDF5: ours, or that of `allennlp elmo`, which also implies --tokenized --state carry."),
    ] = Layout.default,
    forget_sentences: Annotated[
        bool, typer.Option("--forget-sentences", help="allennlp layout: leave out sentence_to_index.")
    ] = False,
    use_sentence_keys: Annotated[
        bool, typer.Option("--use-sentence-keys", help="allennlp layout: name datasets by their sentences.")
    ] = False,
    options_file: OptionsFile = None,
    weight_file: WeightFile = None,
    vocab: VocabularyFile = None,
    token_embeddings: TokenEmbeddingsFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Embed every word of FILE and write the vectors to a file that `elmore.open_vectors` reads back."""
    speech = Speech.of(context, quiet=quiet, verbose=verbose)
    allennlp = layout is Layout.allennlp
    if (forget_sentences or use_sentence_keys) and not allennlp:
        raise InputError("--forget-sentences and --use-sentence-keys belong to --layout allennlp")
    chosen_layers = _layers(layers)
    part = _shard(shard)
    if tokenized:
        input_format = InputKind.tokenized
    if allennlp:
        input_format = input_format or InputKind.tokenized
        state = state or StateChoice.carry
    # Before the model is loaded: a wrong file name should not cost minutes.
    write = _writer(output, allennlp=allennlp, forget=forget_sentences, keys=use_sentence_keys)

    from elmore.embedding.embedder import Embedder
    from elmore.embedding.job import EmbedJob
    from elmore.model import load
    from elmore.progress import progress_bar

    job = EmbedJob(
        source=source,
        layers=chosen_layers,
        dtype=dtype.value,
        state="carry" if state is StateChoice.carry else None,
        batch_tokens=batch_tokens,
        batch_size=batch_size,
        input_format=input_format.value if input_format else None,
        split=split,
        errors=errors.value,
        shard=part,
        blank_lines=not allennlp,
    )
    loaded = load(
        model,
        options=options_file,
        weights=weight_file,
        vocabulary=vocab,
        token_embeddings=token_embeddings,
        device=device,
    )
    with progress_bar("embedding", show=speech.progress) as progress:
        try:
            summary = job.run(Embedder(loaded), output, write=write, progress=progress)
        except KeyboardInterrupt:
            speech.say(f"stopped; the same command goes on from where it was ({output}.partial)")
            raise typer.Exit(130) from None
    resumed = f", {summary.resumed_after:,} of them by an earlier try" if summary.resumed_after else ""
    speech.say(f"wrote {output}: {summary.sentences:,} sentences{resumed}, {summary.tokens:,} words")


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
