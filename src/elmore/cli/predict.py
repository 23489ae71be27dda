"""`elmore predict`: label raw text with a task model."""

import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from elmore.cli.command import SOURCE, argument, command, option, threads_option
from elmore.cli.options import chosen_device, compute_option, device_option, errors_option
from elmore.cli.output import Verbosity
from elmore.cli.training_options import (
    models_and_files,
    trained_bilm_option,
    trained_model_argument,
    trained_task_option,
)
from elmore.defaults import ComputeName
from elmore.errors import InputError, InputWarning
from elmore.files.text_files import DEFAULT_ERRORS, DecodingErrors, display_name, read_lines

if TYPE_CHECKING:
    from elmore.tasks.core.trained_model import NamedText


@command()
@trained_model_argument
@argument(
    "files",
    type=SOURCE,
    nargs=-1,
    metavar="[FILE...]",
    help="Text, one paragraph per line, or a document. Default: stdin.",
)
@trained_task_option
@trained_bilm_option
@option("--json", "as_json", is_flag=True, help="Print JSON lines with the offsets of all labels.")
@option(
    "--official",
    is_flag=True,
    help="FILE is data as for evaluate, labeled or not; print the input of the task's official scorer.",
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
    task: str | None,
    elmo: str | None,
    as_json: bool,
    official: bool,
    errors: DecodingErrors,
    device: str | None,
    compute: ComputeName,
) -> None:
    """Label the text of FILE.

    Each line is labeled alone. A task that reads documents, such as coref, labels each FILE as one document.
    """
    from elmore.tasks.core.trained_model import load

    if official and as_json:
        raise InputError("--json and --official contradict each other; give one of them")
    if official and errors != DEFAULT_ERRORS:
        raise InputError(
            "--errors is for raw text; data for --official must be UTF-8. Convert the file, or omit --errors"
        )
    models, data = models_and_files(model, files)
    loaded = load(models, task=task, elmo=elmo, device=chosen_device(device, verbosity), compute=compute)
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
        verbosity.info("the input contains no text")


def _texts(files: tuple[str, ...], errors: DecodingErrors) -> "Iterator[NamedText]":
    """Each line that is not blank."""
    from elmore.tasks.core.trained_model import NamedText

    for file in files:
        for number, line in enumerate(_raw_lines(file, errors), start=1):
            if line.strip():
                yield NamedText(f"{display_name(file)}, line {number}", line)


def _documents(files: tuple[str, ...], errors: DecodingErrors) -> "Iterator[NamedText]":
    """Each file that is not blank, as one text, so that offsets in the text are offsets in the file."""
    from elmore.tasks.core.trained_model import NamedText

    for file in files:
        text = "".join(_raw_lines(file, errors, keep_ends=True))
        if text.strip():
            yield NamedText(display_name(file), text)
        elif len(files) > 1:
            warnings.warn(f"{display_name(file)}: contains no text, and is skipped", InputWarning, stacklevel=2)


def _raw_lines(file: str, errors: DecodingErrors, *, keep_ends: bool = False) -> Iterator[str]:
    """The lines of raw text. CoNLL-2012 is rejected, because its columns would be labeled as words."""
    for number, line in enumerate(read_lines(file, errors=errors, keep_ends=keep_ends)):
        if number == 0 and line.startswith("#begin document"):
            raise InputError(
                f"{display_name(file)}: is CoNLL-2012, not raw text; srl and coref read it with --official"
            )
        yield line
