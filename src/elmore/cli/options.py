"""Options that several commands share: the model, its device, and how text is read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from elmore.cli.command import (
    ADDRESS,
    COMPUTING,
    FILE,
    INPUT,
    MODEL_FILES,
    Decorator,
    argument,
    option,
    options_record,
    threads_option,
)
from elmore.cli.output import Verbosity
from elmore.defaults import ComputeName
from elmore.embedding.options import InferenceOptions
from elmore.files.input_files import InputFormat, find_inputs
from elmore.files.text_files import DEFAULT_ERRORS, DecodingErrors
from elmore.text.paragraphs import PARAGRAPHS, Paragraphs
from elmore.text.style import TOKENIZERS, TokenizerConfig, TokenizerName, TokenStyle

if TYPE_CHECKING:
    from elmore.model import Model
    from elmore.progress import Progress
    from elmore.scoring.scorer import LanguageModelScorer


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The model given on the command line."""

    model: str | None
    options_file: str | None
    weight_file: str | None
    vocabulary: Path | None
    token_embeddings: Path | None
    device: str | None = None

    @property
    def inputs(self) -> list[str | Path]:
        """The paths, addresses and names of the model, as the user wrote them."""
        inputs = (self.model, self.options_file, self.weight_file, self.vocabulary, self.token_embeddings)
        return [each for each in inputs if each is not None]

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

    def load_scorer(self, verbosity: Verbosity, compute: ComputeName) -> "LanguageModelScorer":
        """Load the model with its softmax, on its device."""
        from elmore.scoring.scorer import LanguageModelScorer

        device = self.chosen_device(verbosity)
        return LanguageModelScorer(self.load_to_run(verbosity), device=device, compute=compute)

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


def complete_names(names: Sequence[str], incomplete: str, *, otherwise: str = "file") -> list[CompletionItem]:
    """The names with this beginning; if there is none, files or folders (`otherwise` is "file" or "dir")."""
    matches = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return matches or [CompletionItem(incomplete, type=otherwise)]


def complete_model(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a model, or a path."""
    from elmore.sources import list_models

    return complete_names(list_models(), incomplete)


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

_MODEL_HELP = "Name, folder, archive, file or address of a model. Default: elmore-en."
_MODEL_FILES = [
    option("--options-file", type=ADDRESS, metavar="FILE", panel=MODEL_FILES, help="options.json: path or address."),
    option("--weight-file", type=ADDRESS, metavar="FILE", panel=MODEL_FILES, help="weights.hdf5: path or address."),
    option("--vocabulary", type=FILE, metavar="FILE", panel=MODEL_FILES, help="Vocabulary, one word per line."),
    option(
        "--token-embeddings",
        type=FILE,
        metavar="FILE",
        panel=MODEL_FILES,
        help="Word vectors (HDF5) for --vocabulary, instead of the model's character encoder.",
    ),
]
# For commands about a model: `elmore info MODEL`.
model_argument = options_record(
    "model",
    ModelOptions,
    [
        argument("model", metavar="[MODEL]", required=False, shell_complete=complete_model, help=_MODEL_HELP),
        *_MODEL_FILES,
    ],
)
# For commands about text: `elmore embed FILE --model MODEL`.
model_options = options_record(
    "model",
    ModelOptions,
    [
        option("--model", "-m", metavar="MODEL", shell_complete=complete_model, help=_MODEL_HELP),
        device_option,
        threads_option,
        *_MODEL_FILES,
    ],
)

TEXT_HELP = "Files of text, CoNLL-U or FASTA, also .gz .bz2 .xz .zst; folders, globs; - is stdin."


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How text is read."""

    tokenized: bool
    no_split: bool
    input_format: InputFormat | None
    errors: DecodingErrors
    paragraphs: Paragraphs | None
    language: str | None
    tokenizer: TokenizerName | None
    token_style: TokenStyle

    def find(self, sources: Sequence[str]) -> list[str]:
        """The files for the arguments of a command, with a warning about skipped files."""
        inputs = find_inputs(sources)
        inputs.warn_about_skipped()
        return inputs.files

    def format_of(self, files: Sequence[str]) -> InputFormat | None:
        """The format of all files, None if each name decides; InputError if an option contradicts a file."""
        from elmore.text.sentence_reader import resolve_format

        return resolve_format(
            files, input_format=self.input_format, tokenized=self.tokenized, token_style=self.token_style
        )

    def with_overrides(self, config: TokenizerConfig) -> TokenizerConfig:
        """The tokenizer of a model, with the language and the tokenizer that options name."""
        return config.with_overrides(language=self.language, tokenizer=self.tokenizer)

    def read(self, files: Sequence[str], config: TokenizerConfig, progress: "Progress") -> Iterator[list[str]]:
        """The words of each sentence of the files."""
        from elmore.text.sentence_reader import read_sentences

        sentences = read_sentences(
            files,
            style=self.with_overrides(config),
            format=self.format_of(files),
            split=not self.no_split,
            paragraphs=self.paragraphs,
            errors=self.errors,
            on_read=progress.read,
        )
        return (sentence.words for _, sentence in sentences)


tokenized_option = option(
    "--tokenized", is_flag=True, panel=INPUT, help="One sentence per line, its words separated by spaces."
)
errors_option = option(
    "--errors",
    type=click.Choice(get_args(DecodingErrors)),
    default=DEFAULT_ERRORS,
    metavar="HOW",
    panel=INPUT,
    help="At bytes that are not UTF-8: strict stops, replace reads U+FFFD.",
)
paragraphs_option = option(
    "--paragraphs",
    type=click.Choice(PARAGRAPHS),
    metavar="HOW",
    panel=INPUT,
    help="What ends a paragraph: each line, or a blank-line. Default: detected.",
)
token_style_option = inference_option("token_style", panel=INPUT)
text_options = options_record(
    "text",
    TextOptions,
    [
        tokenized_option,
        option("--no-split", is_flag=True, panel=INPUT, help="Each line is a sentence, also a blank line."),
        option(
            "--input-format",
            type=click.Choice(get_args(InputFormat)),
            metavar="KIND",
            panel=INPUT,
            help=f"{', '.join(get_args(InputFormat))}. Default: by the file's name.",
        ),
        paragraphs_option,
        option(
            "--language",
            metavar="CODE",
            panel=INPUT,
            help="Language of the rules for splitting and tokenization, as in: de. Default: the model's.",
        ),
        option(
            "--tokenizer",
            type=click.Choice(TOKENIZERS),
            metavar="NAME",
            panel=INPUT,
            help=f"{', '.join(TOKENIZERS)}. Default: the model's.",
        ),
        token_style_option,
        errors_option,
    ],
)
