"""The options that select a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click
from click.shell_completion import CompletionItem

from elmore.cli.command import (
    ADDRESS,
    COMPUTING,
    FILE,
    MODEL_IN_PIECES,
    argument,
    option,
    options_record,
    threads_option,
)
from elmore.cli.verbosity import Verbosity
from elmore.defaults import DEFAULT_COMPUTE, ComputeName

if TYPE_CHECKING:
    from elmore.model import Model
    from elmore.scoring.predictor import Predictor


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """The model given on the command line."""

    model: str | None
    options_file: str | None
    weight_file: str | None
    vocabulary: Path | None
    token_embeddings: Path | None
    device: str | None = None

    @property
    def inputs(self) -> list[str | Path]:
        """What it is read from: paths, addresses and names, as they were given."""
        given = (self.model, self.options_file, self.weight_file, self.vocabulary, self.token_embeddings)
        return [each for each in given if each is not None]

    def load(self) -> "Model":
        """Load the model."""
        from elmore.model import load  # imported here: NumPy takes a tenth of a second

        return load(
            self.model,
            options_file=self.options_file,
            weight_file=self.weight_file,
            vocabulary=self.vocabulary,
            token_embeddings=self.token_embeddings,
        )

    def load_to_run(self, verbosity: Verbosity) -> "Model":
        """Load the model and print its name."""
        loaded = self.load()
        name = loaded.card.name or loaded.card.source
        verbosity.debug(f"model: {name}, {loaded.config.num_parameters:,} parameters")
        return loaded

    def load_scorer(self, verbosity: Verbosity, compute: ComputeName) -> "Predictor":
        """Load the model with its softmax, on its device."""
        from elmore.scoring.predictor import Predictor

        device = self.chosen_device(verbosity)
        return Predictor(self.load_to_run(verbosity), device=device, compute=compute)

    def chosen_device(self, verbosity: Verbosity) -> str:
        """The device to run on, printed unless it is the CPU."""
        return chosen_device(self.device, verbosity)


def chosen_device(device: str | None, verbosity: Verbosity) -> str:
    """The device to run on, printed unless it is the CPU."""
    from elmore.engine.open_engine import resolve_device

    name = resolve_device(device)
    if name != "cpu":
        verbosity.info(f"running on {name}")
    return name


def complete_model(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The known names that begin so; where there is none, files and folders."""
    from elmore.sources import known_names

    names = [name for name in known_names() if name.startswith(incomplete)]
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


_HELP = "A folder, archive, file, address or known name; without one, elmore-en."
_IN_PIECES = (
    option(
        "--options-file",
        type=ADDRESS,
        metavar="FILE",
        panel=MODEL_IN_PIECES,
        help="Its options.json, a path or an address.",
    ),
    option(
        "--weight-file",
        type=ADDRESS,
        metavar="FILE",
        panel=MODEL_IN_PIECES,
        help="Its weights.hdf5, a path or an address.",
    ),
    option(
        "--vocabulary",
        type=FILE,
        metavar="FILE",
        panel=MODEL_IN_PIECES,
        help="Its vocabulary, a word a line.",
    ),
    option(
        "--token-embeddings",
        type=FILE,
        metavar="FILE",
        panel=MODEL_IN_PIECES,
        help="Word vectors (HDF5) for --vocabulary, used instead of its character encoder.",
    ),
)
device_option = option(
    "--device", metavar="DEVICE", panel=COMPUTING, help="cpu, cuda, cuda:1, mps; by default a GPU, if there is one."
)
compute_option = option(
    "--compute",
    type=click.Choice(get_args(ComputeName)),
    default=DEFAULT_COMPUTE,
    metavar="TYPE",
    panel=COMPUTING,
    help="float32, or faster and rougher: bfloat16, with some three digits; on a CPU int8, with some two; on an NVIDIA "
    "GPU tf32, with products rounded to some four.",
)

# For verbs about a model: `elmore info MODEL`.
model_argument = options_record(
    "model",
    ModelChoice,
    [argument("model", metavar="[MODEL]", required=False, shell_complete=complete_model, help=_HELP), *_IN_PIECES],
)
# For verbs about a text: `elmore embed FILE --model MODEL`.
model_options = options_record(
    "model",
    ModelChoice,
    [
        option("--model", "-m", metavar="MODEL", shell_complete=complete_model, help=_HELP),
        device_option,
        threads_option,
        *_IN_PIECES,
    ],
)
