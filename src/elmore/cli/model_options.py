"""The options that select a model."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from elmore.cli.command import (
    ADDRESS,
    COMPUTING,
    FILE,
    MODEL_IN_PIECES,
    Decorator,
    argument,
    option,
    options_record,
    threads_option,
)
from elmore.cli.verbosity import Verbosity
from elmore.defaults import ComputeName
from elmore.embedding.options import InferenceOptions

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
    from elmore.sources import list_models

    names = [name for name in list_models() if name.startswith(incomplete)]
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


def inference_option(name: str, **settings: Any) -> Decorator:
    """The option for a field of `InferenceOptions`, with the field's choices, default and help text."""
    declared = next(field for field in fields(InferenceOptions) if field.name == name)
    choices = get_args(declared.type) if get_origin(declared.type) is Literal else ()
    defaults = {
        "type": click.Choice(choices) if choices else int if declared.type == int | None else str,
        "default": declared.default,
        "metavar": _METAVARS[name],
        "panel": COMPUTING,
        "help": declared.metadata["help"],
    }
    return option(f"--{name.replace('_', '-')}", **{**defaults, **settings})


_METAVARS = {
    "layers": "WHICH",
    "state": "HOW",
    "dtype": "TYPE",
    "compute": "TYPE",
    "device": "DEVICE",
    "batch_tokens": "N",
    "batch_size": "N",
    "token_style": "STYLE",
}
device_option = inference_option("device", default=None, show_default="auto")
compute_option = inference_option("compute")

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
