"""`elmore convert`: write a model in another format or with another card."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from elmore.cli.command import FILE, command, force_option, option, options_record, threads_option
from elmore.cli.options import ModelOptions, device_option, model_argument
from elmore.cli.output import Verbosity
from elmore.errors import InputError, NotFound
from elmore.text.style import TOKENIZER_VERSIONS, TOKENIZERS, TokenizerConfig, TokenizerName

CARD = "Model card"
FORMATS = ("folder", "folder-int8", "hdf5", "token-embeddings")


@dataclass(frozen=True, kw_only=True)
class StyleChanges:
    """Changes of the tokenizer settings in a model's card; None changes nothing."""

    tokenizer: TokenizerName | None
    tokenizer_version: int | None
    language: str | None
    lowercase: bool | None
    escape: bool | None

    def options(self) -> list[str]:
        """The options that the user gave."""
        return [f"--{name.replace('_', '-')}" for name, value in asdict(self).items() if value is not None]

    def applied_to(self, config: TokenizerConfig) -> TokenizerConfig:
        """The settings with these changes."""
        return config.with_overrides(**asdict(self))


style_options = options_record(
    "changes",
    StyleChanges,
    [
        option(
            "--tokenizer",
            type=click.Choice(TOKENIZERS),
            metavar="NAME",
            panel=CARD,
            help="moses, whitespace or characters.",
        ),
        option(
            "--tokenizer-version",
            type=click.IntRange(min(TOKENIZER_VERSIONS), max(TOKENIZER_VERSIONS)),
            metavar="N",
            panel=CARD,
            help="1: published models; 2: new corpora.",
        ),
        option("--language", metavar="CODE", panel=CARD, help="Language, as in: de."),
        option("--lowercase/--no-lowercase", default=None, panel=CARD, help="Words are converted to lower case."),
        option("--escape/--no-escape", default=None, panel=CARD, help="Words are HTML-escaped: &apos; for '."),
    ],
)


@command()
@model_argument
@option(
    "--output",
    "-o",
    type=FILE,
    required=True,
    metavar="PATH",
    help="The folder or file to write.",
)
@option(
    "--format",
    type=click.Choice(FORMATS),
    default="folder",
    metavar="FORMAT",
    help="folder: Elmore's format; folder-int8: a quarter of the size; hdf5: options.json and weights.hdf5; "
    "token-embeddings: the word vectors of --vocabulary in one HDF5 file.",
)
@option(
    "--warm",
    type=FILE,
    metavar="TEXT",
    help="Compute a warm start state from this text, and store it.",
)
@option(
    "--card",
    type=FILE,
    metavar="FILE",
    panel=CARD,
    help="A TOML file: name, description, license, and more.",
)
@force_option
@device_option
@threads_option
@style_options
def convert(
    verbosity: Verbosity,
    model: ModelOptions,
    changes: StyleChanges,
    *,
    output: Path,
    format: str,  # noqa: A002 (the flag's name)
    warm: Path | None,
    card: Path | None,
    force: bool,
) -> None:
    """Write MODEL in another format, or with another card."""
    if warm is not None and not warm.exists():
        raise NotFound(f"{warm}: no such file")
    runs = warm is not None or format == "token-embeddings"
    if model.device is not None and not runs:
        raise InputError("--device is only for --warm and --format token-embeddings, which run the model; omit it")
    if format == "token-embeddings" and (lost := [*changes.options(), *(["--card"] if card is not None else [])]):
        raise InputError(f"a file of token embeddings has no card; omit {' and '.join(lost)}")

    from elmore.embedding.warm_start import compute_warm_start, embed_vocabulary
    from elmore.files.output_paths import check_output
    from elmore.formats.card import apply_card_file, read_card_file
    from elmore.formats.token_embeddings import write_token_embeddings
    from elmore.model import save
    from elmore.text.sentence_reader import read_sentences
    from elmore.text.tokenizer import Tokenizer

    check_output(output, inputs=[*model.inputs, *(path for path in (warm, card) if path is not None)], force=force)
    card_content = {} if card is None else read_card_file(card)
    device = model.chosen_device(verbosity) if runs else "cpu"
    loaded = model.load_to_run(verbosity) if runs else model.load()
    style = changes.applied_to(loaded.card.text)
    Tokenizer(style)  # rejects invalid settings before they are written
    loaded = loaded.with_card(apply_card_file(replace(loaded.card, text=style), card_content))
    if warm is not None:
        sentences = (sentence.words for _, sentence in read_sentences(warm, style=style))
        loaded = compute_warm_start(loaded, sentences, text_name=warm.name, device=device)
    if format == "token-embeddings":
        write_token_embeddings(embed_vocabulary(loaded, device=device), output)
    else:
        save(loaded, output, format=format, force=force)
    verbosity.info(f"wrote {output}")
