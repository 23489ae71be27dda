"""`elmore predict`: what a task model says of raw text."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from elmore.cli.command import SOURCE, argument, option, verb
from elmore.cli.model_options import chosen_device, device_option
from elmore.cli.task_options import trained_bilm_option, trained_model_argument
from elmore.cli.verbosity import Verbosity


@verb()
@trained_model_argument
@argument("files", type=SOURCE, nargs=-1, metavar="[FILE...]", help="Text, a paragraph a line; without one, stdin.")
@trained_bilm_option
@option("--json", "as_json", is_flag=True, help="A JSON object a line, with the places of all labels.")
@device_option
def predict(
    verbosity: Verbosity, *, model: Path, files: tuple[str, ...], elmo: str | None, as_json: bool, device: str | None
) -> None:
    """Label the text of FILE, line by line."""
    from elmore.tasks.trained_model import load
    from elmore.text_files import read_lines

    def texts() -> Iterator[str]:
        for file in files or ("-",):
            yield from (line for line in read_lines(file) if line.strip())

    loaded = load(model, elmo=elmo, device=chosen_device(device, verbosity))
    for result in loaded.predict_iter(texts()):
        click.echo(json.dumps(asdict(result), ensure_ascii=False) if as_json else str(result))
        sys.stdout.flush()
