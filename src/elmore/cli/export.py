"""`elmore export`: a model for programs that have neither Elmore nor torch."""

from pathlib import Path

from elmore.cli.command import FILE, force_option, option, verb
from elmore.cli.model_options import ModelChoice, model_argument
from elmore.cli.verbosity import Verbosity
from elmore.errors import InputError


@verb()
@model_argument
@option(
    "--output",
    "-o",
    type=FILE,
    required=True,
    metavar="FILE",
    help="The file to write: its name ends in .onnx.",
)
@force_option
def export(verbosity: Verbosity, model: ModelChoice, *, output: Path, force: bool) -> None:
    """Write MODEL as an ONNX file, for Java, C# or a browser.

    onnxruntime runs it: ids of words in, layers out. The file's metadata tell how words become ids.
    """
    if output.suffix.lower() != ".onnx":
        raise InputError(f"{output}: an export is an ONNX file; give it a name that ends in .onnx")

    from elmore.files.output_paths import check_output
    from elmore.integrations.onnx import export_onnx

    check_output(output, inputs=model.inputs, force=force)
    export_onnx(model.load(), output, force=force)
    verbosity.info(f"wrote {output}")
