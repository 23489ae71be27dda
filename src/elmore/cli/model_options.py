"""The options by which every verb is told which model to use."""

from pathlib import Path
from typing import Annotated

import typer

IN_PIECES = "A model in pieces"
COMPUTING = "Computing"

MODEL_HELP = "A folder, archive, file, address or known name."
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)]
ModelOption = Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL", help=MODEL_HELP)]
OptionsFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Its options.json, a path or an address.", rich_help_panel=IN_PIECES),
]
WeightFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Its weights.hdf5, a path or an address.", rich_help_panel=IN_PIECES),
]
VocabularyFile = Annotated[
    Path | None,
    typer.Option("--vocab", metavar="FILE", help="Its vocabulary, a word a line.", rich_help_panel=IN_PIECES),
]
TokenEmbeddingsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Word vectors (HDF5) for --vocab, used instead of its character encoder.",
        rich_help_panel=IN_PIECES,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="DEVICE", help="cpu, cuda, cuda:1, mps ...", rich_help_panel=COMPUTING),
]
