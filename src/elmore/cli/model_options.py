"""The options by which every verb is told which model to use."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from elmore.model import Model

MODEL_HELP = "A folder, archive, file, address (https://…), or known name."
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)]
ModelOption = Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL", help=MODEL_HELP)]
OptionsFile = Annotated[str | None, typer.Option(help="options.json of a pair, a path or an address.")]
WeightFile = Annotated[str | None, typer.Option(help="weights.hdf5 of a pair, a path or an address.")]
VocabularyFile = Annotated[Path | None, typer.Option("--vocab", help="A vocabulary file, a word a line.")]
TokenEmbeddingsFile = Annotated[
    Path | None, typer.Option(help="Precomputed word vectors (HDF5) for --vocab, instead of the character encoder.")
]
