"""`elmore predict`: what a task model says of raw text."""

import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from elmore.cli.command import SOURCE, argument, option, threads_option, verb
from elmore.cli.model_options import chosen_device, compute_option, device_option
from elmore.cli.task_options import models_and_files, trained_bilm_option, trained_model_argument
from elmore.cli.text_options import errors_option
from elmore.cli.verbosity import Verbosity
from elmore.defaults import ComputeName
from elmore.errors import InputError, InputWarning
from elmore.files.text_files import DEFAULT_ERRORS, DecodingErrors, display_name, read_lines

if TYPE_CHECKING:
    from elmore.tasks.core.trained_model import NamedText


@verb()
@trained_model_argument
@argument(
    "files",
    type=SOURCE,
    nargs=-1,
    metavar="[FILE...]",
    help="Text, a paragraph a line, or a document; without one, stdin.",
)
@trained_bilm_option
@option("--json", "as_json", is_flag=True, help="A JSON object a line, with the places of all labels.")
@option(
    "--official",
    is_flag=True,
    help="FILE is data as for evaluate, labelled or not; write what the task's official scorer takes.",
)
@errors_option
@device_option
@threads_option
@compute_option
def predict(
    verbosity: Verbosity,
    *,
    model: str,
    files: tuple[str, ...],
    elmo: str | None,
    as_json: bool,
    official: bool,
    errors: DecodingErrors,
    device: str | None,
    compute: ComputeName,
) -> None:
    """Label the text of FILE, line by line.

    A task that reads documents, as coref does, takes each FILE as one.
    """
    from elmore.tasks.core.trained_model import load

    if official and as_json:
        raise InputError("--json and --official were both given; take one, the official form is the scorer's")
    if official and errors != DEFAULT_ERRORS:
        raise InputError("--errors is for raw text, and files of data must be UTF-8; convert them, or leave it out")
    models, data = models_and_files(model, files)
    loaded = load(models, elmo=elmo, device=chosen_device(device, verbosity), compute=compute)
    if official:
        print(loaded.official_predictions(data or ("-",)))
        return
    is_empty = True
    texts = _documents if loaded.task.reads_documents else _texts
    for result in loaded.predict_named(texts(data or ("-",), errors)):
        print(json.dumps(asdict(result), ensure_ascii=False) if as_json else str(result))
        sys.stdout.flush()
        is_empty = False
    if is_empty:
        verbosity.info("there was no text to label")


def _texts(files: tuple[str, ...], errors: DecodingErrors) -> "Iterator[NamedText]":
    """Every line that holds something."""
    from elmore.tasks.core.trained_model import NamedText

    for file in files:
        for number, line in enumerate(_raw_lines(file, errors), start=1):
            if line.strip():
                yield NamedText(f"{display_name(file)}, line {number}", line)


def _documents(files: tuple[str, ...], errors: DecodingErrors) -> "Iterator[NamedText]":
    """Every file that holds something, whole, so that places in the text are places in the file; others are named."""
    from elmore.tasks.core.trained_model import NamedText

    for file in files:
        text = "".join(_raw_lines(file, errors, keep_ends=True))
        if text.strip():
            yield NamedText(display_name(file), text)
        elif len(files) > 1:
            warnings.warn(f"{display_name(file)}: holds no text, and is left out", InputWarning, stacklevel=2)


def _raw_lines(file: str, errors: DecodingErrors, *, keep_ends: bool = False) -> Iterator[str]:
    """The lines of raw text; the columns of CoNLL-2012 would be labelled as if they were words."""
    for number, line in enumerate(read_lines(file, errors=errors, keep_ends=keep_ends)):
        if number == 0 and line.startswith("#begin document"):
            raise InputError(
                f"{display_name(file)}: is CoNLL-2012, not raw text; srl and coref label its tokens with --official"
            )
        yield line
