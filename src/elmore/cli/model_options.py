"""The options by which a verb is told which model to use."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmore.cli.command import COMPUTING, MODEL_IN_PIECES, argument, option, options_record

if TYPE_CHECKING:
    from elmore.model import Model


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """The model that the command line names."""

    model: str | None
    options_file: str | None
    weight_file: str | None
    vocabulary: Path | None
    token_embeddings: Path | None
    device: str | None = None

    def load(self) -> "Model":
        """Load it."""
        # Imported here: torch takes seconds.
        from elmore.model import load

        return load(
            self.model,
            options=self.options_file,
            weights=self.weight_file,
            vocabulary=self.vocabulary,
            token_embeddings=self.token_embeddings,
            device=self.device,
        )


_HELP = "A folder, archive, file, address or known name; without one, elmore-en."
_FILE = click.Path(path_type=Path)
_IN_PIECES = (
    option("--options-file", metavar="FILE", panel=MODEL_IN_PIECES, help="Its options.json, a path or an address."),
    option("--weight-file", metavar="FILE", panel=MODEL_IN_PIECES, help="Its weights.hdf5, a path or an address."),
    option(
        "--vocab",
        "vocabulary",
        type=_FILE,
        metavar="FILE",
        panel=MODEL_IN_PIECES,
        help="Its vocabulary, a word a line.",
    ),
    option(
        "--token-embeddings",
        type=_FILE,
        metavar="FILE",
        panel=MODEL_IN_PIECES,
        help="Word vectors (HDF5) for --vocab, used instead of its character encoder.",
    ),
)
device_option = option("--device", metavar="DEVICE", panel=COMPUTING, help="cpu, cuda, cuda:1, mps ...")

# For verbs about a model: `elmore info MODEL`.
model_argument = options_record(
    "model", ModelChoice, [argument("model", metavar="[MODEL]", required=False, help=_HELP), *_IN_PIECES]
)
# For verbs about a text: `elmore embed FILE --model MODEL`.
model_options = options_record(
    "model", ModelChoice, [option("--model", "-m", metavar="MODEL", help=_HELP), device_option, *_IN_PIECES]
)
